# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A converged head node: one host with three file systems, the other with one."""

from __future__ import annotations

import json

from testinfra.host import Host

UNIT = "mlcluster-lustre.service"
THREE = {
    "/fsx1/datasets": None,
    "/fsx1/weights": "-1",
    "/fsx2/model1/checkpoints": "-1",
    "/fsx2/model2/outputs": "-1",
    "/fsx3/model1/training_logs": "1",
    "/fsx3/model2/tensorboard": "1",
}
ONE = {
    "/fsx/data": None,
    "/fsx/scripts": "1",
    "/fsx/checkpoints/model1": "-1",
    "/fsx/outputs/model2": "-1",
    "/fsx/logs/model2": "1",
}


def wanted(host: Host) -> dict[str, str | None]:
    return THREE if host.file("/fsx1").exists else ONE


def test_directories_belong_to_group_and_hand_it_on(host: Host) -> None:
    seen = host.check_output(f"stat -c '%n %U %G %a' {' '.join(wanted(host))}").splitlines()
    assert seen == [f"{path} root ml 2775" for path in wanted(host)]


def test_new_files_can_be_written_by_whole_group(host: Host) -> None:
    path = next(iter(wanted(host)))
    script = "import os; print(os.getxattr('%s', 'system.posix_acl_default').hex())"
    entries = bytes.fromhex(host.check_output(f'python3 -c "{script % path}"'))
    # Tag 8 is a named group: rights rwx for the number of ml.
    assert bytes.fromhex("08000700") + (4711).to_bytes(4, "little") in entries


def test_directory_has_layout_of_its_class(host: Host) -> None:
    asked = "; ".join(f"cd {path} && lfs getstripe -d ." for path in wanted(host))
    for output, count in zip(host.check_output(asked).splitlines(), wanted(host).values(), strict=True):
        assert f"stripe_count:  {count or '1'} " in output
        assert (f"stripe_size:   {16 << 20} " in output) == (count == "-1")


def test_client_came_from_repository_and_is_held(host: Host) -> None:
    assert host.check_output("dpkg-query -W -f '${Version} ${Status}' lustre-client-modules-test").endswith(
        "2.15.6-1 hold ok installed"
    )


def test_unit_is_sound_and_enabled(host: Host) -> None:
    checked = host.run("systemd-analyze --man=no verify /etc/systemd/system/%s", UNIT)
    assert (checked.rc, checked.stdout, checked.stderr) == (0, "", "")
    assert host.service(UNIT).is_enabled
    assert host.check_output("systemctl show --property=Result --value %s", UNIT) == "success"


def test_client_is_tuned(host: Host) -> None:
    rows = host.check_output("lctl get_param '*c.*.max_rpcs_in_flight'").splitlines()
    assert [row.rsplit("=")[1] for row in rows] == ["32", "32", "64"]


def test_module_options_are_written_for_next_boot(host: Host) -> None:
    assert "options ksocklnd credits=2560\n" in host.file("/etc/modprobe.d/mlcluster-lustre.conf").content_string


def test_info_prints_json_report(host: Host) -> None:
    shown = host.run("mlcluster lustre-info --json")
    assert shown.rc == 0
    verdicts = {entry["id"]: entry["status"] for entry in json.loads(shown.stdout)["results"]}
    assert (verdicts["lustre.client"], verdicts["lustre.write_read"], verdicts["lustre.tuning"]) == ("pass",) * 3


def test_data_uses_efa_if_configured(host: Host) -> None:
    shown = host.run("mlcluster lustre-info").stdout
    is_one = not host.file("/fsx1").exists
    assert ("PASS lustre.network (/fsx)" in shown) == is_one
    assert host.file("/etc/systemd/system/configure-efa-fsx-lustre-client.service").exists == is_one
    assert not host.file("/var/cache/mlcluster/efa-fsx-lustre").exists


def test_no_temporary_file_is_left(host: Host) -> None:
    assert host.check_output("find /fsx* -name '.mlcluster*'") == ""
