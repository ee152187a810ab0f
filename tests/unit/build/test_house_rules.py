# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import ast
import subprocess

import pytest

from tests.build import house_rules as rules
from tests.unit.checkout import CHECKOUT

HEAD = f"# (c)\n{rules.LICENCE_LINE}\n"


def found(rule, text, path="plugins/module_utils/x.py"):
    return list(rule(path, text))


@pytest.mark.parametrize(
    "text",
    [
        "deb http://deb.{}debian.org/debian bookworm main",
        "index = https://py{}pi.org/simple",
        "see /wo{}rk/main/x",
        "PATH=/root/.py{}env/bin",
        "copy ../sha{}red/x",
    ],
)
def test_foreign_names_are_seen(text):
    # Taken apart, since this file is judged by the same rule.
    assert len(found(rules.foreign_names, text.format(""))) == 1


@pytest.mark.parametrize(
    "text", ["/data/work/x", "https://docs.ansible.com/", "${MOLECULE}/shared/x", "pypi", "homework/"]
)
def test_other_names_pass(text):
    assert found(rules.foreign_names, text) == []


def test_unfinished_work_is_reported_with_line():
    assert found(rules.unfinished, "one\n# TODO later\n") == ["plugins/module_utils/x.py:2: unfinished work: TODO"]
    assert found(rules.unfinished, "<<<<<<< HEAD\n") != []
    assert found(rules.unfinished, "mastodon TODOS\n") == []


def test_licence_is_required_in_python_with_code():
    assert found(rules.licence, HEAD) == []
    assert found(rules.licence, "", "tests/__init__.py") == []
    assert len(found(rules.licence, "import os\n")) == 1


def test_target_code_has_to_parse_on_oldest_python():
    new = "match x:\n    case 1:\n        pass\n"
    assert len(found(rules.target_syntax, new)) == 1
    assert found(rules.target_syntax, new, "plugins/inventory/x.py") == []


@pytest.mark.parametrize(
    "expression",
    ["a | difference(b)", "a|union(b | map('f', (c)) | list) | list", "a | intersect([x] if y(z) else []) | first"],
)
def test_set_filter_with_visible_order_is_found(expression):
    (problem,) = rules.unordered("roles/a/vars/main.yml", f"x: 1\ny: {{{{ {expression} }}}}\n")
    assert problem.startswith("roles/a/vars/main.yml:2: ")
    assert "loses the order: use select('in', ...) or reject('in', ...)" in problem


@pytest.mark.parametrize(
    "line", ["shutil.rmtree(path)", "shutil.rmtree(\n    path,\n)", "from shutil import copy, rmtree"]
)
def test_removal_that_enters_mounts_is_found(line):
    for path in ("plugins/module_utils/_node/a.py", "hooks/mlcluster_boot/a.py", "roles/a/files/a.py"):
        (problem,) = rules.tree_removers(path, f"import shutil\n{line}\n")
        assert problem.startswith(f"{path}:2: rmtree enters mounted file systems: use system/files.py")
    for path in ("plugins/module_utils/_node/gds/probe_child.py", "tests/data/a.py", "roles/a/files/a.md"):
        assert not list(rules.tree_removers(path, line))
    assert not list(rules.tree_removers("hooks/a.py", '"""Unlike shutil.rmtree() it never enters."""'))


@pytest.mark.parametrize(
    "expression", ["a | difference(b) | sort", "a | intersect(b | list)\n | length > 0", "a | reject('in', b)"]
)
def test_set_filter_without_visible_order_passes(expression):
    assert not list(rules.unordered("roles/a/vars/main.yml", expression))
    assert not list(rules.unordered("plugins/a.py", "a | difference(b)"))


@pytest.mark.parametrize(
    "call",
    [
        'NAME = re.compile(r"^[a-z]+$")',
        're.match("[$]a(?:b|$)", name)',
        're.search(rf"{name}-[0-9]$", text, re.ASCII)',
        'kept = re.sub(r"[.]sqsh$", "", name)',
    ],
)
def test_pattern_that_accepts_final_line_feed_is_found(call):
    (problem,) = found(rules.line_feed_patterns, f"import re\n{call}\n")
    reason = "$ lets a line feed stand at the end: use re.fullmatch, or \\Z"
    assert problem == f"plugins/module_utils/x.py:2: {reason}"
    assert found(rules.line_feed_patterns, f"import re\n{call}\n", "tests/unit/x.py") == []


@pytest.mark.parametrize(
    "call",
    [
        're.search(r"^Model: (.*)$", text, re.MULTILINE)',
        're.findall(r"^a$", text, flags=re.M | re.ASCII)',
        're.match(r"(?m)^a$", text)',
        're.fullmatch(r"[^$]+|cost\\$", text)',
        're.search(r"^a\\Z", text)',
        'text.match("^a$")',
        "re.compile(PATTERN)",
        'path.endswith("$")',
    ],
)
def test_pattern_without_final_line_feed_passes(call):
    assert found(rules.line_feed_patterns, f"import re\n{call}\n") == []


@pytest.mark.parametrize(
    "condition",
    [
        "x is match('[a-z]+$')",
        "x is not regex('^(a|b)$')",
        "x is search('^a$')",
        "x | reject('match', '[A-Za-z]+$') | list",
        "x | selectattr('value', 'match',\n      'a$')",
        'x is match("it\'s$")',
        "x is match('(a|b$)')",
    ],
)
def test_condition_that_accepts_final_line_feed_is_found(condition):
    (problem,) = rules.line_feed_patterns("roles/a/vars/main.yml", f"x: 1\ny: {{{{ {condition} }}}}\n")
    assert problem == "roles/a/vars/main.yml:2: $ lets a line feed stand at the end: use \\Z"


@pytest.mark.parametrize(
    "condition",
    [
        "x is match('[a-z]+\\Z')",
        "x | select('search', ' EFA$|^packages$')",
        "x is search('[.]gz$')",
        "x is regex('^a$', multiline=true)",
        "x is match('[$]a')",
        "x | regex_replace('^(.*)$', 'b')",
        "x | regex_search('^a$')",
    ],
)
def test_condition_without_final_line_feed_passes(condition):
    assert not list(rules.line_feed_patterns("roles/a/vars/main.yml", condition))


@pytest.mark.parametrize(
    "call",
    [
        'open(path, "w")',
        'open(path, mode="ab")',
        'open(path, "r+")',
        "os.open(path, os.O_WRONLY | os.O_CREAT)",
        "os.open(directory, flags | os.O_TMPFILE)",
        "flags = os.O_WRONLY | os.O_CREAT",
        "tempfile.mkstemp(dir=folder)",
        "tempfile.NamedTemporaryFile()",
        'path.write_text("x")',
        'Path(name).write_bytes(b"x")',
        "open(path, mode)",
        "open(path, mode=chosen)",
        'io.open(path, "w")',
        'Path(path).open("w")',
        "Path(path).open(mode=chosen)",
        'gzip.open(path, "wt")',
        'tarfile.open(path, "w:gz")',
        'zipfile.ZipFile(path, "w")',
        "os.open(path, os.O_RDWR)",
        "os.open(path, os.O_WRONLY | os.O_TRUNC)",
        'os.open(path, getattr(os, "O_CREAT"))',
        "from os import O_CREAT",
        "from os import open",
        "from shutil import copyfile",
        "from tempfile import *",
        "import os as system",
        "os.truncate(path, 0)",
        "os.mkfifo(path)",
        "shutil.copy(source, path)",
        "shutil.copyfile(source, path)",
        "shutil.move(source, path)",
        "tempfile.NamedTemporaryFile(delete=False)",
        'json.dump(document, open(path, "w"))',
        'subprocess.run(argv, stdout=open(path, "wb"))',
        'subprocess.run(["sh", "-c", "echo x > /data/x"])',
        'host.run(["tee", path])',
        'host.run(["/bin/cp", "--", source, path])',
        "np.save(path, array)",
        "class Log(logging.FileHandler): pass",
        "array.tofile(path)",
        "torch.save(state, path)",
        "Path(path).touch()",
        "archive.extractall(folder)",
        "logging.FileHandler(path)",
        'ghost.write_text(path, "x")',
    ],
)
def test_writer_other_than_one_is_found(call):
    (problem,) = found(rules.writers, f"def f():\n    {call}\n")
    assert problem.startswith("plugins/module_utils/x.py:2: opens a file for writing")
    assert found(rules.writers, call, "tests/unit/x.py") == []
    for path, writer in (
        ("hooks/mlcluster_boot/x.py", "replace_file of system/files.py"),
        ("roles/nvidia_gds/files/x.py", "replace_file of system/files.py"),
        ("roles/slurm_jobs/files/mlcluster_data/files/x.py", "Directory.making of files/durable.py"),
    ):
        assert found(rules.writers, call, path) == [f"{path}:1: opens a file for writing: use {writer}"]


def test_files_excepted_from_writer_rule_write():
    for path in rules.WRITERS:
        tree = ast.parse((CHECKOUT / path).read_text(encoding="utf-8"))
        assert any(map(rules.writes, ast.walk(tree))), path


@pytest.mark.parametrize(
    "call",
    [
        "open(path)",
        'open(path, "rb")',
        "os.open(path, os.O_RDONLY)",
        'host.write_text(path, "x")',
        'self._host.write_text(path, "x")',
        'Host().write_text(path, "x")',
        "replace_file(path, data)",
        "buffer = io.BytesIO(); torch.save(state, buffer)",
        'buffer = io.BytesIO(); zipfile.ZipFile(buffer, "w")',
        'tarfile.open(fileobj=stream, mode="w|")',
        'gzip.open(path, "rb")',
        "Directory.open(path)",
        "Path(path).open()",
        "os.dup2(os.open(os.devnull, os.O_WRONLY), 1)",
        "copy.copy(document)",
        "manifest.dump(content)",
        "self.checkpointer.save(step, state)",
        'STEPS = ("install", "repair")',
        'host.run(["sh", "-c", "exit 1"])',
    ],
)
def test_reader_and_one_writer_pass(call):
    assert found(rules.writers, call) == []


@pytest.mark.parametrize("word", ["L{parse}", "C(debug)", "M(slurm_job)", "O(packages)", "`parse`"])
def test_other_markup_in_docstring_is_found(word):
    (problem,) = found(rules.markup, f'def f():\n    """Return what {word} gives."""\n')
    assert problem == f"plugins/module_utils/x.py:2: {word} in a docstring: use double backquotes"


def test_markup_outside_docstrings_passes():
    assert found(rules.markup, 'DOCUMENTATION = "C(debug)"\nf = C(1)\n') == []
    assert found(rules.markup, '"""Return ``parse`` and f(x)."""\n') == []


def test_files_are_those_of_git(tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".gitignore").write_text("ignored\n", encoding="utf-8")
    (tmp_path / "ignored").write_text("TODO", encoding="utf-8")
    (tmp_path / "new.py").write_text(HEAD + "# TODO\n", encoding="utf-8")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    names = rules.tracked_files(tmp_path)
    assert names == [".gitignore", "binary", "new.py"]
    assert list(rules.problems(tmp_path, names)) == ["new.py:3: unfinished work: TODO"]
