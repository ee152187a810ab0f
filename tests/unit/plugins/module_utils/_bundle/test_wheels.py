# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Wheels: their unpacked files, the check against the lock, and errors of pip."""

from __future__ import annotations

import sys

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._bundle import wheels
from ansible_collections.mlcluster.aws.plugins.module_utils._bundle.archive import BundleError, Target

from tests.unit.fakes import fake_collections as made


def test_wheel_is_unpacked_without_unneeded_files(tmp_path):
    path = made.wheel(
        tmp_path,
        "ansible_core",
        ansible_test__big="tests\n",
        ansible_core_1="x",
        **{"ansible_core-1.0.data__scripts__ansible-test": "#!", "ansible_core-1.0.data__purelib__more.py": "m"},
        **dict.fromkeys(("ansible__cli__playbook.py", "ansible__plugins__filter__core.py"), "run\n"),
        **dict.fromkeys(("ansible__cli__galaxy.py", "ansible__galaxy__a.py", "ansible__plugins__test__b.yml"), "-\n"),
        **dict.fromkeys(("ansible__module_utils__csharp__a.cs", "ansible__executor__powershell__b.ps1"), "-\n"),
    )
    taken = wheels.read_wheel(path)
    assert sorted(taken.files) == [
        "ansible/cli/playbook.py",
        "ansible/plugins/filter/core.py",
        "ansible_core-1.0.dist-info/METADATA",
        "ansible_core/__init__.py",
        "ansible_core_1",
        "more.py",
    ]
    assert (taken.name, taken.version, taken.license) == ("ansible-core", "1.0", "MIT")


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ("License-Expression: MIT OR Apache-2.0\n", "MIT OR Apache-2.0"),
        ("License: BSD\n", "BSD"),
        ("License: UNKNOWN\nClassifier: License :: OSI Approved :: ISC License (ISCL)\n", "ISC License (ISCL)"),
        ("Classifier: Topic :: Text\n", "unknown"),
    ],
)
def test_licence_comes_from_package_metadata(tmp_path, metadata, words):
    assert wheels.read_wheel(made.wheel(tmp_path, "some", metadata=metadata)).license == words


def test_invalid_wheel_is_reported(tmp_path):
    made.write(tmp_path / "some-1.0-py3-none-any.whl", "no zip")
    with pytest.raises(BundleError, match=r"is not a wheel .*: remove it and build again"):
        wheels.read_wheel(tmp_path / "some-1.0-py3-none-any.whl")


def test_wheels_of_two_architectures_become_one_site(tmp_path):
    one = made.wheel(
        tmp_path, "yaml", tag="cp311-cp311-manylinux_2_28_x86_64", **{"yaml__c.x86_64.so": "X", "yaml__a.py": "p"}
    )
    two = made.wheel(
        tmp_path, "yaml", tag="cp311-cp311-manylinux_2_28_aarch64", **{"yaml__c.arm64.so": "A", "yaml__a.py": "p"}
    )
    lock = made.write(
        tmp_path / "lock.txt", made.lock(tmp_path / "1", one).read_text() + made.lock(tmp_path / "2", two).read_text()
    )
    files, components = wheels.site([one, two], lock, "3.12")
    assert {"yaml/c.x86_64.so", "yaml/c.arm64.so", "yaml/a.py"} < set(files)
    assert [entry["file"] for entry in components] == [one.name, two.name]


def test_wheel_missing_from_lock_is_rejected(tmp_path):
    locked = made.lock(tmp_path / "lock.txt", made.wheel(tmp_path / "a", "some"))
    other = made.wheel(tmp_path / "b", "some", more__py="evil")
    with pytest.raises(BundleError, match=r"b/some-1\.0-py3-none-any\.whl does not match lock\.txt"):
        wheels.site([other], locked, "3.12")


def test_missing_package_is_named(tmp_path):
    have = made.wheel(tmp_path, "some")
    locked = made.lock(tmp_path / "lock.txt", have, made.wheel(tmp_path, "lost_one"))
    with pytest.raises(BundleError, match=r"lost-one of lock\.txt could not be downloaded"):
        wheels.site([have], locked, "3.12")


def test_pip_runs_once_per_architecture_without_builds(tmp_path):
    program = made.write(
        tmp_path / "pip.py",
        "import pathlib, sys\n"
        "words = sys.argv[1:]\n"
        f"open({str(tmp_path / 'calls')!r}, 'a').write(' '.join(words) + '\\n')\n"
        "folder = pathlib.Path(words[words.index('--dest') + 1])\n"
        "(folder / ('some-1-' + ('arm' if 'aarch64' in ' '.join(words) else 'x86') + '.whl')).write_text('')\n",
    )
    lock = made.write(tmp_path / "lock.txt", "some==1\n")
    for _again in range(2):
        found = wheels.fetch([sys.executable, str(program)], lock, tmp_path / "cache", Target("debian", "3.12"))
        assert [path.name for path in found] == ["some-1-arm.whl", "some-1-x86.whl"]
    calls = (tmp_path / "calls").read_text().splitlines()
    assert len(calls) == 2
    for call, machine in zip(calls, ("x86_64", "aarch64")):
        assert "--require-hashes --only-binary=:all: --python-version 3.12" in call
        assert f"--abi cp312 --abi abi3 --abi none --platform manylinux_2_28_{machine}" in call


def test_pip_error_is_reported_and_cache_stays_empty(tmp_path):
    program = made.write(tmp_path / "pip.py", "import sys\nprint('ERROR: no index', file=sys.stderr)\nsys.exit(1)\n")
    lock = made.write(tmp_path / "lock.txt", "some==1\n")
    with pytest.raises(BundleError, match=r"pip could not fetch lock\.txt: ERROR: no index; configure a package index"):
        wheels.fetch([sys.executable, str(program)], lock, tmp_path / "cache", Target("debian", "3.12"))
    assert list((tmp_path / "cache").iterdir()) == []


def test_missing_pip_is_reported(tmp_path):
    lock = made.write(tmp_path / "lock.txt", "some==1\n")
    with pytest.raises(BundleError, match="use a Python with pip"):
        wheels.fetch([str(tmp_path / "none")], lock, tmp_path / "cache", Target("debian", "3.12"))


def test_core_version_of_lock(tmp_path):
    assert wheels.core_version(made.write(tmp_path / "l", "x==1\nansible-core==2.19.14 \\\n"), "3.12") == "2.19.14"
    with pytest.raises(BundleError, match="does not pin ansible-core"):
        wheels.core_version(made.write(tmp_path / "l", "x==1\n"), "3.12")
    with pytest.raises(BundleError, match="build from a checkout"):
        wheels.core_version(tmp_path / "none", "3.12")


LOCK = """core==1 ; python_full_version < '3.12' \\
    --hash=sha256:1
    # via x
# a comment ; of a lock
core==2 ; python_full_version >= '3.12' \\
    --hash=sha256:2
other==3 \\
    --hash=sha256:3
"""


@pytest.mark.parametrize(("python", "core"), [("3.11", 1), ("3.12", 2), ("3.14", 2)])
def test_lock_is_read_for_one_python(tmp_path, python, core):
    text = wheels.read_lock(made.write(tmp_path / "l", LOCK), python)
    pins = [line.split()[0] for line in text.splitlines() if "==" in line or "--hash" in line]
    assert pins == [f"core=={core}", f"--hash=sha256:{core}", "other==3", "--hash=sha256:3"]
    assert "python_full_version" not in text


def test_lock_with_other_marker_is_rejected(tmp_path):
    lock = made.write(tmp_path / "l", "colorama==1 ; sys_platform == 'win32' \\\n    --hash=sha256:1\n")
    with pytest.raises(BundleError, match=r"pins colorama==1 with the marker sys_platform == 'win32'"):
        wheels.read_lock(lock, "3.12")
