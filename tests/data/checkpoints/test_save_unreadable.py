# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checkpoints that are temporarily unreadable, or that another run writes to: none is lost, none counts as torn."""

from __future__ import annotations

import errno
import os

import pytest
from mlcluster_data.checkpoints import directory as checkpoint_store
from mlcluster_data.checkpoints.directory import step_name
from mlcluster_data.checkpoints.s3 import S3Store
from mlcluster_data.checkpoints.save import CheckpointError

from tests.data.support.checkpoint_place import Place, damage, empty, filled, in_s3, looked, own
from tests.data.support.fake_s3 import BUCKET, Unwell, _server, pauses, server
from tests.data.support.forked import ranks

__all__ = ["_server", "pauses", "server"]


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


@pytest.mark.parametrize("what", ["digest", "read"])
def test_temporarily_unreadable_checkpoint_is_not_torn(place, what):
    """An unavailable Lustre server causes EIO for good files: the run ends, and no older checkpoint is loaded."""
    place.save(1, 2)

    def work(report):
        before = getattr(checkpoint_store.durable, what)

        def away(path):
            if path.parent.name != step_name(2):
                return before(path)
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

        setattr(checkpoint_store.durable, what, away)
        opened = place.open()
        try:
            return opened.load(empty())
        finally:
            opened.close()

    with pytest.raises(CheckpointError, match=r"step 2 cannot be read now.*rank [01] .*Input/output error"):
        ranks(2, work, place.root)
    assert place.names() == ["latest", step_name(1), step_name(2)]
    assert place.load() == [(2, True, {"rank": 0, "step": 2})]


def test_torn_checkpoint_that_cannot_be_set_aside_ends_run(place):
    """Otherwise it would count as kept, and each new good checkpoint would be removed at once."""
    place.save(1, 2)
    damage(place.kept / step_name(2), "a byte")

    def work(report):
        opened = place.open(keep=1)

        def refused(step):
            raise OSError(errno.EACCES, os.strerror(errno.EACCES), "kept")

        opened.store.set_aside = refused
        try:
            return opened.load(empty())
        finally:
            opened.close()

    with pytest.raises(CheckpointError, match="Permission denied"):
        ranks(2, work, place.root)
    assert place.load() == [(1, True, {"rank": 0, "step": 1})]


@pytest.mark.parametrize("answer", [(503, "SlowDown"), (403, "InvalidObjectState")])
def test_temporary_s3_error_loses_no_checkpoint(place, server, pauses, answer):
    """With a failing server or an archived storage class no file is missing, so the checkpoint is not torn."""

    def save(opened):
        for step in (1, 2):
            opened.save(step, filled(step), own(step))
        return opened.close().error

    def load(opened):
        Unwell(opened.store.prefix, "GetObject", 1000, answer, "distcp")
        try:
            return opened.load(empty())
        finally:
            opened.close()

    assert in_s3(place, server, save) == [""]
    with pytest.raises(CheckpointError, match=r"step 2 cannot be read now.*__0_0\.distcp could not be fetched"):
        in_s3(place, server, load)
    assert list(place.local.rglob("*.distcp")) == []
    assert in_s3(place, server, looked) == [(2, True, {"rank": 0, "step": 2})]


def test_existing_step_in_s3_is_never_overwritten(place, server):
    def save(opened):
        opened.save(2, filled(2), own(2))
        return opened.close().error

    def other(opened):
        opened.save(2, filled(9), own(9))
        return opened.close().error

    assert in_s3(place, server, save) == [""]
    assert "is there already" in in_s3(place, server, other)[0]
    assert in_s3(place, server, looked) == [(2, True, {"rank": 0, "step": 2})]


def test_s3_does_not_publish_files_of_two_runs(place, server):
    def save(opened):
        put = opened.store.put

        def and_then_another(step, token, source):
            found = put(step, token, source)
            server.client.put_object(Bucket=BUCKET, Key=f"run/{step_name(step)}/__0_0.distcp", Body=b"another's")
            return found

        opened.store.put = and_then_another
        opened.save(1, filled(1), own(1))
        return opened.close().error

    assert "another run writes there" in in_s3(place, server, save)[0]
    assert S3Store(server.prefix()).steps() == []
