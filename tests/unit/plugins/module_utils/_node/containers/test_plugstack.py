# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""plugstack.conf as Slurm reads it, errors that stop every job, and changes that keep other lines."""

from __future__ import annotations

import multiprocessing
import time
from pathlib import Path

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.plugstack import read_stack
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.plugstack_write import (
    OWN_COMMENT,
    PluginRequest,
    apply_changes,
)
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import NodeError
from ansible_collections.mlcluster.aws.tests.unit.fakes import fake_rooted_host as rooted

STACK = "/opt/slurm/etc/plugstack.conf"
OWN = STACK + ".d/pyxis.conf"
PLUGIN = "/usr/local/lib/slurm/spank_pyxis.so"
GLOB = f"include {STACK}.d/*.conf\n"


@pytest.fixture
def host(tmp_path):
    return rooted.node(tmp_path)


def test_missing_file_is_an_empty_stack(host):
    stack = read_stack(host, STACK)
    assert (stack.entries, stack.includes, stack.problems) == ([], [], [])


def test_lines_and_includes_are_parsed(host):
    host.put(STACK, "# a comment\nINCLUDE plugstack.conf.d/*.conf\nOptional /lib/other.so a=1 'b=2 3' # more\n")
    host.put(OWN, f"required {PLUGIN} runtime_path=/run/pyxis\n")
    host.put(STACK + ".d/.hidden.conf", "required /nowhere.so\n")
    host.put(STACK + ".d/README", "not a configuration\n")
    stack = read_stack(host, STACK)
    assert [(e.file, e.number, e.keyword, e.plugin, e.options) for e in stack.entries] == [
        (OWN, 1, "required", PLUGIN, ("runtime_path=/run/pyxis",)),
        (STACK, 3, "optional", "/lib/other.so", ("a=1", "b=2 3")),
    ]
    assert stack.includes[0].found == (OWN,)
    assert stack.problems == []
    assert stack.as_dict()["files"] == [STACK, OWN]


def test_unreadable_file_is_reported(host):
    host.put(STACK, GLOB)
    host.put(STACK + ".d/sedXYZ.conf", "", mode=0o600)
    assert f"{STACK}.d/sedXYZ.conf cannot be opened by ordinary users" in read_stack(host, STACK).problems[0]


def test_closed_directory_is_reported(host):
    host.put(STACK, GLOB)
    host.put(OWN, "")
    host.folder(STACK + ".d", 0o750)
    assert f"{OWN} cannot be opened by ordinary users" in read_stack(host, STACK).problems[0]


def test_bare_star_duplicate_and_bad_line_are_reported(host):
    host.put(STACK, f"include {STACK}.d/*\nrequired {PLUGIN}\nmandatory x\n")
    host.put(OWN, f"required {PLUGIN}\n")
    stack = read_stack(host, STACK)
    assert len(stack.pyxis) == 2
    text = "\n".join(stack.problems)
    assert "line 3 of" in text
    assert f"use {STACK}.d/*.conf" in text
    assert f"listed 2 times ({OWN}:1, {STACK}:2)" in text


def test_cyclic_includes_end(host):
    host.put(STACK, f"include {OWN}\n")
    host.put(OWN, f"include {STACK}\nrequired {PLUGIN}\n")
    assert f"listed 2 times ({OWN}:2, {OWN}:2)" in read_stack(host, STACK).problems[0]


def test_file_included_twice_counts_twice(host):
    host.put(STACK, f"{GLOB}{GLOB}")
    host.put(OWN, f"required {PLUGIN}\n")
    assert "listed 2 times" in read_stack(host, STACK).problems[0]
    put_wanted(host, duplicates="remove")
    assert host.text(OWN) == f"optional {PLUGIN} container_scope=global\n"


def test_linked_directory_is_resolved(host):
    """Debian's package includes /etc/slurm/plugstack.conf.d, and /etc/slurm may lead to /opt/slurm/etc."""
    host.folder("/etc")
    Path(host.at("/etc/slurm")).symlink_to(host.at("/opt/slurm/etc"))
    host.put(STACK, "include plugstack.conf.d/*.conf\n")
    apply_changes(host, "/etc/slurm/plugstack.conf", PluginRequest(PLUGIN))
    assert host.text(STACK) == "include plugstack.conf.d/*.conf\n"
    assert len(read_stack(host, STACK).pyxis) == 1


def put_wanted(host, **changes):
    options = changes.pop("options", {"container_scope": "global"})
    return apply_changes(host, STACK, PluginRequest(PLUGIN, options=options, **changes))["after"]


def test_fresh_cluster_gets_file_and_include(host):
    assert list(put_wanted(host)) == [OWN, STACK]
    assert host.text(OWN) == f"{OWN_COMMENT}\noptional {PLUGIN} container_scope=global\n"
    assert host.text(STACK) == GLOB
    assert put_wanted(host) == {}


def test_dry_run_writes_nothing(host):
    planned = apply_changes(host, STACK, PluginRequest(PLUGIN), dry=True)
    assert list(planned["after"]) == [OWN, STACK]
    assert not host.exists(STACK)
    assert not host.exists("/opt/slurm/etc/.plugstack.lock")


def test_lines_of_others_are_kept(host):
    host.put(STACK, "# site\nrequired /lib/x11.so\n")
    put_wanted(host)
    assert host.text(STACK) == f"# site\nrequired /lib/x11.so\n{GLOB}"


def test_parallelcluster_example_is_adopted_and_made_safe(host):
    host.put(STACK, f"include {STACK}.d/*\n")
    host.put(OWN, f"required {PLUGIN} runtime_path=/run/pyxis\n")
    host.put(STACK + ".d/other", "optional /lib/x11.so\n")
    host.put(STACK + ".d/sedXYZ", "")
    put_wanted(host, options={"runtime_path": "/run/pyxis"})
    assert host.text(OWN) == f"optional {PLUGIN} runtime_path=/run/pyxis\n"
    assert host.text(STACK) == f"{GLOB}include {STACK}.d/other\n"
    assert read_stack(host, STACK).problems == []


def test_existing_line_is_changed_in_place(host):
    host.put(STACK, f"required {PLUGIN}   container_scope=global  # ours\noptional /lib/x11.so\n")
    put_wanted(host, keyword="required")
    assert host.text(STACK) == f"required {PLUGIN}   container_scope=global  # ours\noptional /lib/x11.so\n"
    put_wanted(host, keyword="optional")
    assert host.text(STACK) == f"optional {PLUGIN} container_scope=global\noptional /lib/x11.so\n"
    assert not host.exists(OWN)


def test_duplicates_are_kept_or_commented_out(host):
    host.put(STACK, f"{GLOB}required {PLUGIN}\n")
    host.put(OWN, f"required {PLUGIN}\n")
    put_wanted(host)
    assert len(read_stack(host, STACK).pyxis) == 2
    put_wanted(host, duplicates="remove")
    assert [entry.file for entry in read_stack(host, STACK).pyxis] == [OWN]
    assert host.text(STACK) == f"{GLOB}# removed, since it is listed already: required {PLUGIN}\n"


def test_configless_cluster_gets_file_by_name(host):
    host.put(STACK, f"include {STACK}.d/*\n")
    host.put(STACK + ".d/x11.conf", "optional /lib/x11.so\n")
    put_wanted(host, include="file")
    assert host.text(STACK) == f"include {OWN}\ninclude {STACK}.d/x11.conf\n"
    assert put_wanted(host, include="file") == {}


def test_removal_keeps_other_lines(host):
    host.put(STACK, "optional /lib/x11.so\n")
    put_wanted(host)
    apply_changes(host, STACK, None)
    assert host.text(STACK) == f"optional /lib/x11.so\n{GLOB}"
    assert not host.exists(OWN)
    assert apply_changes(host, STACK, None)["after"] == {}


def test_removal_of_foreign_line_leaves_comment(host):
    host.put(STACK, f"required {PLUGIN}\n")
    apply_changes(host, STACK, None)
    assert host.text(STACK) == f"# removed by the role mlcluster.aws.enroot_pyxis: required {PLUGIN}\n"


def test_missing_slurm_directory_names_the_setting(host):
    with pytest.raises(NodeError, match="set enroot_pyxis_slurm_conf_dir"):
        apply_changes(host, "/nowhere/plugstack.conf", PluginRequest(PLUGIN))


def write(root, index):
    put_wanted(rooted.RootedHost(root), options={"runtime_path": f"/run/pyxis{index % 7}"})


def test_concurrent_writers_never_expose_partial_file(host, tmp_path):
    put_wanted(host)
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=write, args=(tmp_path, index)) for index in range(50)]
    for writer in writers:
        writer.start()
    looks = 0
    while any(writer.is_alive() for writer in writers) or not looks:
        stack = read_stack(host, STACK)
        assert len(stack.pyxis) == 1
        assert stack.problems == []
        looks += 1
        time.sleep(0.001)
    assert [writer.exitcode for writer in writers] == [0] * 50
    assert sorted(host.listdir(STACK + ".d")) == ["pyxis.conf"]


THEIRS = b"# caf\xe9, by hand\r\noptional /lib/x11.so a='\xff' \x0b # \x85\x1c\r\n\r\n"


def content(host, path):
    return Path(host.at(path)).read_bytes()


@pytest.mark.parametrize("end", [b"", b"\n", b"# no end of its line", b"#\r"])
@pytest.mark.parametrize("begin", [b"", b"\xef\xbb\xbf# with a mark of its order of bytes\n"])
def test_lines_of_others_are_kept_byte_for_byte(host, begin, end):
    """In any encoding, with any line ending, and without one at the end of the file."""
    theirs = begin + THEIRS
    host.put(STACK, theirs + f"required {PLUGIN} old=1\r\n".encode() + end)
    apply_changes(host, STACK, PluginRequest(PLUGIN, options={"container_scope": "global"}))
    assert content(host, STACK) == theirs + f"optional {PLUGIN} container_scope=global\r\n".encode() + end
    assert apply_changes(host, STACK, PluginRequest(PLUGIN, options={"container_scope": "global"}))["after"] == {}
    apply_changes(host, STACK, None)
    assert content(host, STACK).startswith(theirs + b"# removed by the role")
    assert content(host, STACK).endswith(b"container_scope=global\r\n" + end)


def test_include_is_added_after_lines_of_others(host):
    host.put(STACK, THEIRS + b"# no end")
    apply_changes(host, STACK, PluginRequest(PLUGIN))
    assert content(host, STACK) == THEIRS + b"# no end\n" + GLOB.encode()


def test_only_bare_star_line_is_replaced(host):
    host.put(STACK, THEIRS + f"include {STACK}.d/*\r\n".encode() + THEIRS)
    host.put(OWN, f"optional {PLUGIN}\n")
    apply_changes(host, STACK, PluginRequest(PLUGIN))
    assert content(host, STACK) == THEIRS + GLOB.replace("\n", "\r\n").encode() + THEIRS


def test_lines_are_counted_as_slurm_counts_them(host):
    host.put(STACK, b"# a\x0b\x0cb\xe2\x80\xa8c\rd\nmandatory x\r\n")
    (problem,) = read_stack(host, STACK).problems
    assert problem == f"line 2 of {STACK} is neither required, optional nor include: mandatory x"
