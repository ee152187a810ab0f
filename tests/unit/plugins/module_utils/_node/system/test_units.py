# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.units import WANTS, parse_units, starts_at_boot

from tests.unit.fakes import fake_training_host as training_host


def test_several_units():
    text = training_host.unit("a.service", LimitMEMLOCK="65536") + "\n" + training_host.unit("b.service") + "\nX=1\n"
    assert sorted(parse_units(text)) == ["a.service", "b.service"]
    assert parse_units(text)["a.service"]["LimitMEMLOCK"] == "65536"
    assert parse_units("") == {}


def enabled(**links):
    """Return whether a.service starts at boot; links has the targets of the links ``unit`` and ``wants``."""
    host = training_host.TrainingHost()
    host.files["/usr/lib/systemd/system/a.service"] = "[Unit]"
    host.links = {"/etc/systemd/system/a.service": "/usr/lib/systemd/system/a.service", f"{WANTS}/a.service": ""}
    host.links.update({f"/etc/systemd/system/{'' if name == 'unit' else 'multi-user.target.wants/'}a.service": path
                       for name, path in links.items()})  # fmt: skip
    host.exists = lambda path: host.links.get(path, path) in ("", *host.files)
    return starts_at_boot(host, "a.service")


def test_enabled_unit_starts_at_boot():
    assert enabled(wants="/usr/lib/systemd/system/a.service")


def test_masked_or_missing_unit_does_not_start():
    good = "/usr/lib/systemd/system/a.service"
    assert not enabled(wants=good, unit="/dev/null")
    assert not enabled(wants="/dev/null")
    # A removed package leaves its link.
    assert not enabled(wants="/usr/lib/systemd/system/gone.service")
    assert not starts_at_boot(training_host.TrainingHost(), "a.service")
