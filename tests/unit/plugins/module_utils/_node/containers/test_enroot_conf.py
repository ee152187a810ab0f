# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""enroot.conf: the first value wins, and bash evaluates it."""

from __future__ import annotations

import subprocess

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers import enroot_conf
from ansible_collections.mlcluster.aws.tests.unit.fakes import fake_rooted_host as rooted

CONF = enroot_conf.CONF_PATH


@pytest.fixture
def host(tmp_path):
    return rooted.node(tmp_path)


def test_lines_that_are_settings():
    text = (
        "#ENROOT_DATA_PATH /commented\n  ENROOT_DATA_PATH\t/a b \nENROOT_DATA_PATH /second\nENROOT_TEMP_PATH=/tmp\n"
        "OTHER 1\nhttp_proxy http://p:1\nNVIDIA_VISIBLE_DEVICES all\nenroot_data_path x\n"
    )
    assert enroot_conf.parse(text) == {
        "ENROOT_DATA_PATH": "/a b",
        "ENROOT_TEMP_PATH": "/tmp",
        "http_proxy": "http://p:1",
        "NVIDIA_VISIBLE_DEVICES": "all",
    }


def test_main_file_wins_over_dropins_and_first_dropin_over_next(host):
    host.put(CONF, "ENROOT_DATA_PATH /main\n")
    host.put(CONF + ".d/10-b.conf", "ENROOT_DATA_PATH /b\nENROOT_CACHE_PATH /b\n")
    host.put(CONF + ".d/05-a.conf", "ENROOT_CACHE_PATH /a\n")
    host.put(CONF + ".d/README", "ENROOT_TEMP_PATH /readme\n")
    now = enroot_conf.effective(host)
    assert {key: setting.value for key, setting in now.items()} == {
        "ENROOT_DATA_PATH": "/main",
        "ENROOT_CACHE_PATH": "/a",
    }
    assert now["ENROOT_CACHE_PATH"].source == CONF + ".d/05-a.conf"


def test_dropin_says_what_it_cannot_set(host):
    host.put(CONF, "ENROOT_DATA_PATH /main\nENROOT_MOUNT_HOME no\n")
    host.put(CONF + ".d/99-late.conf", "ENROOT_CACHE_PATH /late\n")
    host.put(CONF + ".d/00-a.conf", "ENROOT_REMAP_ROOT yes\n")
    told = enroot_conf.shadowed(host, enroot_conf.wanted_settings({}), enroot_conf.DROPIN_PATH)
    assert len(told) == 2
    assert "sets ENROOT_DATA_PATH to /main and the first value wins" in told[0]
    assert "enroot_pyxis_conf_owner: role" in told[0]
    assert "00-a.conf sets ENROOT_REMAP_ROOT to yes" in told[1]


def test_what_was_written_is_what_is_read(host):
    settings = enroot_conf.wanted_settings({"ENROOT_MOUNT_HOME": True, "ENROOT_REMAP_ROOT": None, "NVIDIA_X": 3})
    assert settings["ENROOT_MOUNT_HOME"] == "yes"
    assert "ENROOT_REMAP_ROOT" not in settings
    host.put(enroot_conf.DROPIN_PATH, enroot_conf.conf_text(settings))
    assert {key: setting.value for key, setting in enroot_conf.effective(host).items()} == settings


def test_every_user_has_directory_of_his_own_as_first_level_below_shared_one(tmp_path):
    """Evaluated by bash as Enroot does it, with the link that the boot unit makes."""
    place = tmp_path / "volume"
    place.mkdir()
    (tmp_path / "link").symlink_to(place)
    for key in ("ENROOT_DATA_PATH", "ENROOT_CACHE_PATH", "ENROOT_TEMP_PATH"):
        value = enroot_conf.DEFAULTS[key].replace(enroot_conf.LOCAL_LINK, str(tmp_path / "link"))
        said = subprocess.run(
            ["bash", "-c", 'eval echo "$1"', "bash", value], capture_output=True, text=True, check=True
        ).stdout.strip()
        assert said.startswith(f"{place}/user-")


def test_file_is_valid_for_bash(tmp_path):
    file = tmp_path / "enroot.conf"
    file.write_text(enroot_conf.conf_text(enroot_conf.wanted_settings({})), encoding="utf-8")
    assert subprocess.run(["bash", "-n", str(file)], check=False).returncode == 0


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ({"PATH": "/x"}, "PATH is not a setting that Enroot reads"),
        ({"ENROOT_DATA_PATH": "/x; rm -rf /"}, "are commands"),
        ({"ENROOT_DATA_PATH": "/x`id`"}, "are commands"),
        ({"ENROOT_DATA_PATH": "/x\nENROOT_REMAP_ROOT yes"}, "more than one line"),
    ],
)
def test_settings_that_would_be_read_in_another_way(extra, words):
    assert words in "; ".join(enroot_conf.setting_problems(extra))


def test_settings_that_bash_evaluates_as_meant():
    good = {"ENROOT_DATA_PATH": "/x/user-$(id -u)/${HOME}", "ENROOT_ZSTD_OPTIONS": "-1", "ENROOT_MOUNT_HOME": None}
    assert enroot_conf.setting_problems(good) == []


@pytest.mark.parametrize(
    ("value", "base"),
    [
        ("/fsx/enroot/user-$(id -u)/data", "/fsx/enroot"),
        ("/run/enroot", "/run/enroot"),
        ("${HOME}/x", None),
        ("relative", None),
        ("$(readlink -f /x)/y", None),
    ],
)
def test_fixed_part_of_path(value, base):
    assert enroot_conf.base_of(value) == base
