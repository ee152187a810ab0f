# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``python -m tests.rig.ec2 --scenario NAME|FILE``: serve a scenario until interrupted."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys

from .scenario import ScenarioError, load
from .server import Endpoint


def main(arguments: list[str]) -> int:
    """Serve; the first line of output is the endpoint's JSON: url and the environment for an SDK."""
    parser = argparse.ArgumentParser(prog="python -m tests.rig.ec2", description="A fake EC2 endpoint on 127.0.0.1.")
    parser.add_argument("--port", type=int, default=0, help="0 (the default) takes a free one")
    parser.add_argument("--scenario", default="small", help="a file, or a name in tests/rig/ec2/scenarios")
    chosen = parser.parse_args(arguments)
    try:
        endpoint = Endpoint(load(chosen.scenario), chosen.port)
    except ScenarioError as problem:
        print(problem, file=sys.stderr)
        return 2
    endpoint.prepare()
    with contextlib.suppress(KeyboardInterrupt):
        print(json.dumps({"url": endpoint.url, "environment": endpoint.environment()}), flush=True)
        endpoint.server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
