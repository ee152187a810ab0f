# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes the table in plugins/module_utils/_data/instance_types.py from moto's copy of EC2 DescribeInstanceTypes."""

from __future__ import annotations

import argparse
import gzip
import importlib.metadata
import importlib.util
import json
import re
import sys
from pathlib import Path

TARGET = Path(__file__).resolve().parents[2] / "plugins" / "module_utils" / "_data" / "instance_types.py"
BEGIN, END = "# begin generated\n", "# end generated\n"

# Wrong or missing data of the API, by type: the right accelerators, and the source.
_TRN2_SOURCE = "accelerators: AWS Neuron documentation of Trn2, 16 devices with 1536 GiB in all"
CORRECTIONS = {
    "trn2.3xlarge": ("neuron:Trainium2:1:98304", _TRN2_SOURCE),
    "trn2.48xlarge": ("neuron:Trainium2:16:98304", _TRN2_SOURCE),
    "trn2u.48xlarge": ("neuron:Trainium2:16:98304", _TRN2_SOURCE),
}
ARCHITECTURES = {("x86_64",): "x86_64", ("i386", "x86_64"): "x86_64", ("arm64",): "arm64"}


class SourceError(Exception):
    """The source lacks data for the table, or has it in an unknown form."""


def accelerators(info):
    """``kind:name:count:MiB`` of one type's GPUs or Neuron devices, ``-`` without any."""
    gpus = info.get("GpuInfo", {}).get("Gpus", [])
    neuron = info.get("NeuronInfo", {}).get("NeuronDevices", [])
    if len(gpus) + len(neuron) > 1:
        raise SourceError(f"{info['InstanceType']} has more than one kind of accelerator, which the table cannot hold")
    for kind, devices in (("gpu", gpus), ("neuron", neuron)):
        for device in devices:
            name = device["Name"]
            # A type with a part of a GPU has zero GPUs and one logical GPU.
            count = device["Count"] or device["LogicalGpuCount"]
            return f"{kind}:{name.replace(' ', '_')}:{count}:{device['MemoryInfo']['SizeInMiB']}"
    return "-"


def instance_store(info):
    """``CxGB`` of one type's NVMe instance-store disks, ``-`` without any."""
    storage = info.get("InstanceStorageInfo", {})
    if storage.get("NvmeSupport") not in ("required", "supported"):
        return "-"
    if len(storage["Disks"]) != 1:
        raise SourceError(f"{info['InstanceType']} has disks of several sizes, which the table cannot hold")
    disk = storage["Disks"][0]
    return f"{disk['Count']}x{disk['SizeInGB']}"


def network(info):
    """``GBIT`` or ``<GBIT`` of a whole instance."""
    text = info["NetworkInfo"]["NetworkPerformance"]
    found = re.fullmatch(r"(Up to )?(?:(\d+)x )?([0-9.]+) (Gigabit|Megabit)", text)
    if not found:
        raise SourceError(f"{info['InstanceType']}: network performance {text!r} is not a known form")
    burst, times, value, unit = found.groups()
    gbps = float(value) * int(times or 1) / (1000 if unit == "Megabit" else 1)
    return f"{'<' if burst else ''}{gbps:g}"


def row(info):
    """Return the table's line of one type, None for a type that does not belong in it."""
    correction = CORRECTIONS.get(info["InstanceType"])
    parts = correction[0] if correction else accelerators(info), instance_store(info)
    architecture = ARCHITECTURES.get(tuple(sorted(info["ProcessorInfo"]["SupportedArchitectures"])))
    if parts == ("-", "-") or architecture is None:
        return None
    efa = info["NetworkInfo"].get("EfaInfo", {}).get("MaximumEfaInterfaces", 0)
    return " ".join(
        [
            info["InstanceType"],
            str(info["VCpuInfo"]["DefaultVCpus"]),
            str(info["MemoryInfo"]["SizeInMiB"]),
            *parts,
            str(efa),
            network(info),
            str(info["NetworkInfo"]["MaximumNetworkCards"]),
            architecture,
        ]
    )


def _order(name):
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def generated(types, version):
    """Return the text between the marks, from the mapping of type to what DescribeInstanceTypes answers."""
    rows = [line for line in (row(types[name]) for name in sorted(types, key=_order)) if line]
    fixes = "".join(
        f'    "{name}": "{source}",\n' for name, (_accelerators, source) in CORRECTIONS.items() if name in types
    )
    return (
        f'SOURCE = "EC2 DescribeInstanceTypes, as packed in moto {version} (Apache-2.0)"\n'
        f"CORRECTIONS = {{\n{fixes}}}\n"
        'TABLE = """\n' + "\n".join(rows) + '\n"""\n'
    )


def replaced(text, middle):
    """``text`` with what lies between the marks replaced. Raises SourceError without the marks."""
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise SourceError(f"the marks {BEGIN.strip()!r} and {END.strip()!r} are not there exactly once")
    head, rest = text.split(BEGIN)
    return head + BEGIN + middle + END + rest.split(END)[1]


def read_moto():
    """The mapping of type to facts in the installed moto, and moto's version. Raises SourceError without moto."""
    spec = importlib.util.find_spec("moto")
    if spec is None:
        raise SourceError("moto is not installed; install the version of the project's requirements")
    path = Path(spec.origin).parent / "ec2" / "resources" / "instance_types.json.gz"
    with gzip.open(path, "rt", encoding="utf-8") as handle:
        return json.load(handle), importlib.metadata.version("moto")


def main(argv=None):
    """Write the table, or with ``--check`` compare it with moto. Return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; end with 1 when the table is out of date")
    args = parser.parse_args(argv)
    try:
        types, version = read_moto()
        old = TARGET.read_text(encoding="utf-8")
        new = replaced(old, generated(types, version))
    except SourceError as exc:
        print(f"make_instance_types: {exc}", file=sys.stderr)
        return 1
    if args.check:
        print("up to date" if old == new else f"{TARGET} is out of date; run tests/data_tables/make_instance_types.py")
        return int(old != new)
    TARGET.write_text(new, encoding="utf-8")
    print(f"{TARGET}: {new.count(chr(10))} lines, {len(new.encode())} bytes, from moto {version}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
