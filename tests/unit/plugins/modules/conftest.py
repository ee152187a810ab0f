# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run a module as Ansible runs it, on a simulated node."""

from __future__ import annotations

import json
import types
import typing as t

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.mlcluster.aws.plugins.module_utils._cluster import aws

from tests.unit.fakes import fake_aws as aws_stub
from tests.unit.fakes.fake_storage_host import SimulatedHost

Runner = t.Callable[..., dict[str, t.Any]]


@pytest.fixture
def run_module(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Runner:
    """run_module(module, host, check=False, **options) gives what the module printed; its exit status fits that."""

    def run(module: types.ModuleType, host: SimulatedHost, check: bool = False, **options: t.Any) -> dict[str, t.Any]:
        monkeypatch.setattr(module, "Host", lambda: host)
        return _answer(module, capsys, {**options, "_ansible_check_mode": check, "_ansible_diff": True})

    return run


@pytest.fixture
def run_controller_module(capsys: pytest.CaptureFixture[str]) -> Runner:
    """The same for a module of the controller: run_controller_module(module, check=False, **options)."""

    def run(module: types.ModuleType, check: bool = False, **options: t.Any) -> dict[str, t.Any]:
        return _answer(module, capsys, {**options, "_ansible_check_mode": check})

    return run


@pytest.fixture
def fsx(monkeypatch: pytest.MonkeyPatch) -> t.Any:
    """The stubber of the client that modules get; what they ask for has to be given to it in turn."""
    client, stubber = aws_stub.client()
    monkeypatch.setattr(aws, "client", lambda params, service, connections=10: client)
    return stubber


@pytest.fixture
def run_on_fsx(fsx: t.Any, run_controller_module: Runner) -> Runner:
    """run_on_fsx(module, check=False, **options) in the region of the stub."""

    def run(module: types.ModuleType, check: bool = False, **options: t.Any) -> dict[str, t.Any]:
        return run_controller_module(module, check, region=aws_stub.REGION, **options)

    return run


def _answer(
    module: types.ModuleType, capsys: pytest.CaptureFixture[str], arguments: dict[str, t.Any]
) -> dict[str, t.Any]:
    with patch_module_args(arguments), pytest.raises(SystemExit) as ended:
        module.main()
    result = json.loads(capsys.readouterr().out)
    assert bool(ended.value.code) == result.get("failed", False)
    return result


@pytest.fixture
def run_on_controller(capsys: pytest.CaptureFixture[str]) -> Runner:
    """run_on_controller(module, check=False, **options) gives what a module printed that runs on the controller."""

    def run(module: types.ModuleType, check: bool = False, **options: t.Any) -> dict[str, t.Any]:
        with patch_module_args({**options, "_ansible_check_mode": check}), pytest.raises(SystemExit) as ended:
            module.main()
        result = json.loads(capsys.readouterr().out)
        assert bool(ended.value.code) == result.get("failed", False)
        return result

    return run
