# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The server of an account: moto, with the changes that this package describes.

Arguments: the name of a guest, which is then the machine of instances, and the path of an ssh configuration for it.
"""

from __future__ import annotations

import sys
import uuid
from pathlib import Path
from typing import Any

from moto.fsx.models import FileSystem
from moto.s3.models import FakeBucket

from tests.rig import local_s3


def _as_aws(make: Any, show: Any) -> tuple[Any, Any]:
    """Return FileSystem's methods with an identifier of 17 digits, and the state and mount name that AWS reports."""

    def init(self: Any, *arguments: Any, **named: Any) -> None:
        make(self, *arguments, **named)
        short, self.file_system_id = self.file_system_id, f"fs-{uuid.uuid4().hex[:17]}"
        self.dns_name = self.dns_name.replace(short, self.file_system_id)
        tags = self.backend.list_tags_for_resource(self.resource_arn)
        self.resource_arn = self.resource_arn.replace(short, self.file_system_id)
        self.backend.tagger.tag_resource(self.resource_arn, tags)

    def to_dict(self: Any) -> dict[str, Any]:
        shown = {**show(self), "Lifecycle": "AVAILABLE"}
        if "LustreConfiguration" in shown:
            shown["LustreConfiguration"] = {**shown["LustreConfiguration"], "MountName": self.file_system_id[-8:]}
        return shown

    return init, to_dict


if __name__ == "__main__":
    FakeBucket.get_permission = lambda self, action, resource: None  # type: ignore[method-assign]
    FileSystem.__init__, FileSystem.to_dict = _as_aws(  # type: ignore[method-assign]
        FileSystem.__init__, FileSystem.to_dict
    )
    if sys.argv[1:]:
        # A server without machines does not need these.
        from tests.rig.aws.machine import Machine
        from tests.rig.vm.guest import Guest

        name, config = sys.argv[1:]
        Machine(Guest(name), Path(config)).attach()
    local_s3.main()
