# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Health checks of a node in three profiles: prolog (seconds, reads only), full (everything passive), container.

The verdicts do not depend on what is done about them: ``blocking`` decides which verdicts keep a job away.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import typing as t

from ..accelerator import look as accelerator
from ..efa import look as efa
from ..efa.verify import verify as verify_efa
from ..gds import decide as gds
from ..gds.verify import verify as verify_gds
from ..imex.apply import status as imex_status
from ..imex.config import MODES as IMEX_MODES
from ..imex.config import Options as ImexOptions
from ..slurm.client import Slurm
from ..storage.config import CONFIG_PATH, load_config
from ..storage.converge import context_for, survey
from ..storage.record import RECORD_PATH, read_document
from ..storage.verify import verify as verify_storage
from ..system.config_file import is_configured
from ..system.host import Host, NodeError
from ..system.instance import instance_type
from ..system.parallel import STATE_DIRECTORY, Check, run_all
from ..system.versions import version_key
from ..verdict.result import FAIL, PASS, SEVERITIES, UNDETERMINABLE, Result, not_applicable, passed, undeterminable
from . import container as health_container
from . import expectations as health_expect
from . import light as health_light
from . import system as health_system
from .dcgm import check_dcgm
from .image import check_image, image_problem
from .marker import MARKER_PATH, check_marker
from .s3 import check_buckets
from .slurm import check_slurm

PROFILES = ("prolog", "full", "container")
NODE_KINDS = ("head", "login", "compute")
# Verdicts with {component: version} in ``found``; they judge nothing, and ``split`` separates them.
VERSIONS = "node.versions"
# Seconds for one check, and for all of them, which run in parallel. A Prolog delays a job, and a Slurm command that
# drains is added: the total stays below 10 seconds.
LIMITS = {"prolog": (4.0, 4.0), "full": (150.0, 180.0), "container": (90.0, 120.0)}
LONGEST = 3600
# A failure of severity ``monitor`` keeps no job away.
MIN_SEVERITY = "reset"


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of the verb health and of the module node_health_info, under their names.

    ``scratch``: the directory of the jobs' directories (None: on the local volume). ``mounts``: paths to check for
    GPUDirect Storage (empty: the local volume). ``require``: components of a container, {name: minimum version or
    None}. ``expectations``: see ``expectations.py``. ``kind``: one of ``NODE_KINDS``. ``image`` and ``image_user``: an
    image in which the profile container also runs, and the user who starts it. ``imex``: slurm_jobs_imex.
    ``may_write``: allow the write probe in S3 and that container.
    """

    instance_type: str | None = None
    expected_efa: int | None = None
    xid_since: str | None = None
    scratch: str | None = None
    least_free_percent: int = health_light.MIN_FREE_PERCENT
    mounts: tuple[str, ...] = ()
    host_facts: str = health_container.FACTS_PATH
    require: t.Mapping[str, str | None] = dataclasses.field(default_factory=dict)
    marker: str = MARKER_PATH
    expectations: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    kind: str | None = None
    image: str | None = None
    image_user: str = "root"
    slurm_prefix: str | None = None
    slurm_conf: str | None = None
    imex: str = IMEX_MODES[0]
    may_write: bool = True


def option_errors(options: Options, seconds: int | None) -> list[str]:
    """Return the errors in a caller's options, one sentence each."""
    problems = []
    if seconds is not None and not 1 <= seconds <= LONGEST:
        problems.append(f"seconds is {seconds}: use 1 to {LONGEST}")
    if options.expected_efa is not None and not 0 <= options.expected_efa <= efa.MAX_DEVICES:
        problems.append(f"expected_efa is {options.expected_efa}: use 0 to {efa.MAX_DEVICES}")
    if not 0 <= options.least_free_percent <= 100:
        problems.append(f"least_free_percent is {options.least_free_percent}: use 0 to 100")
    if options.xid_since and not re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", options.xid_since):
        problems.append(f"xid_since is {options.xid_since!r}: use a time like 2026-01-31 12:00:00")
    for name, paths in (
        ("scratch", [options.scratch]),
        ("mounts", options.mounts),
        ("host_facts", [options.host_facts]),
    ):
        problems += [
            f"{name} has {path!r}: use an absolute path"
            for path in paths
            if path is not None and (not path.startswith("/") or "\0" in path)
        ]
    known = ", ".join(health_container.COMPONENTS)
    for component, version in options.require.items():
        if component not in health_container.COMPONENTS:
            problems.append(f"require has {component!r}: choose from {known}")
        elif version and not version_key(version):
            problems.append(f"require has {component} {version!r}: use a version such as 2.5.1")
    if options.image is not None and image_problem(options.image):
        problems.append(str(image_problem(options.image)))
    if options.imex not in IMEX_MODES:
        problems.append(f"imex is {options.imex!r}: use one of {', '.join(IMEX_MODES)}")
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", options.image_user):
        problems.append(f"image_user is {options.image_user!r}: use the name of a user")
    return problems + health_expect.problems(options.expectations)


Expected = health_expect.Expectations
Look = t.Callable[[Host], t.Sequence[Result]]


def checks(profile: str, options: Options, expect: Expected, seconds: float | None = None) -> list[Check]:
    """Return the checks of a profile, each with its limit; ``seconds`` replaces the limit of each."""
    limit = LIMITS[profile][0] if seconds is None else seconds
    looks = {"prolog": _prolog, "full": _full, "container": _container}[profile](options, expect)
    return [Check(name, functools.partial(_answered, name, look), limit) for name, look in looks.items()]


def _answered(name: str, look: Look, host: Host) -> list[Result]:
    """Return the verdicts of a check; a pass with its name first, if none has it and none may keep jobs away.

    A check that ends late drains the node for its name, and that drain ends by this pass. A finding of severity
    ``monitor`` beside it stays a finding: it drains no node, so it keeps none drained.
    """
    found = list(look(host))
    judged = {one.status for one in found} & {PASS, FAIL}
    if name in {one.id for one in found} or not judged or blocking(found, fail_closed=True):
        return found
    return [passed(name, len(found), unit="verdicts"), *found]


def run_profile(
    host: Host, profile: str, options: Options, seconds: float | None = None, state_directory: str = STATE_DIRECTORY
) -> list[Result]:
    """Return every verdict of a profile, within ``seconds`` (default: ``LIMITS``)."""
    total = LIMITS[profile][1] if seconds is None else seconds
    expect = health_expect.resolve(options.expectations, options.instance_type or instance_type(host))
    return run_all(host, checks(profile, options, expect, seconds), total, state_directory)


def dropped(host: Host, options: Options) -> list[Result]:
    """Return that the checks of expectations do not apply which the site no longer has."""
    return health_expect.dropped(
        health_expect.resolve(options.expectations, options.instance_type or instance_type(host))
    )


def split(results: t.Iterable[Result]) -> tuple[list[Result], dict[str, str]]:
    """Return the verdicts, and {component: version} of the components whose version was found."""
    judged, versions = [], {}
    for verdict in results:
        if verdict.id == VERSIONS and isinstance(verdict.found, dict):
            versions.update(verdict.found)
        else:
            judged.append(verdict)
    return judged, versions


def blocking(results: t.Iterable[Result], fail_closed: bool, min_severity: str = MIN_SEVERITY) -> list[Result]:
    """Return the verdicts that keep a job away: failures of at least ``min_severity``, then with ``fail_closed`` the
    undeterminable ones.
    """
    found = list(results)
    bad = [v for v in found if v.status == FAIL and SEVERITIES.index(v.severity) >= SEVERITIES.index(min_severity)]
    return bad + [v for v in found if fail_closed and v.status == UNDETERMINABLE]


def _device_options(options: Options, expect: Expected, **more: t.Any) -> tuple[accelerator.Options, efa.Options]:
    """Return the options for looking at the accelerators and at EFA; ``more`` is passed to the latter."""
    chips = accelerator.Options(instance_type=options.instance_type, xid_since=options.xid_since)
    # The caller passes what EC2 reports as attached; a number that the site expects has precedence.
    devices = expect.efa if expect.efa is not None else options.expected_efa
    return chips, efa.Options(instance_type=options.instance_type, expected_devices=devices, **more)


def _prolog(options: Options, expect: Expected) -> dict[str, Look]:
    chips, fabric = _device_options(options, expect, units=())
    chips = dataclasses.replace(chips, timeout=3)
    minimum = int(expect.thresholds.get("scratch_free_percent", options.least_free_percent))
    looks: dict[str, Look] = {
        "node.drain_marker": functools.partial(check_marker, path=options.marker),
        "storage.record": health_light.check_storage,
        "scratch.space": functools.partial(health_light.check_scratch, base=options.scratch, least_percent=minimum),
        "gpu.count": functools.partial(health_light.check_accelerators, options=chips),
        "gpu.xid": functools.partial(health_light.check_xids, options=chips, allowed=expect.allowed_xids),
        "efa.devices": functools.partial(health_light.check_efa, options=fabric),
        "imex.service": lambda host: imex_status(
            host, ImexOptions(options.imex, instance_type=options.instance_type), _slurm(host, options)
        ),
    }
    if expect.mounts or expect.gpus is not None or expect.disks is not None or expect.unresolved or expect.resolved:
        looks["expect.devices"] = functools.partial(health_expect.check_devices, expect=expect)
    return looks


def _full(options: Options, expect: Expected) -> dict[str, Look]:
    chips, fabric = _device_options(
        options, expect, packages=(*health_system.PACKAGES, *health_expect.packages(expect), *expect.held)
    )
    light = _prolog(options, expect)
    root_percent = expect.thresholds.get("root_free_percent", health_system.MIN_ROOT_PERCENT)
    looks: dict[str, Look] = {
        "node.drain_marker": light["node.drain_marker"],
        "storage.record": light["storage.record"],
        "storage.plan": _storage,
        "scratch.space": light["scratch.space"],
        "gpu.count": lambda host: _accelerators(host, chips, expect),
        "dcgm.fields": lambda host: check_dcgm(host, expect.allowed_xids, expect.thresholds.get("gpu_celsius")),
        "efa.devices": lambda host: _fabric(host, fabric, expect),
        "imex.service": light["imex.service"],
        "gds.mode": lambda host: verify_gds(gds.survey(host, list(options.mounts) or _volumes(host))),
        "node.clock": health_system.check_clock,
        "node.service": health_system.check_services,
        "node.kernel": health_system.check_kernel,
        "node.root_space": lambda host: health_system.check_root(host, root_percent),
        "mounts.answer": health_system.check_mounts,
        "lustre.mounted": health_system.check_lustre,
        "enroot.config": lambda host: health_system.check_containers(),
        "slurm.controller": lambda host: check_slurm(_slurm(host, options), options.kind),
        "pcluster.diag": health_system.check_pcluster_diag,
    }
    if "expect.devices" in light:
        looks["expect.devices"] = light["expect.devices"]
    if expect.services:
        looks["expect.service"] = lambda host: health_expect.check_services(host, expect)
    if expect.buckets:
        looks["s3.list"] = lambda host: check_buckets(host, expect.buckets, options.may_write)
    if options.image:
        looks["container.image"] = lambda host: _image(host, options, str(options.image))
    return looks


def _container(options: Options, expect: Expected) -> dict[str, Look]:
    return {"container.scan": lambda host: health_container.verify_container(host, options.host_facts, options.require)}


def _accelerators(host: Host, options: accelerator.Options, expect: Expected) -> list[Result]:
    """Return the verdicts on the accelerators, and the GPU firmware version: a replaced GPU may have another one."""
    facts = accelerator.look(host, options)
    firmware = sorted({gpu["vbios"] for gpu in (facts["smi"] or {}).get("gpus", []) if gpu["vbios"]})
    versions = [passed(VERSIONS, {"gpu_firmware": ", ".join(firmware)})] if firmware else []
    judged = health_light.judge_accelerators(facts, expect.allowed_xids, expect.mig)
    # A Prolog may have drained the node for both.
    neither = [one for name in ("gpu.count", "gpu.xid") for one in health_light.no_gpus(facts, name)]
    if facts["smi"] is None and facts["neuron"] is None:
        neither = [dataclasses.replace(one, id="gpu.xid") for one in judged if one.id == "gpu.count"]
    return [*neither, *judged, *versions]


def _fabric(host: Host, options: efa.Options, expect: Expected) -> list[Result]:
    """Return the verdicts on EFA and its requirements, and all versions, from one query to the package manager."""
    facts = efa.look(host, options)
    asked = facts["package_manager"] is not None
    packages = health_expect.packages(expect)
    versions = health_system.versions(host, facts["packages"], packages)
    unreadable = health_system.unreadable(host, versions)
    unreadable += [] if asked else [f"package {name}" for name in packages]
    known = passed(VERSIONS, versions) if versions else undeterminable(VERSIONS, "no version could be determined")
    installed = [name for name, version in facts["packages"].items() if version is not None]
    held = health_expect.judge_held(expect, installed, facts["held_packages"], asked)
    return [*verify_efa(facts), known, *health_expect.judge_versions(expect, versions, unreadable), *held]


def _image(host: Host, options: Options, image: str) -> list[Result]:
    if not options.may_write:
        return [undeterminable("container.image", "no container is started in check mode")]
    return check_image(host, _slurm(host, options), image, options.image_user)


def _slurm(host: Host, options: Options) -> Slurm:
    return Slurm(host, options.slurm_prefix, options.slurm_conf)


def _storage(host: Host) -> list[Result]:
    """Return the verdicts of storage-info, on a node whose storage was set up."""
    if not is_configured(host, CONFIG_PATH):
        return [not_applicable("storage.plan", "this node has no local storage to check")]
    config = load_config(host, CONFIG_PATH)
    facts, plan = survey(host, config)
    return verify_storage(host, facts, plan, config, context_for(facts))


def _volumes(host: Host) -> list[str]:
    """Return the paths of the local volumes, the root without any. Raises ``NodeError`` if they are not known."""
    record = read_document(host, RECORD_PATH)
    if record is None and host.exists(RECORD_PATH):
        raise NodeError(f"{RECORD_PATH} is damaged, so the local volumes are not known: run the role nvme_raid0 again")
    volumes = (record or {}).get("volumes") or []
    return [volume["path"] for volume in volumes] or ["/"]
