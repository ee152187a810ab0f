# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A way to run a module as Ansible runs it, on a simulated node."""

from __future__ import annotations

import json
import types
import typing as t

import pytest
from ansible.module_utils.testing import patch_module_args

from tests.unit.plugins.module_utils._node.simulated import SimulatedHost

Runner = t.Callable[..., dict[str, t.Any]]


@pytest.fixture
def run_module(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Runner:
    """run_module(module, host, check=False, **options) gives what the module printed; its exit status fits that."""

    def run(module: types.ModuleType, host: SimulatedHost, check: bool = False, **options: t.Any) -> dict[str, t.Any]:
        monkeypatch.setattr(module, "Host", lambda: host)
        arguments = {**options, "_ansible_check_mode": check, "_ansible_diff": True}
        with patch_module_args(arguments), pytest.raises(SystemExit) as ended:
            module.main()
        result = json.loads(capsys.readouterr().out)
        assert bool(ended.value.code) == result.get("failed", False)
        return result

    return run
