# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role's files on the node: removed, found again, damaged, and repaired; and the role as an optional one."""

from __future__ import annotations

import json

import pytest

from tests.rig.vm import prepare
from tests.rig.vm.guest import Guest
from tests.vm import helpers
from tests.vm.helpers import KEPT

pytestmark = pytest.mark.vm
RECORD = "/var/lib/mlcluster/local_storage.json"
OWN_FILES = (
    "/etc/mlcluster/storage.json",
    "/etc/systemd/system/mlcluster-storage.service",
    "/etc/systemd/system/multi-user.target.wants/mlcluster-storage.service",
    "/etc/mdadm/mdadm.conf.d/mlcluster.conf",
    "/usr/local/bin/mlcluster",
    "/usr/local/lib/mlcluster/mlcluster.pyz",
)


def present(node: Guest) -> list[str]:
    """Return those of the role's files that exist, including dangling links."""
    return node.script(
        'for path; do if test -e "$path" || test -L "$path"; then echo "$path"; fi; done', *OWN_FILES
    ).split()


def test_role_is_removed_with_consent_and_finds_volume_again(session_guest: Guest) -> None:
    """The role's files are removed with consent only, the data stay, and a later run finds its volume."""
    node = helpers.configured(session_guest)
    files = helpers.files_outside(node)
    refusal = helpers.entry(node, "remove").refusal
    assert "nothing was done, since nvme_raid0_remove_confirmed is not true" in refusal
    assert helpers.files_outside(node) == files and len(present(node)) == len(OWN_FILES)

    run = helpers.entry(node, "remove", nvme_raid0_remove_confirmed=True)
    assert run.rc == 0 and "kept the volume with its files" in run.output, run.errors
    assert present(node) == []
    seen = helpers.look(node)
    assert "/data" in seen.mounts and " /data " not in seen.fstab
    assert node.run(["cat", KEPT]).out == "kept\n"
    again = helpers.entry(node, "remove", nvme_raid0_remove_confirmed=True)
    assert (again.rc, again.changed) == (0, 0), again.errors

    node.reboot()
    assert helpers.settle(node) == "running"
    assert "/data" not in helpers.look(node).mounts
    run = helpers.configure(node)
    assert run.result_of("instance_store")["plan"]["situation"] == "intact"
    assert "make_filesystem" not in [step["action"] for step in run.result_of("instance_store")["actions"]]
    helpers.expect_volume(node)
    assert node.run(["cat", KEPT]).out == "kept\n"
    helpers.expect_unchanged(node)


def test_optional_role_reports_refusal_and_continues(session_guest: Guest) -> None:
    node = helpers.blank(session_guest)
    prepare.prepare(node, "lone-ext4")
    disks = helpers.digests(node)
    refused = helpers.entry(node, "main")
    assert "carries an ext4 signature" in refused.refusal and "went on with" not in refused.output
    run = helpers.entry(node, "main", nvme_raid0_required=False)
    assert run.rc == 0, run.errors
    assert "carries an ext4 signature" in run.output and helpers.CONSENT_SENTENCE in run.output
    assert "went on with storage state none" in run.output, run.output
    assert helpers.digests(node) == disks


SPOILED = {
    "empty": "",
    "cut": '{"schema": "mlcluster.local_storage/1", "serials": ["AWS1',
    "no object": "[1, 2]",
    "other schema": '{"schema": "somebody.else/7", "state": "intact"}',
    "wrong types": '{"schema": "mlcluster.local_storage/1", "serials": 7, "volumes": "x", "array_uuid": {}}',
    "no text": "\u0000\u0001\ufffd" * 40,
}


def test_damaged_record_never_loses_data(session_guest: Guest) -> None:
    """Without its record the array is foreign: it is refused and stays mounted, until the record is back."""
    node = helpers.configured(session_guest)
    good = node.run(["cat", RECORD]).out
    for name, text in SPOILED.items():
        node.run(["tee", RECORD], stdin=text)
        verdict = node.run("mlcluster storage-info", check=False)
        assert verdict.rc == 1 and "linux_raid_member" in verdict.out, f"{name}: {verdict}"
        assert "Traceback" not in verdict.out + verdict.err, f"{name}: {verdict}"
        boot = node.run("mlcluster storage-boot", check=False)
        assert boot.rc == 1 and "Traceback" not in boot.err, f"{name}: {boot}"
        assert node.run(["cat", KEPT]).out == "kept\n", name
        assert json.loads(node.run(["cat", RECORD]).out)["state"] == "foreign", name
    node.run(["tee", RECORD], stdin=SPOILED["cut"])
    refusal = helpers.play(node).refusal
    assert "nothing was touched" in refusal and "linux_raid_member" in refusal
    assert node.run(["cat", KEPT]).out == "kept\n"
    node.run(["tee", RECORD], stdin=good)
    helpers.expect_volume(node)
    helpers.expect_unchanged(node)


def test_manual_changes_are_repaired(session_guest: Guest) -> None:
    """Directories, modes, mount, unit and fstab line are restored, and the files stay."""
    node = helpers.configured(session_guest)
    node.run(
        "chmod 700 /data/scratch; rmdir /data/hf; rm /data/EPHEMERAL.txt; umount /data; systemctl disable -q "
        f"{helpers.UNIT}; sed -i '/ .data /d' /etc/fstab"
    )
    helpers.configure(node)
    helpers.expect_volume(node)
    assert node.run(["cat", KEPT]).out == "kept\n"
    helpers.expect_unchanged(node)


def test_bad_settings_fail_with_one_sentence(session_guest: Guest) -> None:
    """Each is rejected before anything is touched, with the error and the remedy."""
    node = helpers.blank(session_guest)
    node.run("mkdir /srv/full && mount -t tmpfs none /srv/full; mkdir /srv/files && touch /srv/files/one")
    for settings, sentence in (
        ({"nvme_raid0_fstype": "btrfs"}, "nvme_raid0_fstype"),
        ({"nvme_raid0_chunk_kib": 500}, "chunk_kib is 500: md needs a power of two"),
        ({"nvme_raid0_mount_point": "data"}, "mount_point is 'data': use an absolute path"),
        ({"nvme_raid0_mount_point": "/srv/full"}, "/srv/full already carries none (tmpfs)"),
        ({"nvme_raid0_mount_point": "/srv/files"}, "/srv/files has 1 entries on the root filesystem"),
        ({"nvme_raid0_array_name": "my array"}, "array_name is 'my array'"),
        ({"nvme_raid0_mode": "0777"}, "mode is 0777: all users could delete"),
        ({"nvme_raid0_users": ["nobody-here"]}, "there is no user nobody-here"),
    ):
        refusal = helpers.play(node, **settings).refusal
        assert sentence in refusal, f"{settings}: {refusal}"
        # Ansible's own argument check prints a headline above the message.
        assert "\n" not in refusal.replace("Validation of arguments failed:\n", "").strip(), f"{settings}: {refusal}"
    assert not helpers.look(node).arrays
