# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The look of the role nvidia_gds, its verdicts and its report, on a simulated GPU node."""

from __future__ import annotations

import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds import decide, role
from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds.config import parse_config
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.result import NOT_APPLICABLE, PASS

from tests.unit.fakes.fake_gds_host import Asker, node, outcome, raid0

from .test_plan import CUDA, KERNEL, NEXT, REFUSED, bare, kernels

MAKE_LOG = "/var/lib/dkms/nvidia-fs/{}/build/make.log"


@pytest.fixture(autouse=True)
def no_libcufile(monkeypatch):
    asker = Asker(outcome(step="open"), strict=REFUSED, own=outcome(), with_p2pdma=REFUSED, no_p2pdma=REFUSED)
    monkeypatch.setattr(role, "survey", lambda *given: decide.survey(*given, asker=asker))


def bad(host, **options):
    """Return the lines of the verdicts that are neither a pass nor not applicable."""
    config = parse_config(options)
    results = role.verify(role.look(host, config), config)
    return [entry.line() for entry in results if entry.status not in (PASS, NOT_APPLICABLE)]


def test_mounts_default_to_volumes_of_other_roles():
    host = bare()
    assert role.look(host, parse_config({}))["mounts"] == []
    volumes = {"state": "intact", "path": "/data", "volumes": [{"path": "/data"}]}
    host.files[role.LOCAL_STORAGE] = json.dumps(volumes)
    systems = [{"path": path, "efa": True} for path in ("/fsx", "/data", "/gone")]
    host.files[role.LUSTRE] = json.dumps({"file_systems": systems})
    host.mount("0:50 / /fsx rw - lustre 10.0.0.1@tcp:/abcdefgh rw")
    assert [mount["path"] for mount in role.look(host, parse_config({}))["mounts"]] == ["/data", "/fsx"]
    host.files[role.LOCAL_STORAGE] = json.dumps({**volumes, "state": "none"})
    assert [mount["path"] for mount in role.look(host, parse_config({}))["mounts"]] == ["/fsx"]
    given = role.look(host, parse_config({"mounts": ["/scratch"]}))
    assert [mount["path"] for mount in given["mounts"]] == ["/scratch"]


@pytest.mark.parametrize("text", ["", "[]", "{", '{"file_systems": [1], "state": "intact", "volumes": [2]}'])
def test_invalid_files_of_other_roles_name_no_mount(text):
    host = bare()
    host.files[role.LOCAL_STORAGE] = host.files[role.LUSTRE] = text
    assert (role.local_paths(host), role.lustre_mounts(host)) == ([], [])


def test_fsx_for_lustre_has_to_go_over_efa():
    host = bare()
    systems = [{"path": "/a", "efa": True}, {"path": "/b", "efa": False}, {"path": "/c"}]
    host.files[role.LUSTRE] = json.dumps({"file_systems": systems})
    for system in systems:
        host.mount(f"0:5{ord(system['path'][1]) - 97} / {system['path']} rw - lustre 10.0.0.1@tcp:/abcdefgh rw")
    found = [line for line in bad(host, mode="nvfs", **CUDA) if "gds.fsx" in line]
    assert [line.split("(")[1][:2] for line in found] == ["/b", "/c"]
    assert "PERSISTENT_2" in found[0]
    assert "does not record whether it uses EFA" in found[1]
    assert [line for line in bad(host, **CUDA) if "gds.fsx" in line] == []


def test_module_is_looked_for_in_running_and_next_kernel():
    def found(host, **options):
        config = parse_config({"mode": "nvfs", **CUDA, **options})
        return role.module_problems(role.look(host, config), config)

    running = f"nvidia-fs is missing for the running kernel {KERNEL}"
    following = f"nvidia-fs is missing for kernel {NEXT}, which the next boot uses"
    assert found(kernels(node())) == [running, following]
    assert found(kernels(node(), running="2.27.3")) == [following]
    assert found(kernels(node(), running="2.27.3", next="2.27.3")) == []
    assert found(kernels(node()), mode="compat") == []
    host = kernels(node())
    del host.files[f"/lib/modules/{NEXT}/modules.dep"]
    assert found(host, image_build=True) == [f"nvidia-fs is missing for kernel {KERNEL}, which the next boot uses"]
    assert any("gds.kernel_module" in line and running in line for line in bad(kernels(node()), mode="nvfs", **CUDA))


def test_missing_module_reports_end_of_newest_build_log():
    host = kernels(bare())
    host.files[MAKE_LOG.format("2.9.1")] = "old\n"
    host.files[MAKE_LOG.format("2.26.6")] = "first\nerror: no member\n"
    config = parse_config({"mode": "nvfs", "dkms_log_lines": 1, **CUDA})
    report = role.report(role.look(host, config), config)
    path = MAKE_LOG.format("2.26.6")
    assert report.details == (f"DKMS could not build nvidia-fs; the last lines of {path} are:\nerror: no member",)
    built = kernels(bare(), running="2.27.3", next="2.27.3")
    built.files.update(host.files)
    assert role.report(role.look(built, config), config).details == ()


def test_uninstallable_packages_fail():
    (line,) = [line for line in bad(bare(), install_enabled=False, **CUDA) if "gds.packages" in line]
    assert "nvidia_gds_install_enabled is false: libcufile-13-0, gds-tools-13-0" in line
    assert not any("gds.packages" in line for line in bad(bare(), **CUDA))


def test_missing_driver_fails_only_if_required():
    host = bare()
    del host.files["/proc/driver/nvidia/version"]
    assert bad(host) == []
    (line,) = bad(host, required=True)
    assert "nvidia_gds_required is true and no NVIDIA driver is loaded on this node: install one" in line


def test_inactive_required_mode_fails():
    host = node()
    raid0(host)
    options = {"mode": "p2pdma", "required": True, "mounts": ["/raid"], **CUDA}
    words = " ".join(bad(host, **options))
    assert "FAIL gds.mode (/raid)" in words
    assert "P2PDMA" in words
    config = parse_config(options)
    assert any(line.startswith("/raid is md raid0") for line in role.report(role.look(host, config), config).info)
    silent = parse_config({**options, "layout_advice": False})
    assert not any(line.startswith("/raid") for line in role.report(role.look(host, silent), silent).info)


def test_image_is_not_judged_by_its_builder():
    host = node()
    raid0(host)
    assert bad(host, mode="p2pdma", required=True, image_build=True, mounts=["/raid"], **CUDA) == []


def test_report_has_modes_and_boot_settings():
    config = parse_config({"mode": "p2pdma", "mounts": ["/data"], **CUDA})
    report = role.report(role.look(node(), config), config)
    assert report.facts["mlcluster_gds"]["mounts"] == {"/data": "compat"}
    assert len(report.facts["mlcluster_gds"]["reboot_needed"]) == 2
    assert any("reboot needed for RegistryDwords" in line for line in report.info)


def test_measurement_needs_gdsio(monkeypatch):
    calls = []
    monkeypatch.setattr(role, "bandwidth", lambda facts, mount, mib: calls.append((mount["path"], mib)) or calls)
    config = parse_config({"bandwidth": True, "bandwidth_mib": 8, "mounts": ["/data"]})
    assert role.look(bare(), config)["measured"] == []
    host = bare()
    host.programs["gdsio"] = "/usr/bin/gdsio"
    role.look(host, config)
    assert calls == [("/data", 8)]
    role.look(host, parse_config({"mounts": ["/data"]}))
    assert len(calls) == 1


def test_limit_grows_with_what_is_asked():
    plain = role.seconds(parse_config({}))
    assert role.seconds(parse_config({"probe_timeout": 60})) > plain
    assert role.seconds(parse_config({"bandwidth": True})) > plain + 300
