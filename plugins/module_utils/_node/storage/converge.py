# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Look at a node's local storage, plan and apply: the common entry for the modules, the boot unit and the CLI."""

from __future__ import annotations

import contextlib
import hashlib
import typing as t
import uuid

from ..system.host import Host, NodeError
from ..system.instance import table_disks
from ..system.mounts import read_fstab
from . import devices as block
from .apply import Applied, apply_actions, mdadm_fragment_path
from .config import MARKER_NAME, StorageConfig, mount_points
from .first_boot import note_disks
from .owner import owned_identities
from .plan import UNFINISHED, Plan, make_plan
from .record import INTENT_PATH, LOCK_PATH, RECORD_PATH, build_record, read_document, write_failure, write_record
from .situation import Context
from .volume import wanted_directories


class RefusedError(NodeError):
    """A plan that ended in refusals, with the plan and the facts for the report."""

    def __init__(self, plan: Plan, facts: dict[str, t.Any]) -> None:
        self.plan = plan
        self.facts = facts
        super().__init__("; ".join(plan.refusals))


# A service that sets up the disks is started once, followed by one more look; more rounds would hide a failing service.
MAX_ROUNDS = 2


def look(host: Host, config: StorageConfig) -> dict[str, t.Any]:
    """Return the facts of ``devices.look`` and those that are compared with the configuration; nothing is written.

    Adds record and intent (if ``record.sound`` accepts them, else None), named_devices {given: kernel name},
    mount_points {path: {is_dir, real, entries}}, paths {path: {mode, uid, gid}}, users, groups and user_groups
    {name: id or None}, array_config (text or None), fstab (parsed lines), machine_id.
    """
    if not host.is_root():
        raise NodeError("only root can look at the disks: run again with become: true, or with sudo")
    facts = block.look(host)
    facts["record"] = read_document(host, RECORD_PATH)
    facts["intent"] = read_document(host, INTENT_PATH)
    if facts["intent"] and facts["intent"].get("stage") in UNFINISHED:
        block.look_at_rest(host, facts, owned_identities(facts["intent"]).filesystem_uuids)
    facts["named_devices"] = {
        given: block.device_name(host, given) if host.exists(given) else None for given in config.devices or ()
    }
    stores = sum(1 for disk in facts["disks"] if disk["kind"] == "instance_store")
    # An adopted volume is bound to the mount point itself, with any layout.
    tops = [] if config.layout == "none" else list(dict.fromkeys([config.mount_point, *mount_points(config, stores)]))
    facts["mount_points"] = {}
    for top in tops:
        seen, real = host.stat(top), host.realpath(top)
        if seen or real != top:
            entries = _entries(host, top, facts["mounts"])
            facts["mount_points"][top] = {**(seen or {"is_dir": True}), "real": real, "entries": entries}
    directories = wanted_directories(config)
    below = [entry["path"] for entry in directories] + [MARKER_NAME]
    facts["paths"] = {path: host.stat(path) for path in tops + [f"{top}/{name}" for top in tops for name in below]}
    owners = {config.owner, *config.users, *(entry["owner"] for entry in directories)}
    facts["users"] = {name: host.uid(name) for name in sorted(owners)}
    facts["user_groups"] = {name: host.primary_gid(name) for name in sorted(config.users)}
    groups = {config.group, *(entry["group"] for entry in directories if entry["group"] is not None)}
    facts["groups"] = {name: host.gid(name) for name in sorted(groups)}
    facts["fstab"] = read_fstab(host)
    facts["array_config"] = host.read_text(mdadm_fragment_path(host, config.array_name))
    facts["machine_id"] = (host.read_text("/etc/machine-id") or "").strip()
    return facts


def _entries(host: Host, path: str, mounts: t.Sequence[t.Mapping[str, t.Any]]) -> int:
    """Return the number of entries that a mount over a directory would hide; none for empty directories and mounts."""
    mounted = {mount["target"] for mount in mounts}
    if path in mounted:
        return 0
    below = [f"{path}/{name}" for name in host.listdir(path) if name != "lost+found"]
    return sum(1 for entry in below if entry not in mounted and not _is_empty_directory(host, entry))


def _is_empty_directory(host: Host, path: str) -> bool:
    seen = host.stat(path)
    return bool(seen and seen["is_dir"]) and not host.listdir(path)


def context_for(facts: t.Mapping[str, t.Any], at_boot: bool = False) -> Context:
    """Return the part of a plan that does not depend on the disks.

    A fresh array gets a new UUID each time, so that it is never mistaken for an older one; the UUID depends on the
    earlier state, so that two looks at the same state (check mode, then the run) give the same one.
    """
    before = facts["record"] or {}
    serials = sorted(disk["serial"] for disk in facts["disks"] if disk["kind"] == "instance_store")
    seed = "|".join([facts["machine_id"], str(before.get("array_uuid")), str(before.get("updated_at")), *serials])
    return Context(
        array_uuid=hashlib.sha256(seed.encode()).hexdigest()[:32],
        namespace=uuid.uuid5(uuid.NAMESPACE_URL, f"mlcluster.aws/{facts['machine_id']}"),
        table_disks=table_disks(facts["instance_type"]),
        at_boot=at_boot,
    )


def dry_run(host: Host, config: StorageConfig) -> Plan:
    """Return the plan that ``converge`` would carry out; raises ``RefusedError``."""
    facts, plan = survey(host, config)
    if plan.refusals:
        raise RefusedError(plan, facts)
    return plan


def survey(host: Host, config: StorageConfig, at_boot: bool = False) -> tuple[dict[str, t.Any], Plan]:
    """Return the facts of the node and the plan, without writing anything."""
    facts = look(host, config)
    return facts, make_plan(facts, config, context_for(facts, at_boot))


def converge(host: Host, config: StorageConfig, at_boot: bool = False, lock_timeout: float = 300) -> Applied:
    """Look, plan, act, and look again until nothing is left to do.

    Raises ``RefusedError``, or ``NodeError`` for a failed action; at boot either is recorded first.
    """
    with host.locked(LOCK_PATH, lock_timeout):
        try:
            return _converge(host, config, at_boot)
        except RefusedError as exc:
            # On a full or read-only root the refusal itself must still be reported.
            with contextlib.suppress(NodeError):
                if at_boot:
                    write_record(host, build_record(host, exc.facts, config, exc.plan))
            raise
        except NodeError as exc:
            with contextlib.suppress(NodeError):
                if at_boot:
                    write_failure(host, str(exc))
            raise


def note_stores(host: Host, at_boot: bool) -> None:
    """Record the instance-store disks of this boot. A failure does not fail the run: less can be proved later."""
    with contextlib.suppress(NodeError):
        stores, volumes = (
            [serial for _kname, serial in block.serials_of(host, kind)] for kind in ("instance_store", "ebs")
        )
        note_disks(host, stores, volumes, at_boot)


def _converge(host: Host, config: StorageConfig, at_boot: bool) -> Applied:
    applied = Applied()
    if at_boot:
        note_stores(host, at_boot)
    for _round in range(MAX_ROUNDS):
        facts, plan = survey(host, config, at_boot)
        applied.plan = plan
        if plan.refusals:
            raise RefusedError(plan, facts)
        # A plan with actions writes the record among them.
        needs_write = at_boot and not plan.actions
        if plan.actions and not at_boot:
            note_stores(host, at_boot)
        apply_actions(host, config, plan, facts, applied)
        if not plan.pending:
            if needs_write:
                write_record(host, build_record(host, facts, config, plan))
            return applied
    raise NodeError(
        f"asked {applied.plan.owner}'s service to set the disks up and they are still not mounted: look with "
        "'systemctl status setup-ephemeral dlami-nvme' and 'lsblk', then run again"
    )
