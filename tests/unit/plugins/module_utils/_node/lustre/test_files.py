# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files of the role: the boot unit and the options of its lines in fstab."""

from __future__ import annotations

from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre import files


def line(text: str, key: str) -> list[str]:
    (found,) = [row for row in text.splitlines() if row.startswith(f"{key}=")]
    return found.partition("=")[2].split()


def test_unit_is_ordered_after_mounts() -> None:
    unit = files.boot_unit(["fsx1.mount", "fsx-a\\x2db.mount"], efa=False)
    assert line(unit, "After") == ["network-online.target", "remote-fs.target", "fsx1.mount", "fsx-a\\x2db.mount"]
    assert line(unit, "ExecStart") == [files.RUNTIME_PATH, "lustre-tune"]


def test_unit_with_efa_waits_for_set_up_and_proves_it() -> None:
    unit = files.boot_unit(["fsx.mount"], efa=True)
    assert line(unit, "After")[-1] == files.EFA_SERVICE
    starts = [row.split()[1:] for row in unit.splitlines() if row.startswith("ExecStart=")]
    assert starts == [["lustre-tune"], ["lustre-info", "--only", "lustre.network"]]


def test_only_mount_with_efa_waits_for_its_set_up() -> None:
    assert files.mount_options(["noatime", "nofail"], efa=False) == "noatime,nofail,x-mlcluster"
    with_efa = files.mount_options(["noatime", "nofail"], efa=True)
    assert with_efa == f"noatime,nofail,x-systemd.after={files.EFA_SERVICE},x-mlcluster"


def test_repository_of_unknown_distribution_is_skipped() -> None:
    assert set(files.files_to_read("Debian")) - set(files.files_to_read("")) == {files.REPOSITORY_PATHS["Debian"]}
    assert set(files.files_to_read("RedHat")) - set(files.files_to_read("")) == {files.REPOSITORY_PATHS["RedHat"]}
