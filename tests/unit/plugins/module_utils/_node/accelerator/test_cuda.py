# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.accelerator.cuda import cuda_version
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host


class Files(Host):
    def __init__(self, document):
        self.document = document

    def read_json(self, path):
        return self.document if path == "/cuda/version.json" else None


@pytest.mark.parametrize(
    ("document", "version"),
    [
        ({"cuda": {"name": "CUDA SDK", "version": "12.8.1"}}, "12.8.1"),
        ({"cuda": {"version": 12}}, None),
        ({"cuda": "12.8"}, None),
        ([], None),
        (None, None),
    ],
)
def test_cuda_version_is_string_of_version_json(document, version):
    assert cuda_version(Files(document), "/cuda") == version
