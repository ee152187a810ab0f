# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A fault becomes an alert, with the real runtime, node_exporter, Prometheus, Alertmanager and a webhook."""

from __future__ import annotations

import os
import subprocess
import time

import pytest

from tests.rig.monitoring import engines, wait_for
from tests.rig.slurm.scripts import build_runtime

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a node of its own is a mount namespace, which needs root")
# The runtime gets empty directories, so that the drain marker does not affect this machine.
OWN = """
set -e
for place in /var/lib/mlcluster /run/mlcluster /var/log/mlcluster; do
  mkdir -p "$place" && mount -t tmpfs none "$place"
done
[ -z "$FAULT" ] || echo "$FAULT" > /var/lib/mlcluster/drain.json
exec /usr/bin/python3 -I "$RUNTIME" watch --directory "$DIRECTORY" --period 5
"""


@pytest.fixture(scope="module")
def runtime(tmp_path_factory):
    return build_runtime(tmp_path_factory.mktemp("runtime"))


@pytest.fixture
def found(tmp_path):
    with engines(tmp_path) as running:
        yield running


def watch(runtime, engines, fault=""):
    """Run ``mlcluster watch`` once, on a node whose drain marker has the reason ``fault``, or without a marker."""
    variables = {**os.environ, "RUNTIME": str(runtime), "DIRECTORY": str(engines.textfile), "FAULT": fault}
    subprocess.run(
        ["unshare", "--mount", "--propagation=private", "sh", "-c", OWN], env=variables, check=True, timeout=60
    )


def test_fault_becomes_alert_and_ends_with_it(runtime, found):
    watch(runtime, found)
    wait_for("the metrics", lambda: found.query('mlcluster_verdict{check="node.drain_marker",status="pass"}'))
    assert "MlclusterIsolate" not in found.firing()
    began = time.monotonic()
    watch(runtime, found, fault="the driver did not build")
    _name, _status, labels = wait_for("the alert", lambda: next(iter(isolated(found, "firing")), None))
    print(f"from the fault to the webhook: {time.monotonic() - began:.1f} s")
    assert (labels["check"], labels["instance"], labels["severity"]) == ("node.drain_marker", "n1", "critical")
    # The age does not depend on the clock: it is computed from uptimes.
    assert -2 < float(found.query("instance:mlcluster_watch_age:seconds")[0]["value"][1]) < 60
    watch(runtime, found)
    wait_for("the end of the alert", lambda: isolated(found, "resolved"))
    assert "MlclusterIsolate" not in found.firing()
    # This alert fires two periods of five seconds after the last metrics were written.
    wait_for(
        "the alert on old metrics", lambda: [one for one in found.webhook.alerts if one[0] == "MlclusterMetricsOld"]
    )


def isolated(found, status):
    return [one for one in found.webhook.alerts if one[:2] == ("MlclusterIsolate", status)]
