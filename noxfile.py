# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every part of the suite and its environment; ``make`` runs these sessions, ``.build/nox/bin/nox --list`` shows them.

The environments are made once and kept until their lock changes (tests/build/environments.py), so no session has one
of nox's own. tests/build/suite.py runs a whole suite.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import nox

CHECKOUT = Path(__file__).resolve().parent
sys.path.insert(0, str(CHECKOUT))

from tests.build import environments, house_rules, packages
from tests.build import molecule as molecule_scenarios
from tests.build import quick as changes

nox.needs_version = ">=2026.10"
nox.options.default_venv_backend = "none"
nox.options.sessions = ["quick"]

REQUIREMENTS = environments.REQUIREMENTS
VENV, LINT, DATA = (CHECKOUT / name / "bin" for name in (".venv", ".venv-lint", ".venv-data"))
COLLECTIONS = CHECKOUT / ".collections"
OURS = COLLECTIONS / "ansible_collections" / "mlcluster" / "aws"

# Each test has a limit, far above what it takes on the busiest machine: one that hangs must not hang the suite.
HANGS = "--timeout=900"
# The limit is that of a test alone: what comes before the first, the image, its boots and another session that has the
# guest, has limits of its own.
VM = ("-v", "--timeout=1800", "--override-ini=timeout_func_only=true", "tests/vm")
# One process: the daemons of Slurm and another session already load two cores.
SLURM = ("--timeout=300", "tests/integration/slurm")
INTEGRATION = (HANGS, "tests/integration", "--ignore=tests/integration/slurm")

# Code that runs on nodes, whose Python may be 3.9.
NODE_SOURCES = ("hooks", "plugins/module_utils", "plugins/modules")

# Each minor version of ansible-core: the Pythons to try in this order. Its release and the collections that fit it are
# pinned in requirements/matrix-VERSION.txt.
MATRIX = {
    "2.17": ("3.11", "3.12"),
    "2.18": ("3.11", "3.12", "3.13"),
    "2.19": ("3.11", "3.12", "3.13"),
    "2.20": ("3.12", "3.13", "3.14"),
    "2.21": ("3.12", "3.13", "3.14"),
}
WORKFLOWS = sorted((CHECKOUT / ".github" / "workflows").glob("*.yml"))
MATRIX_TESTS = (
    "tests/integration/inventory",
    "tests/unit/plugins/inventory",
    "tests/unit/plugins/plugin_utils",
    "tests/unit/roles/test_slurm_jobs_render.py",
)

# ansible-test asks for get-pip of a fixed version in its cache; ensurepip gives the same result from what Python ships.
GET_PIP = "import ensurepip\n\nensurepip.bootstrap(upgrade=True, default_pip=True)\n"


def run(session: nox.Session, program: Path | str, *words: str | Path, **options: object) -> object:
    """Run a program; on Ctrl-C it has all the time it needs to clean up."""
    options.setdefault("external", True)
    return session.run(str(program), *words, interrupt_timeout=None, **options)


def pytest(session: nox.Session, *words: str, python: Path = VENV / "python", **options: object) -> None:
    """Run pytest; more words come from the command line."""
    settings = ("-m", "pytest", "-p", "no:cacheprovider", "--durations=50")
    run(session, python, *settings, *words, *session.posargs, **options)


def lint_environment() -> dict[str, str]:
    """The lint environment's programs first; collections from the checkout only."""
    path = f"{LINT}{os.pathsep}{os.environ['PATH']}"
    return {"PATH": path, "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS), "NO_COLOR": "1"}


@nox.session
def setup(session: nox.Session) -> None:
    """Make what the other sessions need; complete environments are kept."""
    with environments.locked("setup"):
        try:
            python = environments.ensure_environment(CHECKOUT / ".venv", REQUIREMENTS / "build.txt")
            environments.ensure_environment(CHECKOUT / ".venv-lint", REQUIREMENTS / "lint.txt")
            environments.ensure_data(CHECKOUT / ".venv-data", retry=bool(os.environ.get("RETRY")))
            environments.ensure_environment(
                CHECKOUT / ".venv-pcluster", REQUIREMENTS / "pcluster-check.txt", partial=True
            )
            environments.ensure_collections(COLLECTIONS, REQUIREMENTS / "collections.txt", python)
        except packages.SetupError as error:
            session.error(str(error))


@nox.session
def pcluster(session: nox.Session) -> None:
    """Complete .venv-pcluster: set-up installs what judges a configuration, and making a cluster needs more."""
    try:
        # Node.js of any origin will do; only without one the distribution's is installed.
        if not shutil.which("node"):
            packages.ensure(REQUIREMENTS / "apt-pcluster.txt", environments.show)
        environments.install(CHECKOUT / ".venv-pcluster", REQUIREMENTS / "pcluster.txt")
    except packages.SetupError as error:
        session.error(str(error))


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and types: all checks, also after one has failed."""
    tracked = house_rules.tracked_files(CHECKOUT)
    scripts = [name for name in tracked if is_shell(CHECKOUT / name)]
    checks = {
        "ruff check": ("ruff", "check", "--quiet"),
        "ruff format": ("ruff", "format", "--check", "--output-format", "concise"),
        "yamllint": ("yamllint", "--strict", "."),
        "shellcheck": ("/usr/bin/shellcheck", "--", *scripts),
        "codespell": ("codespell", *tracked),
        "antsibull-changelog": ("antsibull-changelog", "lint"),
        # GitHub's schema as that program brings it.
        "workflows": ("check-jsonschema", "--builtin-schema", "vendor.github-workflows", *WORKFLOWS),
        "house rules": (VENV / "python", "-m", "tests.build.house_rules"),
        "mypy": ("mypy",),
        # The code of nodes, down to the functions that it calls: ruff and mypy see only the syntax.
        "vermin": ("vermin", "--target=3.9-", "--no-tips", "--violations", "--quiet", *NODE_SOURCES),
        "ansible-lint": ("ansible-lint", "--offline", "--strict", "-q"),
    }
    failed = []
    for name, (program, *words) in checks.items():
        try:
            run(session, LINT / program, *words, env=lint_environment())
        except nox.command.CommandFailed:
            failed.append(name)
    if not galaxy_importer(session):
        failed.append("galaxy-importer")
    if failed:
        session.error(f"failed: {', '.join(failed)}")
    session.log(f"all {len(checks) + 1} checks passed")


def is_shell(path: Path) -> bool:
    """Whether a file is a shell script, by its name or its first line."""
    if path.name.endswith((".j2", ".py", ".yml")):
        return False
    with path.open("rb") as file:
        first = file.readline(80)
    return path.suffix == ".sh" or (first.startswith(b"#!") and first.split(b"/")[-1].split()[-1] in (b"sh", b"bash"))


def galaxy_importer(session: nox.Session) -> bool:
    """Whether Galaxy's own importer takes the archive that a user would build. Prints its output."""
    folder = CHECKOUT / ".build" / "galaxy"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    settings = {
        **lint_environment(),
        "GALAXY_IMPORTER_RUN_ANSIBLE_LINT": "false",
        "GALAXY_IMPORTER_ANSIBLE_LOCAL_TMP": str(folder / "tmp"),
    }
    run(session, LINT / "ansible-galaxy", "collection", "build", "--output-path", folder, env=settings)
    (archive,) = folder.glob("*.tar.gz")
    with session.chdir(folder):
        command = (LINT / "python", "-m", "galaxy_importer.main", archive.name)
        output = str(run(session, *command, env=settings, silent=True, success_codes=range(256)))
    print(output)
    # The importer ends with 0 even when it refuses the archive.
    return "ERROR" not in output and "Importer processing completed successfully" in output


@nox.session
def sanity(session: nox.Session) -> None:
    """Run ansible-test sanity, without the host that its pip bootstrap is fetched from.

    The first argument may be a version of ansible-core, such as 2.21: then that of the matrix, not that of .venv-lint.
    """
    programs, words = LINT, list(session.posargs)
    if words and words[0] in MATRIX:
        programs = core_environment(session, words.pop(0))[0].parent
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mlcluster" / "ansible-test"
    (package,) = programs.parent.glob("lib/python3.*/site-packages/ansible_test")
    source = (package / "_internal" / "python_requirements.py").read_text(encoding="utf-8")
    versions = re.findall(r"\bpip='([0-9.]+)'", source)
    if not versions:
        session.error("this ansible-test does not name the pip it wants: adapt the session sanity in noxfile.py")
    cache = home / ".ansible" / "test" / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    for version in versions:
        (cache / f"get_pip_{version.replace('.', '_')}.py").write_text(GET_PIP, encoding="utf-8")
    # Nothing is written into the user's own ~/.ansible, and a new HOME must not hide the user's package index.
    values = {**lint_environment(), "HOME": str(home), "ANSIBLE_TEST_CONTENT_ROOT": str(OURS)}
    config = Path.home() / ".config" / "pip" / "pip.conf"
    if config.exists():
        values["PIP_CONFIG_FILE"] = os.environ.get("PIP_CONFIG_FILE", str(config))
    python = package.parents[1].name.removeprefix("python")
    with session.chdir(OURS):
        command = (programs / "ansible-test", "sanity", "--color", "no", "--python", python)
        run(session, *command, *words, env=values)


@nox.session
def docs(session: nox.Session) -> None:
    """Check the documentation of plugins and roles as antsibull-docs asks."""
    environments.ensure_environment(CHECKOUT / ".venv-docs", REQUIREMENTS / "docs.txt")
    run(session, VENV / "python", "-m", "tests.docs_check.docs_site", "lint")


@nox.session
def docs_site(session: nox.Session) -> None:
    """Build the documentation site."""
    environments.ensure_environment(CHECKOUT / ".venv-docs", REQUIREMENTS / "docs.txt")
    run(session, VENV / "python", "-m", "tests.docs_check.docs_site")


@nox.session
def dashboard(session: nox.Session) -> None:
    """Write the Grafana dashboard again."""
    try:
        python = environments.ensure_environment(CHECKOUT / ".venv-dashboard", REQUIREMENTS / "dashboard.txt")
    except packages.SetupError as error:
        session.error(str(error))
    run(session, python, "tests/data_tables/make_dashboard.py")


@nox.session
def unit(session: nox.Session) -> None:
    """Run the unit tests."""
    pytest(session, HANGS, "tests/unit", "-m", "not slow")


@nox.session
def unit_slow(session: nox.Session) -> None:
    """Run those of them that prove every case of what the others take a sample of."""
    pytest(session, HANGS, "tests/unit", "-m", "slow")


@nox.session
def integration(session: nox.Session) -> None:
    """Run the tests that start Ansible against local stand-ins for AWS."""
    pytest(session, *INTEGRATION, "-m", "not slow")


@nox.session
def integration_slow(session: nox.Session) -> None:
    """Run those of them that wait long."""
    pytest(session, *INTEGRATION, "-m", "slow")


@nox.session
def slurm(session: nox.Session) -> None:
    """Run the tests on a real Slurm."""
    pytest(session, *SLURM, "-m", "not slow")


@nox.session
def slurm_newer(session: nox.Session) -> None:
    """Run a test of each subject on Slurm 24.11, whose packages are fetched and unpacked once."""
    python = VENV / "python"
    if Path(os.path.realpath(python)).is_relative_to("/usr"):
        session.skip("the environment's Python is that of /usr, in whose place the other release's /usr stands: make "
                     "setup PYTHON=/path/to/python3.11")  # fmt: skip
    words = ("-m", "pytest", "-p", "no:cacheprovider", "--durations=50", *SLURM, "-m", "newer", *session.posargs)
    run(session, python, "-m", "tests.rig.slurm.newer", python, *words)


@nox.session
def slurm_slow(session: nox.Session) -> None:
    """Run those of them that wait long."""
    pytest(session, *SLURM, "-m", "slow")


@nox.session
def data(session: nox.Session) -> None:
    """Run the tests of the data programs."""
    pytest(session, HANGS, "tests/data", "-m", "not slow and not image", python=DATA / "python")


@nox.session
def data_image(session: nox.Session) -> None:
    """Run the data programs in an environment of the training image's lock: 2.8 GB, fetched once."""
    python = environments.find_python("3.12")
    if python is None:
        session.skip("the training image is locked for Python 3.12, and there is none: install it and run it again")
    try:
        environments.ensure_environment(CHECKOUT / ".venv-image", environments.TRAINING_IMAGE, python=python)
    except packages.SetupError as error:
        session.error(str(error))
    pytest(session, HANGS, "tests/data", "-m", "image", python=DATA / "python")


@nox.session
def data_slow(session: nox.Session) -> None:
    """Kill the data programs at 500 random moments."""
    pytest(session, HANGS, "tests/data", "-m", "slow", python=DATA / "python")


@nox.session
def molecule(session: nox.Session) -> None:
    """Run the container tests: the scenarios that are named, or all."""
    run(session, VENV / "python", "-m", "tests.build.molecule", *session.posargs)


@nox.session
def molecule_extra(session: nox.Session) -> None:
    """Run the container tests that no other run has."""
    run(session, VENV / "python", "-m", "tests.build.molecule", *molecule_scenarios.EXTRA)


@nox.session
def vm(session: nox.Session) -> None:
    """Run the virtual-machine tests of the suite."""
    pytest(session, *VM, "-m", "vm and ci")


@nox.session
def vm_all(session: nox.Session) -> None:
    """Run every virtual-machine test."""
    pytest(session, *VM, "-m", "vm")


@nox.session
def quick(session: nox.Session) -> None:
    """Check what differs from main: style, house rules, unit tests of changed rooms and of all that imports them."""
    changed = changes.changed_files(CHECKOUT)
    python = [name for name in changed if name.endswith(".py")]
    if python:
        run(session, LINT / "ruff", "check", "--quiet", "--force-exclude", *python)
        run(session, LINT / "ruff", "format", "--check", "--quiet", "--force-exclude", *python)
    run(session, VENV / "python", "-m", "tests.build.house_rules", *changed)
    tests = changes.tests_of(changed, CHECKOUT)
    if tests:
        session.log(f"unit tests: {' '.join(tests)}")
        pytest(session, HANGS, "--numprocesses=2", "-q", *tests)
    else:
        session.log("no unit test is concerned")


def core_environment(session: nox.Session, core: str) -> tuple[Path, Path]:
    """The Python of an environment with that ansible-core, and the folder of the collections released for it."""
    version, python = next(((v, p) for v in MATRIX[core] if (p := environments.find_python(v))), (None, None))
    if python is None or version is None:
        session.skip(
            f"ansible-core {core}: there is no Python {' or '.join(MATRIX[core])}: install one and run it again"
        )
    folder = CHECKOUT / ".build" / "matrix" / f"{core}-python{version}"
    folder.mkdir(parents=True, exist_ok=True)
    own = REQUIREMENTS / f"matrix-{core}.txt"
    pins = (
        environments.lock_without(REQUIREMENTS / "build.txt", "ansible-core"),
        environments.lock_without(own, "ansible"),
    )
    lock = folder / "lock.txt"
    lock.write_text("\n".join(pins), encoding="utf-8")
    (folder / "ansible.txt").write_text(environments.lock_without(own, "ansible-core"), encoding="utf-8")
    try:
        interpreter = environments.ensure_environment(folder / "venv", lock, partial=True, python=python)
        environments.ensure_collections(folder / "collections", folder / "ansible.txt", interpreter)
    except packages.SetupError as error:
        session.error(str(error))
    return interpreter, folder / "collections"


@nox.session
@nox.parametrize("core", list(MATRIX), ids=list(MATRIX))
def matrix(session: nox.Session, core: str) -> None:
    """Run the inventory's tests under each ansible-core that is supported, on a Python that it supports."""
    interpreter, collections = core_environment(session, core)
    values = {
        "PATH": f"{interpreter.parent}{os.pathsep}{os.environ['PATH']}",
        "ANSIBLE_COLLECTIONS_PATH": str(collections),
    }
    places = f"--override-ini=pythonpath=. {collections} roles/slurm_jobs/files"
    pytest(session, HANGS, "--numprocesses=2", "-q", places, *MATRIX_TESTS, python=interpreter, env=values)
