# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes of ``mutants`` that no test can notice, each with the reason: they are not counted."""

from __future__ import annotations

import ast
import typing as t

# Module, name of the change and the line of the source (without the blanks around it): why nothing changes.
NODE = "plugins/module_utils/_node"
DATA = "roles/slurm_jobs/files/mlcluster_data"
EQUIVALENT: t.Mapping[tuple[str, str, str], str] = {
    (f"{NODE}/nccl/verify.py", "constant", '"iters": 1 if neuron else run.header.get("iters"),'): (
        "any number from 1 on is good: nccom-test does not report its iterations"
    ),
    (f"{NODE}/nccl/verify.py", "returned value", "return False"): "what is returned is only tried for truth",
    (f"{NODE}/nccl/verify.py", "returned value", 'return ""'): "what is returned is only tried for truth",
    (
        f"{NODE}/nccl/verify.py",
        "comparison",
        "if abs(busbw - factor * algbw) > 0.011 + 0.006 * factor + 0.002 * busbw:",
    ): "no pair of figures with two digits has exactly this difference",
    **dict.fromkeys(
        (
            (f"{NODE}/nccl/table.py", "constant", line)
            for line in ("MAX_ROWS = 100_000", "MAX_RANKS = 100_000", "MAX_RUNS = 500", "MAX_ROW = 1000")
        ),
        "a bound on memory, far above what a test prints",
    ),
    (
        f"{NODE}/gds/probe.py",
        "constant",
        "file = os.path.join(directory, PREFIX + secrets.token_hex(8)) if directory else None",
    ): "how many random bytes a name has, above what anybody guesses",
    (f"{NODE}/health/expectations.py", "comparison", 'severity = "isolate" if have < wanted else "monitor"'): (
        "an equal number has passed before"
    ),
    (f"{NODE}/verdict/result.py", "returned value", 'return ""'): "what is returned is only tried for truth",
    (f"{NODE}/slurm/outcome.py", "comparison", '"signal": code - 128 if 128 < code < 193 else 0,'): (
        "the status 128 gives the signal 0 either way"
    ),
    (f"{NODE}/slurm/outcome.py", "constant", "return _ORDER.index(state) if state in _ORDER else -1"): (
        "any number below 0 comes first"
    ),
    (f"{NODE}/nccl/table.py", "constant", "contradiction = None if None in units else units[0]"): (
        "the sentence is the same for both units"
    ),
    (f"{NODE}/nccl/table.py", "constant", "fixed = dict(zip(names[: times[0]], words))"): (
        "the values behind the first time are not read here"
    ),
    (f"{NODE}/nccl/table.py", "constant", "run.devices.add(device.strip()[:80])"): "how much of a name is kept",
    (
        f"{NODE}/containers/image.py",
        "constant",
        "times = {name: host.size_and_time(posixpath.join(request.directory, name)) or (0, 0.0) for name in names}",
    ): "a file that is gone meanwhile is the oldest",
    (f"{NODE}/nccl/log.py", "constant", "KEPT_TEXTS = 5"): "how much of a long output is kept, for people",
    (f"{NODE}/nccl/log.py", "constant", "KEPT_NAMES = 10_000"): "a bound on memory, above what a cluster has",
    (f"{NODE}/gds/probe.py", "constant", "KILL_SECONDS = 5"): "a limit of time for what hangs",
    (f"{NODE}/gds/probe.py", "constant", "LOG_LIMIT = 4 << 20"): "a bound on memory, above a whole log",
    (
        f"{NODE}/nccl/nvlink_domain.py",
        "constant",
        "left = [host for group in by_size[domains or 0 :] for host in group]",
    ): ("without a number of domains no host is named"),
    (f"{NODE}/gds/parse.py", "constant", 'first = (text or "").split("\\n", 1)[0]'): "only the first line is taken",
    (f"{NODE}/nccl/log.py", "constant", "PREFIX = 600"): "a bound on time, above the longest prefix",
    (f"{NODE}/nccl/log.py", "constant", "_PENDING = 20_000"): "a bound on memory: what is over it is settled earlier",
    (
        f"{NODE}/nccl/log.py",
        "constant",
        'transport, direct = ("P2P/MNNVL" if via.startswith("P2P/MNNVL") else intra.group(1)), False',
    ): "GPUDirect RDMA is counted for networks alone",
    (f"{NODE}/nccl/parse.py", "constant", "MAX_LINE = 65536"): "a bound on memory: a longer line is read in pieces",
    (f"{NODE}/nccl/parse.py", "constant", "MAX_TABLE_LINE = 4096"): "a bound on time, far above any row",
    (
        f"{NODE}/nccl/parse.py",
        "constant",
        'found = _ANCHOR.search(line[: MAX_DECORATION + 40]) if "# " in line else None',
    ): "longer than any line that begins an output",
    (f"{NODE}/nccl/parse.py", "constant", "MAX_DECORATIONS = 8"): "a bound on time, above what one output has",
    (f"{NODE}/nccl/parse.py", "constant", "MAX_DECORATION = 200"): "a bound on time, far above any decoration",
    **dict.fromkeys(
        (
            (f"{NODE}/accelerator/parse.py", "constant", "end = end + len(_END) if end >= 0 else len(text)"),
            (f"{NODE}/accelerator/parse.py", "comparison", "end = end + len(_END) if end >= 0 else len(text)"),
        ),
        "the end of a document is never its beginning",
    ),
    (
        f"{NODE}/accelerator/verify.py",
        "constant",
        "yield _field(which, within(max(minimum, 1), maximum), below(minimum), text)",
    ): "no clock runs at 1 MHz",
    (f"{NODE}/accelerator/verify.py", "constant", "fastest = max(speeds, default=0)"): (
        "it is shown where every link is up, and has a speed"
    ),
    **dict.fromkeys(
        (
            (f"{NODE}/health/slurm.py", "constant", "SECONDS = 20"),
            (f"{NODE}/health/dcgm.py", "constant", "SECONDS = 20"),
            (f"{NODE}/health/container.py", "constant", "IMPORT_SECONDS = 60"),
            (f"{NODE}/health/container_loads.py", "constant", "SECONDS = 30"),
            (f"{NODE}/imex/look.py", "constant", "_UNIT_SECONDS = 5"),
            (f"{NODE}/imex/look.py", "constant", "_CTL_SECONDS = 5"),
            (f"{NODE}/imex/look.py", "constant", "_SMI_SECONDS = 5"),
            (f"{NODE}/imex/job.py", "constant", "SECONDS = 10"),
            (f"{NODE}/health/image.py", "constant", "LONGEST = 140"),
            (f"{NODE}/health/image.py", "constant", "ASK_SECONDS = 20"),
            (
                f"{NODE}/health/system.py",
                "constant",
                (
                    'output, problem = ask(host, ["stat", "--file-system", "--format=%T %b", "--", mount["target"]], '
                    "timeout=20)"
                ),
            ),
        ),
        "a limit of time for what hangs, far above what an answer takes",
    ),
    (f"{NODE}/system/files.py", "constant", 'fresh = f".{name}.{secrets.token_hex(8)}"'): (
        "how many random bytes a name has, above what anybody guesses"
    ),
    (f"{NODE}/storage/apply.py", "constant", "MKFS_TIMEOUT = 900"): "a limit of time, far above what mkfs takes",
    (f"{NODE}/storage/devices.py", "guard deleted", 'if device["type"] != "disk":'): (
        "in sysfs only a disk has a model and a serial number"
    ),
    **dict.fromkeys(
        (
            (f"{NODE}/storage/apply.py", "constant", "GHOST_ATTEMPTS = 3"),
            (f"{NODE}/storage/apply.py", "constant", "MAX_REMAINDERS = 64"),
            (f"{NODE}/storage/devices.py", "constant", "CLAIM_ATTEMPTS, CLAIM_SECONDS = 4, 0.25"),
        ),
        "a bound on time: one more try does no harm",
    ),
    (f"{NODE}/storage/apply.py", "returned value", "return False"): "what is returned is only tried for truth",
    (f"{NODE}/storage/owner.py", "returned value", "return False"): "what is returned is only tried for truth",
    (
        f"{NODE}/storage/blank.py",
        "constant",
        "((part * step + spread.randrange(max(step, 1))) // BLOCK * BLOCK, _SPREAD_BYTES) for part in range(_SPREAD)",
    ): "for less than 60 bytes, all of which are one block",
    (f"{NODE}/storage/blank.py", "operator", "*((group * 8192 + 1) * KIB for group in (1, 3, 5)),"): (
        "the block that begins 2 KiB earlier holds the superblock, too"
    ),
    (f"{NODE}/storage/first_boot.py", "returned value", "return False"): "what is returned is only tried for truth",
    (f"{NODE}/storage/first_boot.py", "returned value", 'return ""'): "no boot of a record has either as its id",
    (f"{NODE}/storage/plan.py", "returned value", "return False"): "what is returned is only tried for truth",
    (f"{NODE}/storage/plan.py", "returned value", 'return ""'): "what is returned is only tried for truth",
    (
        f"{NODE}/storage/apply.py",
        "constant",
        "return _is_running(host, device) and size.isdigit() and int(size) > 0 and host.exists(device)",
    ): "no array has one sector",
    (
        f"{NODE}/storage/owner.py",
        "constant",
        "if not found and not explained and (written or 0) > WRITTEN_LIMIT:",
    ): "one sector is far below the limit",
    **dict.fromkeys(
        (
            (f"{NODE}/efa/plugin.py", "constant", "LOAD_SECONDS = 20"),
            (f"{NODE}/efa/peers.py", "constant", "PEER_SECONDS = 5"),
            (
                f"{NODE}/efa/peers.py",
                "constant",
                "answers = dict(json.loads(host.run(argv, timeout=4 * PEER_SECONDS).stdout)) if asked else {}",
            ),
        ),
        "a limit of time for what hangs, far above what an answer takes",
    ),
    (f"{NODE}/efa/plugin.py", "constant", "_INTERFACES = 20"): "above the newest interface there is",
    (f"{NODE}/efa/environment.py", "returned value", "return False"): "what is returned is only tried for truth",
    (f"{DATA}/files/stage.py", "returned value", "return False"): "what is returned is only tried for truth",
    (f"{DATA}/files/stage.py", "constant", "PARALLEL = 4"): "how many files are copied in parallel",
    **dict.fromkeys(
        (
            (
                f"{DATA}/checkpoints/backup.py",
                "constant",
                "def __init__(self, directory: Path, prefix: s3.Prefix, workers: int = 4) -> None:",
            ),
            (
                f"{DATA}/checkpoints/backup.py",
                "constant",
                '"--workers", type=arguments.workers, default=4, metavar="N", help="files in parallel (%(default)s)"',
            ),
        ),
        "how many files are sent in parallel",
    ),
    (f"{DATA}/checkpoints/backup.py", "constant", "MANIFEST_TRIES = 20"): "a bound on time: one more try does no harm",
    (
        f"{DATA}/checkpoints/backup.py",
        "constant",
        "for name, found in zip(names, pool.map(lambda name: self._attempt(work, name), names), strict=True):",
    ): "map of a pool gives as many as it takes",
    (
        f"{DATA}/checkpoints/backup.py",
        "comparison",
        'if any("\\ud800" <= letter <= "\\udfff" for letter in name):',
    ): "a byte of a name that is not UTF-8 is read as U+DC80 to U+DCFF",
    (f"{DATA}/files/durable.py", "constant", "CHUNK = 8 << 20"): "how many bytes are read at once",
    (f"{DATA}/files/durable.py", "constant", "return 0o022"): "0644 has no bit for others to execute",
    (f"{DATA}/files/durable.py", "constant", "DEEPEST = 200"): "a bound on open files, far below the system's",
    (f"{DATA}/files/durable.py", "constant", 'with os.fdopen(descriptor, "wb", buffering=1 << 20) as file:'): (
        "how many bytes are written at once"
    ),
    (f"{DATA}/files/durable.py", "constant", "def _open(self, name: str, flags: int, mode: int = 0) -> int:"): (
        "the kernel takes the mode of a new file alone, and for that it is given"
    ),
    (f"{DATA}/corpus/collect.py", "constant", "self._shortest = [(0, at) for at in range(count)]"): (
        "all inputs begin alike, and one with a document is longer"
    ),
    (f"{DATA}/checkpoints/directory.py", "returned value", "return False"): "what is returned is only tried for truth",
    (f"{DATA}/checkpoints/directory.py", "constant", "loads = [0] * of"): "all loads begin alike",
    (f"{DATA}/checkpoints/directory.py", "constant", "loads[at] += files[name].size + 1"): (
        "any number from 1 on spreads empty files"
    ),
    (f"{DATA}/checkpoints/directory.py", "constant", "signature, good = self._found.get(step, (None, False))"): (
        "without a signature it is not returned"
    ),
    (
        f"{DATA}/checkpoints/directory.py",
        "constant",
        'return json.dumps({**shown, SEAL: _seal(shown)}, indent=1).encode() + b"\\n"',
    ): "how a manifest is indented, for people",
}

ANNOTATION = "an annotation is not evaluated"
FROZEN = "no code assigns to a field of a frozen class: mypy finds that"
SECOND_MORE = "one second more for a program, of ten or more"
MIN_SECONDS = 10
EXCERPT = "the length of an excerpt that people read"
# A shorter bound is a position, no excerpt.
MIN_EXCERPT = 20


def excerpts(tree: ast.AST) -> set[int]:
    """Return the places in the walk of the tree that hold the length of an excerpt: of ``{text[:80]}`` in a message."""
    nodes = list(ast.walk(tree))
    inside = {id(part) for node in nodes if isinstance(node, ast.FormattedValue) for part in ast.walk(node)}
    bounds = {
        id(part)
        for node in nodes
        if id(node) in inside and isinstance(node, ast.Slice)
        for bound in (node.lower, node.upper)
        if bound is not None
        for part in ast.walk(bound)
    }
    return {
        place
        for place, node in enumerate(nodes)
        if id(node) in bounds and isinstance(node, ast.Constant) and _at_least(node.value, MIN_EXCERPT)
    }


def timeouts(tree: ast.AST) -> set[int]:
    """Return the places in the walk of the tree that hold the time a program has, of ten seconds or more."""
    nodes = list(ast.walk(tree))
    times = {id(node.value) for node in nodes if isinstance(node, ast.keyword) and node.arg == "timeout"}
    for node in nodes:
        if isinstance(node, ast.arguments):
            taken = [*node.posonlyargs, *node.args][::-1]
            times |= {id(value) for arg, value in zip(taken, node.defaults[::-1]) if arg.arg in ("timeout", "seconds")}
    return {
        place
        for place, node in enumerate(nodes)
        if id(node) in times and isinstance(node, ast.Constant) and _at_least(node.value, MIN_SECONDS)
    }


def frozen(tree: ast.AST) -> set[int]:
    """Return the places in the walk of the tree that hold the ``True`` of ``dataclass(frozen=True)``."""
    nodes = list(ast.walk(tree))
    values = {
        id(keyword.value)
        for node in nodes
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "dataclass"
        for keyword in node.keywords
        if keyword.arg == "frozen"
    }
    return {place for place, node in enumerate(nodes) if id(node) in values}


def annotations(tree: ast.AST) -> set[int]:
    """Return the places in the walk of the tree that are inside an annotation."""
    nodes = list(ast.walk(tree))
    roots = (getattr(node, field, None) for node in nodes for field in ("annotation", "returns"))
    inside = {id(part) for root in roots if root is not None for part in ast.walk(root)}
    return {place for place, node in enumerate(nodes) if id(node) in inside}


def of_places(tree: ast.AST) -> dict[int, str]:
    """Return why a change is equivalent, by its place in the walk of the tree."""
    return {
        **dict.fromkeys(annotations(tree), ANNOTATION),
        **dict.fromkeys(excerpts(tree), EXCERPT),
        **dict.fromkeys(timeouts(tree), SECOND_MORE),
        **dict.fromkeys(frozen(tree), FROZEN),
    }


def _at_least(value: object, minimum: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= minimum


def why(module: str, name: str, line: str) -> str | None:
    """Return why a change is equivalent, None for one that a test has to notice."""
    return EQUIVALENT.get((module, name, line.strip()))
