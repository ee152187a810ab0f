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


def test_settings_are_parsed():
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


def test_main_file_precedes_dropins_in_order(host):
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


def test_shadowed_settings_of_dropin_are_reported(host):
    host.put(CONF, "ENROOT_DATA_PATH /main\nENROOT_MOUNT_HOME no\n")
    host.put(CONF + ".d/99-late.conf", "ENROOT_CACHE_PATH /late\n")
    host.put(CONF + ".d/00-a.conf", "ENROOT_REMAP_ROOT yes\n")
    sentences = enroot_conf.shadowed(host, enroot_conf.wanted_settings({}), enroot_conf.DROPIN_PATH)
    assert len(sentences) == 2
    assert "sets ENROOT_DATA_PATH to /main and the first value wins" in sentences[0]
    assert "enroot_pyxis_conf_owner: role" in sentences[0]
    assert "00-a.conf sets ENROOT_REMAP_ROOT to yes" in sentences[1]


def test_written_settings_round_trip(host):
    settings = enroot_conf.wanted_settings({"ENROOT_MOUNT_HOME": True, "ENROOT_REMAP_ROOT": None, "NVIDIA_X": 3})
    assert settings["ENROOT_MOUNT_HOME"] == "yes"
    assert "ENROOT_REMAP_ROOT" not in settings
    host.put(enroot_conf.DROPIN_PATH, enroot_conf.conf_text(settings))
    assert {key: setting.value for key, setting in enroot_conf.effective(host).items()} == settings


def test_each_user_has_own_directory_below_shared_one(tmp_path):
    """Evaluate the values in bash, as Enroot does, with the link of the boot unit."""
    place = tmp_path / "volume"
    place.mkdir()
    (tmp_path / "link").symlink_to(place)
    for key in ("ENROOT_DATA_PATH", "ENROOT_CACHE_PATH", "ENROOT_TEMP_PATH"):
        value = enroot_conf.DEFAULTS[key].replace(enroot_conf.LOCAL_LINK, str(tmp_path / "link"))
        path = subprocess.run(
            ["bash", "-c", 'eval echo "$1"', "bash", value], capture_output=True, text=True, check=True
        ).stdout.strip()
        assert path.startswith(f"{place}/user-")


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
def test_ambiguous_settings_are_rejected(extra, words):
    assert words in "; ".join(enroot_conf.setting_problems(extra))


def test_settings_with_substitutions_are_accepted():
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
