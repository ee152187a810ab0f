# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The parts of the test suite: what each runs and how long it may take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """One part of the suite.

    ``allotted`` is in seconds for a cold run on two cores; ``command`` is an argument list run in
    the checkout, where ``{python}`` stands for the Python that runs the suite. ``closing`` tells
    which lines of the log are the runner's own verdict (a regular expression), shown at the end.
    """

    allotted: int
    command: tuple[str, ...]
    closing: str | None = None


PYTEST_CLOSING = r"^=+ .*\b\d+ (passed|failed|error|skipped|deselected).* in .*=+$"
MOLECULE_CLOSING = rf"{PYTEST_CLOSING}|^\S+ +: actions=\d"
# Each test has a limit, far above what it takes on the busiest machine: one that hangs must not hang the suite.
HANGS = "--timeout=900"
PYTEST = (".venv/bin/python", "-m", "pytest", "-p", "no:cacheprovider", "--durations=5")
INTEGRATION = (*PYTEST, HANGS, "tests/integration", "--ignore=tests/integration/slurm")

# One process: two beside the other lane were three loads on two cores, and jobs waited in vain for their turn.
SLURM = (*PYTEST, "--timeout=300", "tests/integration/slurm")

# The limit is that of a test alone: what comes before the first, the image, its boots and another session that has the
# guest, has limits of its own.
VM = (*PYTEST, "-v", "--timeout=1800", "--override-ini=timeout_func_only=true", "tests/vm")

PARTS = {
    "setup": Part(600, ("{python}", "-m", "tests.build.setup")),
    "lint": Part(180, ("{python}", "-m", "tests.build.lint")),
    "docs": Part(120, (".venv/bin/python", "-m", "tests.docs_check.docs_site", "lint")),
    "docs-site": Part(180, (".venv/bin/python", "-m", "tests.docs_check.docs_site")),
    "sanity": Part(360, ("{python}", "-m", "tests.build.sanity")),
    "unit": Part(360, (*PYTEST, HANGS, "tests/unit"), PYTEST_CLOSING),
    "integration": Part(420, (*INTEGRATION, "-m", "not slow"), PYTEST_CLOSING),
    "integration-slow": Part(240, (*INTEGRATION, "-m", "slow"), PYTEST_CLOSING),
    "slurm": Part(480, (*SLURM, "-m", "not slow"), PYTEST_CLOSING),
    "slurm-slow": Part(240, (*SLURM, "-m", "slow"), PYTEST_CLOSING),
    "data": Part(180, (".venv-data/bin/python", *PYTEST[1:], HANGS, "tests/data"), PYTEST_CLOSING),
    "molecule": Part(1500, ("{python}", "-m", "tests.build.molecule"), MOLECULE_CLOSING),
    "vm": Part(900, (*VM, "-m", "vm and ci"), PYTEST_CLOSING),
    "vm-all": Part(7200, (*VM, "-m", "vm"), PYTEST_CLOSING),
}

# A suite is a list of stages, one after the other; the lanes of a stage run side by side, one for each core, and
# the parts of a lane in turn. Set-up comes alone and first: without it nothing else can run.
SETUP = (("setup",),)
QUICK = ("lint", "docs", "sanity", "unit", "integration", "data", "slurm")
SUITES = {
    "test": (SETUP, (("vm", "molecule"), QUICK)),
    "test-all": (SETUP, (("molecule", "vm-all"), (*QUICK, "docs-site", "integration-slow", "slurm-slow"))),
    "test-vm-all": (SETUP, (("vm-all",),)),
}
