# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The IAM policy for nodes equals the requests that a node makes to S3.

The hook's Pythons are isolated, so that no recorder fits in; the S3 proxy records the requests instead.
"""

from __future__ import annotations

import fnmatch
import json

from plugins.module_utils._bundle import pointer
from tests.integration.cluster import policies
from tests.integration.hook.conftest import BOOT, BUCKET
from tests.integration.hook.test_pointer import Releases

OPERATIONS = {"GET": "s3:GetObject", "HEAD": "s3:HeadObject", "PUT": "s3:PutObject"}


def allows(action: str, path: str) -> bool:
    """Return whether the policy allows the action on /bucket/key; the example's bucket stands for any."""
    statements = json.loads((policies.FOLDER / "hook.json").read_text(encoding="utf-8"))["Statement"]
    places = [entry["Resource"] for entry in statements if action in entry["Action"]]
    each = [name for place in places for name in (place if isinstance(place, list) else [place])]
    keys = [name.partition("/")[2] for name in each]
    return any(fnmatch.fnmatchcase(path.removeprefix(f"/{BUCKET}/"), pattern) for pattern in keys)


def test_policy_matches_requests_of_node(node, stored, proxy, bundle, key, tmp_path):
    def address(name: str) -> str:
        return f"s3://{BUCKET}/mlcluster/{name}"

    releases = Releases(tmp_path, key, bundle)
    releases.move("1.2.3", bundle=(address("bundles/b.tar.gz"), bundle[1]))
    stored.upload_file(str(bundle[0]), BUCKET, "mlcluster/bundles/b.tar.gz")
    stored.put_object(Bucket=BUCKET, Key="mlcluster/vars.json", Body=b'{"marker_word": "mine"}')
    stored.upload_file(str(releases.path), BUCKET, "mlcluster/pointer")
    words = ["--pointer", address("pointer"), "--public-key", pointer.public_key(key)]
    words += ["--vars", address("vars.json"), "--log-prefix", address("logs")]
    assert node.run(*words, "--roles", "mark").status["state"] == "configured"
    assert len(proxy.requests) == 3
    # The runner reports this failure. The hook reports the next two: after a download, and before any.
    assert node.run(*words, "--roles", "nothing").status["state"] == "drained"
    shipped = len([request for request in proxy.requests if request.method == "PUT"])
    for wrong in (["--vars", address("vars.none.json")], ["--deadline", "soon"]):
        assert node.run(*words, *wrong, **BOOT).status["state"] == "drained"
    uploads = [request.path for request in proxy.requests if request.method == "PUT"]
    assert shipped == 2 and len(uploads) == shipped + 2
    policies.check_policy("hook", {OPERATIONS[request.method] for request in proxy.requests})
    asked = {(policies.permission(OPERATIONS[request.method]), request.path) for request in proxy.requests}
    assert [item for item in sorted(asked) if not allows(*item)] == []
    # Logs of other nodes may be confidential, and the hook does not need them.
    assert not allows("s3:GetObject", f"/{BUCKET}/mlcluster/logs/n2/status.json")
    assert not allows("s3:PutObject", f"/{BUCKET}/mlcluster/vars.json")
