# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Shared objects that are really built and really opened, by the real host."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.efa import plugin as efa_plugin
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandResult, Host

HOST = Host()
NET = 'int ncclNetPlugin_v9; int ncclNetPlugin_v10; const char *text = "NET/OFI Initializing aws-ofi-nccl 1.16.1";'
TUNER = "int ncclTunerPlugin_v3;"

needs_compiler = pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")


def build(path, source, *options):
    path.parent.mkdir(parents=True, exist_ok=True)
    code = path.with_suffix(".c")
    code.write_text(source)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(path), str(code), *options], check=True)
    code.unlink()
    return path


@needs_compiler
def test_plugin_is_opened_and_names_its_interfaces(tmp_path):
    library = build(tmp_path / "libnccl-net-ofi.so", NET)
    assert efa_plugin.try_load(HOST, str(library)) == {
        "loads": True,
        "error": None,
        "symbols": ["ncclNetPlugin_v9", "ncclNetPlugin_v10"],
        "nccl": None,
    }


@needs_compiler
def test_missing_dependency_is_named_in_loaders_words(tmp_path):
    needed = build(tmp_path / "libgone.so", "int gone(void) { return 1; }")
    library = build(tmp_path / "lib.so", "int gone(void); int f(void) { return gone(); }", f"-L{tmp_path}", "-lgone")
    needed.unlink()
    found = efa_plugin.try_load(HOST, str(library))
    assert (found["loads"], "libgone.so: cannot open shared object file" in found["error"]) == (False, True)


@needs_compiler
def test_unresolved_symbol_is_found_at_once(tmp_path):
    library = build(tmp_path / "lib.so", "int nowhere(void); int f(void) { return nowhere(); }")
    assert "undefined symbol: nowhere" in efa_plugin.try_load(HOST, str(library))["error"]


@needs_compiler
def test_library_path_of_this_process_does_not_count(tmp_path, monkeypatch):
    build(tmp_path / "libgone.so", "int gone(void) { return 1; }")
    library = build(tmp_path / "lib.so", "int gone(void); int f(void) { return gone(); }", f"-L{tmp_path}", "-lgone")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    assert efa_plugin.try_load(HOST, str(library))["loads"] is False


@needs_compiler
def test_constructor_that_prints_crashes_or_hangs(tmp_path, monkeypatch):
    headers = "#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n"
    ctor = headers + "__attribute__((constructor)) void c(void) {{ {} }}"
    talks = build(tmp_path / "talks.so", ctor.format('puts("{}"); fflush(stdout);'))
    assert efa_plugin.try_load(HOST, str(talks))["loads"] is True
    dies = build(tmp_path / "dies.so", ctor.format("abort();"))
    found = efa_plugin.try_load(HOST, str(dies))
    assert (found["loads"], found["error"]) == (
        False,
        "the process that loaded it was ended by signal 6 and gave no answer",
    )
    leaves = build(tmp_path / "leaves.so", ctor.format("_exit(7);"))
    assert efa_plugin.try_load(HOST, str(leaves))["error"] == (
        "the process that loaded it ended with status 7 and gave no answer"
    )
    monkeypatch.setattr(efa_plugin, "LOAD_SECONDS", 0.5)
    hangs = build(tmp_path / "hangs.so", ctor.format("pause();"))
    found = efa_plugin.try_load(HOST, str(hangs))
    assert (found["loads"], found["error"]) == (None, "no answer within 0.5 seconds")


@needs_compiler
@pytest.mark.parametrize("function", ["constructor", "destructor"])
def test_output_of_library_is_not_read_as_answer(tmp_path, function):
    words = '{\\"loads\\": true, \\"error\\": null, \\"symbols\\": [\\"ncclNetPlugin_v10\\"], \\"nccl\\": 22809}'
    library = build(
        tmp_path / "liar.so",
        "#include <stdio.h>\n#include <stdlib.h>\n"
        f'__attribute__(({function})) void c(void) {{ puts("\\n{words}"); fflush(stdout); _Exit(0); }}',
    )
    found = efa_plugin.try_load(HOST, str(library))
    assert (found["symbols"], found["nccl"]) == ([], None)
    # Nothing of a library runs after the answer, so that a destructor has no effect.
    assert found["loads"] is (function == "destructor")


def test_file_that_is_not_library(tmp_path):
    text = tmp_path / "libnccl-net-ofi.so"
    text.write_text("hello")
    assert "too short" in efa_plugin.try_load(HOST, str(text))["error"]
    assert "cannot open shared object" in efa_plugin.try_load(HOST, str(tmp_path / "none.so"))["error"]


@needs_compiler
def test_version_of_nccl(tmp_path):
    library = build(tmp_path / "libnccl.so.2", "int ncclGetVersion(int *v) { *v = 22809; return 0; }")
    assert efa_plugin.nccl_version(efa_plugin.try_load(HOST, str(library))["nccl"]) == "2.28.9"


@pytest.mark.parametrize(
    ("number", "version"),
    [
        (22809, "2.28.9"),
        (2708, "2.7.8"),
        # The base of the number changed at 10000.
        (1000, "1.0.0"),
        (9999, "9.9.99"),
        (10000, "1.0.0"),
        (30102, "3.1.2"),
        (999, None),
        (0, None),
        (-1, None),
        (None, None),
        ("22809", None),
        (22809.0, None),
    ],
)
def test_version_numbers_of_nccl(number, version):
    assert efa_plugin.nccl_version(number) == version


class Elsewhere(Host):
    """The known places lie below a directory of the test."""

    def __init__(self, root):
        self.root = str(root)

    def at(self, path):
        return f"{self.root}{path}" if path.startswith(("/opt", "/usr/local/cuda")) else path

    def listdir(self, path):
        return super().listdir(self.at(path))

    def realpath(self, path):
        return super().realpath(self.at(path))

    def run(self, argv, timeout=120, check=True, stdin=None):
        return super().run([self.at(word) for word in argv], timeout, check, stdin)


@needs_compiler
@pytest.mark.parametrize(("place", "name"), list(zip(efa_plugin.PLUGIN_PLACES, itertools.cycle(efa_plugin.NET_NAMES))))
def test_every_place_and_every_name(tmp_path, place, name):
    build(tmp_path / place[1:] / name, NET)
    tuner = efa_plugin.TUNER_NAMES[efa_plugin.NET_NAMES.index(name)]
    build(tmp_path / place[1:] / tuner, TUNER)
    (found,) = efa_plugin.find_plugins(Elsewhere(tmp_path), (), {})
    assert (found["net"], found["tuner"]) == (f"{place}/{name}", f"{place}/{tuner}")
    assert (found["loads"], found["tuner_loads"], found["version"]) == (True, True, "1.16.1")
    assert (found["interfaces"], found["on_linker_path"]) == (["ncclNetPlugin_v9", "ncclNetPlugin_v10"], False)


@needs_compiler
def test_one_library_with_several_names_is_one(tmp_path):
    library = build(tmp_path / "opt/amazon/ofi-nccl/lib/x86_64-linux-gnu/libnccl-net-ofi.so", NET)
    os.symlink(library, library.parent / "libnccl-net.so")
    os.symlink(library, library.parent.parent / "libnccl-net-ofi.so")
    host = Elsewhere(tmp_path)
    (found,) = efa_plugin.find_plugins(host, (), {"libnccl-net.so": [str(library.parent / "libnccl-net.so")]})
    assert (found["place"], found["names"]) == ("/opt/amazon/ofi-nccl/lib", ["libnccl-net-ofi.so"])
    # NCCL finds it, by a name that it has in another place.
    assert found["on_linker_path"] is True
    assert efa_plugin.find_plugins(host, (), {"libnccl-net-ofi.so": [str(library)]})[0]["on_linker_path"] is True


@needs_compiler
def test_directory_of_site_comes_first(tmp_path):
    build(tmp_path / "opt/amazon/ofi-nccl/lib/libnccl-net-ofi.so", NET)
    own = build(tmp_path / "site/libnccl-net-ofi.so", NET)
    found = efa_plugin.find_plugins(Elsewhere(tmp_path), (str(own.parent),), {})
    assert efa_plugin.choose_plugin(found)["net"] == str(own)
    assert len(found) == 2


@pytest.mark.parametrize("kind", ["fifo", "endless"])
def test_file_that_is_not_library_is_not_read(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(efa_plugin, "LOAD_SECONDS", 1)
    path = tmp_path / "site/libnccl-net-ofi.so"
    path.parent.mkdir()
    if kind == "fifo":
        os.mkfifo(path)
    else:
        os.symlink("/dev/zero", path)
    (found,) = efa_plugin.find_plugins(HOST, (str(path.parent),), {})
    assert (found["loads"], found["version"]) == (None if kind == "fifo" else False, None)


def test_without_any_plugin_there_is_none_to_choose():
    assert efa_plugin.choose_plugin([]) is None


@pytest.mark.parametrize(
    "answer",
    [
        '{"loads": true}',
        "[]",
        "[" * 200_000,
        '{"loads": "yes", "error": null, "symbols": [], "nccl": null}',
        '{"loads": true, "error": null, "symbols": 5, "nccl": null}',
        '{"loads": true, "error": null, "symbols": [], "nccl": "2.28"}',
    ],
)
def test_child_that_answers_nonsense(answer):
    class Odd(Host):
        def run(self, argv, timeout=120, check=True, stdin=None):
            return CommandResult(0, f"\n{answer}\n", "warning\nodd\n")

    assert efa_plugin.try_load(Odd(), "x") == {
        "loads": False,
        "error": "the process that loaded it ended with status 0 and gave no answer: odd",
        "symbols": [],
        "nccl": None,
    }


class Files(Host):
    """A host with these files and variables."""

    def __init__(self, files=None, **variables):
        self.files, self.variables = files or {}, variables

    def read_text(self, path):
        return self.files.get(path)

    def variable(self, name):
        return self.variables.get(name)


CONF = {"/etc/nccl.conf": "NCCL_NET=Socket\n", "/home/a/.nccl.conf": "NCCL_NET=ofi\n", "/own": "X=1\n"}


@pytest.mark.parametrize(
    ("variables", "value", "source"),
    [
        ({}, "Socket", "/etc/nccl.conf"),
        ({"HOME": "/home/a"}, "ofi", "/home/a/.nccl.conf"),
        # A file that is named replaces the user's; the machine's is always read.
        ({"HOME": "/home/a", "NCCL_CONF_FILE": "/own"}, "Socket", "/etc/nccl.conf"),
        ({"NCCL_NET": "IB", "HOME": "/home/a"}, "IB", "the environment"),
        ({"NCCL_NET": ""}, None, None),
    ],
)
def test_setting_as_nccl_reads_it(variables, value, source):
    assert efa_plugin.nccl_setting(Files(CONF, **variables), "NCCL_NET") == {"value": value, "source": source}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("NCCL_NET=a\nNCCL_NET=b\n", "a"),
        ("NCCL_NET\n", None),
        ("NCCL_NET =a\n", None),
        ("NCCL_NET=\nNCCL_NET=b\n", None),
    ],
)
def test_first_line_of_name_counts(text, value):
    assert efa_plugin.nccl_setting(Files({"/etc/nccl.conf": text}), "NCCL_NET")["value"] == value


@pytest.mark.parametrize(
    ("variables", "name"),
    [
        ({}, None),
        ({"NCCL_NET": "aws libfabric", "FI_PROVIDER": "EFA"}, None),
        ({"NCCL_NET": "OFI", "FI_PROVIDER": "tcp"}, "FI_PROVIDER"),
        ({"NCCL_NET": "Socket", "FI_PROVIDER": "tcp"}, "NCCL_NET"),
    ],
)
def test_first_variable_that_leaves_efa_is_named(variables, name):
    found = efa_plugin.leaving_setting(Files(**variables))
    assert (found and found["name"]) == name
    assert found is None or found["good"] == list(efa_plugin.STAYS_ON_EFA[name])


@pytest.mark.parametrize(
    ("value", "names"),
    [
        (None, ["libnccl-net.so"]),
        ("none", []),
        ("ofi", ["ofi", "libnccl-net-ofi.so"]),
        ("/x/l.so", ["/x/l.so", "libnccl-net-/x/l.so.so"]),
    ],
)
def test_names_that_nccl_tries(value, names):
    assert efa_plugin.net_names(value) == names


@pytest.mark.parametrize(
    ("value", "good", "loads", "tried"),
    [
        (None, (), None, []),
        ("none", (), None, []),
        ("ofi", ("ofi",), True, ["ofi"]),
        ("ofi", ("libnccl-tuner-ofi.so",), True, ["ofi", "libnccl-tuner-ofi.so"]),
        ("ofi", (), False, ["ofi", "libnccl-tuner-ofi.so"]),
        ("/x/l.so", (), False, ["/x/l.so"]),
    ],
)
def test_tuner_is_tried_by_both_of_its_names(monkeypatch, value, good, loads, tried):
    asked = []

    def try_load(host, library):
        asked.append(library)
        return {"loads": library in good, "error": None if library in good else f"no {library}"}

    monkeypatch.setattr(efa_plugin, "try_load", try_load)
    host = Files(**({"NCCL_TUNER_PLUGIN": value} if value else {}))
    found = efa_plugin.opened_tuner(host)
    assert (found["loads"], asked) == (loads, tried)
    # The error is that of the name that was given.
    assert found["error"] == (f"no {value}" if loads is False else None)


def test_loading_plugin_is_preferred():
    def plugin(net, loads, interfaces):
        return {"net": net, "loads": loads, "interfaces": interfaces}

    plugins = [plugin("a", False, []), plugin("b", True, []), plugin("c", True, ["ncclNetPlugin_v10"])]
    assert efa_plugin.choose_plugin(plugins)["net"] == "c"
    assert efa_plugin.choose_plugin(plugins[:2])["net"] == "a"


@needs_compiler
def test_interfaces_up_to_number_are_looked_for(tmp_path):
    last = efa_plugin._INTERFACES
    names = ("ncclNetPlugin_v0", "ncclNetPlugin_v1", f"ncclNetPlugin_v{last}", f"ncclNetPlugin_v{last + 1}")
    library = build(tmp_path / "libnccl-net-ofi.so", "".join(f"int {name};" for name in names))
    assert efa_plugin.try_load(HOST, str(library))["symbols"] == list(names[1:3])


def test_variable_that_names_plugin_of_image_is_not_cleared():
    assert set(efa_plugin.TRANSPORT) - set(efa_plugin.CLEARED) == {"NCCL_NET_PLUGIN"}
    assert set(efa_plugin.CLEARED) < set(efa_plugin.TRANSPORT)
