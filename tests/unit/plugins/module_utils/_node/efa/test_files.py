# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files of the role efa_nccl, read by what reads them."""

from __future__ import annotations

import json
import re
import subprocess

from ansible_collections.mlcluster.aws.plugins.module_utils._node.efa import files
from ansible_collections.mlcluster.aws.plugins.module_utils._node.efa.config import EfaConfig


def test_unattended_upgrades_get_regular_expressions():
    text = files.upgrades_text(["linux-image-*", "libnccl2", "efa", "libnccl2"])
    patterns = re.findall(r'^    "(.*)";$', text, re.MULTILINE)
    assert len(patterns) == 3
    covered = ("linux-image-6.8", "libnccl2", "efa")
    assert [name for name in covered if not any(re.search(pattern, name) for pattern in patterns)] == []
    others = ("my-linux-image-6", "libnccl2-dev", "efax")
    assert [name for name in others if any(re.search(pattern, name) for pattern in patterns)] == []


def test_needrestart_reads_what_is_written(tmp_path):
    path = tmp_path / "mlcluster.conf"
    path.write_text(files.needrestart_text(["slurmd", "getty@tty1"]))
    program = (
        "our %nrconf; eval do { local(@ARGV, $/) = $ARGV[0]; <> }; die $@ if $@;"
        "for my $unit (qw(slurmd.service getty@tty1.service sshd.service myslurmd.service)) {"
        "print grep({ $unit =~ /$_/ } keys %{$nrconf{override_rc}}) ? 0 : 1 }"
    )
    done = subprocess.run(["perl", "-e", program, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout == "0011"


def test_limits_reach_logins_and_services():
    assert (
        "\n* hard memlock unlimited\n" in files.LIMITS_TEXT and "\nroot hard memlock unlimited\n" in files.LIMITS_TEXT
    )
    assert files.UNIT_LIMITS_TEXT.endswith("[Service]\nLimitMEMLOCK=infinity\n")


def test_every_file_names_its_author():
    texts = [
        files.LIMITS_TEXT,
        files.UNIT_LIMITS_TEXT,
        files.linker_text("/opt"),
        files.kernel_text({}),
        files.upgrades_text([]),
        files.needrestart_text([]),
    ]
    assert [text for text in texts if files.HEADER not in text.splitlines()[0]] == []


def test_places():
    config = EfaConfig(limit_units=("slurmd.service", "slurmd.service"))
    assert files.unit_paths(config) == ["/etc/systemd/system/slurmd.service.d/mlcluster-limits.conf"]
    assert files.modulefile(config, "Debian") == "/usr/share/modules/modulefiles/mlcluster-nccl"
    assert files.modulefile(config, "RedHat") == "/usr/share/Modules/modulefiles/mlcluster-nccl"
    assert files.modulefile(EfaConfig(modulefile_dir="/opt/m"), "RedHat") == "/opt/m/mlcluster-nccl"
    own = files.own_paths(config, "Debian")
    assert len(own) == len(set(own)) == 9


def test_notes_for_next_run_are_json():
    wanted = json.loads(files.tests_text(EfaConfig(tests_arguments=("A=1",))))
    assert wanted["arguments"] == ["A=1"] and wanted["mpi_home"] == "/opt/amazon/openmpi"
    assert json.loads(files.intent_text("1.51.0", "repair")) == {"version": "1.51.0", "step": "repair"}
