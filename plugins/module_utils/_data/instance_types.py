# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""EC2's data on each instance type with GPUs, Neuron devices or NVMe instance store.

One line per type: name, vCPUs, memory in MiB, accelerators (kind:name:count:MiB each), disks (count x GB
each, decimal), EFA interfaces, network in Gbit/s ("<" before it: up to), network cards, architecture;
"-" is none, and "?" an unknown number of EFA interfaces. Made by
tests/data_tables/make_instance_types.py: run it again, never edit between the marks. A type that is missing in the
source is one row of ``ADDITIONS``, with its own source.
Types with a fraction of a GPU (g6f, gr6f) count it as one accelerator with the memory of that fraction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# begin generated
SOURCE = "EC2 DescribeInstanceTypes, as packed in moto 5.2.5 (Apache-2.0)"
CORRECTIONS = {
    "trn2.3xlarge": "accelerators: AWS Neuron documentation of Trn2, 16 devices with 1536 GiB in all",
    "trn2.48xlarge": "accelerators: AWS Neuron documentation of Trn2, 16 devices with 1536 GiB in all",
    "trn2u.48xlarge": "accelerators: AWS Neuron documentation of Trn2, 16 devices with 1536 GiB in all",
}
TABLE = """
c5ad.2xlarge 8 16384 - 1x300 0 <10 1 x86_64
c5ad.4xlarge 16 32768 - 2x300 0 <10 1 x86_64
c5ad.8xlarge 32 65536 - 2x600 0 10 1 x86_64
c5ad.12xlarge 48 98304 - 2x900 0 12 1 x86_64
c5ad.16xlarge 64 131072 - 2x1200 0 20 1 x86_64
c5ad.24xlarge 96 196608 - 2x1900 0 20 1 x86_64
c5ad.large 2 4096 - 1x75 0 <10 1 x86_64
c5ad.xlarge 4 8192 - 1x150 0 <10 1 x86_64
c5d.2xlarge 8 16384 - 1x200 0 <10 1 x86_64
c5d.4xlarge 16 32768 - 1x400 0 <10 1 x86_64
c5d.9xlarge 36 73728 - 1x900 0 12 1 x86_64
c5d.12xlarge 48 98304 - 2x900 0 12 1 x86_64
c5d.18xlarge 72 147456 - 2x900 0 25 1 x86_64
c5d.24xlarge 96 196608 - 4x900 0 25 1 x86_64
c5d.large 2 4096 - 1x50 0 <10 1 x86_64
c5d.metal 96 196608 - 4x900 0 25 1 x86_64
c5d.xlarge 4 8192 - 1x100 0 <10 1 x86_64
c6gd.2xlarge 8 16384 - 1x474 0 <10 1 arm64
c6gd.4xlarge 16 32768 - 1x950 0 <10 1 arm64
c6gd.8xlarge 32 65536 - 1x1900 0 12 1 arm64
c6gd.12xlarge 48 98304 - 2x1425 0 20 1 arm64
c6gd.16xlarge 64 131072 - 2x1900 0 25 1 arm64
c6gd.large 2 4096 - 1x118 0 <10 1 arm64
c6gd.medium 1 2048 - 1x59 0 <10 1 arm64
c6gd.metal 64 131072 - 2x1900 0 25 1 arm64
c6gd.xlarge 4 8192 - 1x237 0 <10 1 arm64
c6id.2xlarge 8 16384 - 1x474 0 <12.5 1 x86_64
c6id.4xlarge 16 32768 - 1x950 0 <12.5 1 x86_64
c6id.8xlarge 32 65536 - 1x1900 0 12.5 1 x86_64
c6id.12xlarge 48 98304 - 2x1425 0 18.75 1 x86_64
c6id.16xlarge 64 131072 - 2x1900 0 25 1 x86_64
c6id.24xlarge 96 196608 - 4x1425 0 37.5 1 x86_64
c6id.32xlarge 128 262144 - 4x1900 1 50 1 x86_64
c6id.large 2 4096 - 1x118 0 <12.5 1 x86_64
c6id.metal 128 262144 - 4x1900 1 50 1 x86_64
c6id.xlarge 4 8192 - 1x237 0 <12.5 1 x86_64
c7gd.2xlarge 8 16384 - 1x474 0 <15 1 arm64
c7gd.4xlarge 16 32768 - 1x950 0 <15 1 arm64
c7gd.8xlarge 32 65536 - 1x1900 0 15 1 arm64
c7gd.12xlarge 48 98304 - 2x1425 0 22.5 1 arm64
c7gd.16xlarge 64 131072 - 2x1900 1 30 1 arm64
c7gd.large 2 4096 - 1x118 0 <12.5 1 arm64
c7gd.medium 1 2048 - 1x59 0 <12.5 1 arm64
c7gd.metal 64 131072 - 2x1900 1 30 1 arm64
c7gd.xlarge 4 8192 - 1x237 0 <12.5 1 arm64
c8gd.2xlarge 8 16384 - 1x474 0 <15 1 arm64
c8gd.4xlarge 16 32768 - 1x950 0 <15 1 arm64
c8gd.8xlarge 32 65536 - 1x1900 0 15 1 arm64
c8gd.12xlarge 48 98304 - 3x950 0 22.5 1 arm64
c8gd.16xlarge 64 131072 - 2x1900 0 30 1 arm64
c8gd.24xlarge 96 196608 - 3x1900 1 40 1 arm64
c8gd.48xlarge 192 393216 - 6x1900 1 50 1 arm64
c8gd.large 2 4096 - 1x118 0 <12.5 1 arm64
c8gd.medium 1 2048 - 1x59 0 <12.5 1 arm64
c8gd.metal-24xl 96 196608 - 3x1900 1 40 1 arm64
c8gd.metal-48xl 192 393216 - 6x1900 1 50 1 arm64
c8gd.xlarge 4 8192 - 1x237 0 <12.5 1 arm64
c8id.2xlarge 8 16384 - 1x474 0 <15 1 x86_64
c8id.4xlarge 16 32768 - 1x950 0 <15 1 x86_64
c8id.8xlarge 32 65536 - 1x1900 0 15 1 x86_64
c8id.12xlarge 48 98304 - 1x2850 0 22.5 1 x86_64
c8id.16xlarge 64 131072 - 1x3800 0 30 1 x86_64
c8id.24xlarge 96 196608 - 2x2850 0 40 1 x86_64
c8id.32xlarge 128 262144 - 2x3800 0 50 1 x86_64
c8id.48xlarge 192 393216 - 3x3800 1 75 1 x86_64
c8id.96xlarge 384 786432 - 6x3800 1 100 1 x86_64
c8id.large 2 4096 - 1x118 0 <12.5 1 x86_64
c8id.metal-48xl 192 393216 - 3x3800 1 75 1 x86_64
c8id.metal-96xl 384 786432 - 6x3800 1 100 1 x86_64
c8id.xlarge 4 8192 - 1x237 0 <12.5 1 x86_64
c9gd.2xlarge 8 16384 - 1x474 0 <17 1 arm64
c9gd.4xlarge 16 32768 - 1x950 0 <17 1 arm64
c9gd.8xlarge 32 65536 - 1x1900 0 17 1 arm64
c9gd.12xlarge 48 98304 - 3x950 0 25 1 arm64
c9gd.16xlarge 64 131072 - 1x3800 0 34 1 arm64
c9gd.24xlarge 96 196608 - 3x1900 0 50 1 arm64
c9gd.48xlarge 192 393216 - 3x3800 1 100 1 arm64
c9gd.large 2 4096 - 1x118 0 <15 1 arm64
c9gd.medium 1 2048 - 1x59 0 <15 1 arm64
c9gd.metal-48xl 192 393216 - 3x3800 1 100 1 arm64
c9gd.xlarge 4 8192 - 1x237 0 <15 1 arm64
d3.2xlarge 8 65536 - 6x1980 0 <15 1 x86_64
d3.4xlarge 16 131072 - 12x1980 0 <15 1 x86_64
d3.8xlarge 32 262144 - 24x1980 0 25 1 x86_64
d3.xlarge 4 32768 - 3x1980 0 <15 1 x86_64
d3en.2xlarge 8 32768 - 4x13980 0 <25 1 x86_64
d3en.4xlarge 16 65536 - 8x13980 0 25 1 x86_64
d3en.6xlarge 24 98304 - 12x13980 0 40 1 x86_64
d3en.8xlarge 32 131072 - 16x13980 0 50 1 x86_64
d3en.12xlarge 48 196608 - 24x13980 0 75 1 x86_64
d3en.xlarge 4 16384 - 2x13980 0 <25 1 x86_64
f2.6xlarge 24 262144 - 1x940 0 12.5 1 x86_64
f2.12xlarge 48 524288 - 2x940 0 25 1 x86_64
f2.48xlarge 192 2097152 - 8x940 1 100 1 x86_64
g4dn.2xlarge 8 32768 gpu:T4:1:16384 1x225 0 <25 1 x86_64
g4dn.4xlarge 16 65536 gpu:T4:1:16384 1x225 0 <25 1 x86_64
g4dn.8xlarge 32 131072 gpu:T4:1:16384 1x900 1 50 1 x86_64
g4dn.12xlarge 48 196608 gpu:T4:4:16384 1x900 1 50 1 x86_64
g4dn.16xlarge 64 262144 gpu:T4:1:16384 1x900 1 50 1 x86_64
g4dn.metal 96 393216 gpu:T4:8:16384 2x900 1 100 1 x86_64
g4dn.xlarge 4 16384 gpu:T4:1:16384 1x125 0 <25 1 x86_64
g5.2xlarge 8 32768 gpu:A10G:1:22888 1x450 0 <10 1 x86_64
g5.4xlarge 16 65536 gpu:A10G:1:22888 1x600 0 <25 1 x86_64
g5.8xlarge 32 131072 gpu:A10G:1:22888 1x900 1 25 1 x86_64
g5.12xlarge 48 196608 gpu:A10G:4:22888 1x3800 1 40 1 x86_64
g5.16xlarge 64 262144 gpu:A10G:1:22888 1x1900 1 25 1 x86_64
g5.24xlarge 96 393216 gpu:A10G:4:22888 1x3800 1 50 1 x86_64
g5.48xlarge 192 786432 gpu:A10G:8:22888 2x3800 1 100 1 x86_64
g5.xlarge 4 16384 gpu:A10G:1:22888 1x250 0 <10 1 x86_64
g5g.2xlarge 8 16384 gpu:T4g:1:16384 - 0 <10 1 arm64
g5g.4xlarge 16 32768 gpu:T4g:1:16384 - 0 <10 1 arm64
g5g.8xlarge 32 65536 gpu:T4g:1:16384 - 0 12 1 arm64
g5g.16xlarge 64 131072 gpu:T4g:2:16384 - 0 25 1 arm64
g5g.metal 64 131072 gpu:T4g:2:16384 - 0 25 1 arm64
g5g.xlarge 4 8192 gpu:T4g:1:16384 - 0 <10 1 arm64
g6.2xlarge 8 32768 gpu:L4:1:22888 1x450 0 <10 1 x86_64
g6.4xlarge 16 65536 gpu:L4:1:22888 1x600 0 <25 1 x86_64
g6.8xlarge 32 131072 gpu:L4:1:22888 2x450 1 25 1 x86_64
g6.12xlarge 48 196608 gpu:L4:4:22888 4x940 1 40 1 x86_64
g6.16xlarge 64 262144 gpu:L4:1:22888 2x940 1 25 1 x86_64
g6.24xlarge 96 393216 gpu:L4:4:22888 4x940 1 50 1 x86_64
g6.48xlarge 192 786432 gpu:L4:8:22888 8x940 1 100 1 x86_64
g6.xlarge 4 16384 gpu:L4:1:22888 1x250 0 <10 1 x86_64
g6e.2xlarge 8 65536 gpu:L40S:1:45776 1x450 0 <20 1 x86_64
g6e.4xlarge 16 131072 gpu:L40S:1:45776 1x600 0 20 1 x86_64
g6e.8xlarge 32 262144 gpu:L40S:1:45776 2x450 1 25 1 x86_64
g6e.12xlarge 48 393216 gpu:L40S:4:45776 2x1900 1 100 1 x86_64
g6e.16xlarge 64 524288 gpu:L40S:1:45776 2x950 1 35 1 x86_64
g6e.24xlarge 96 786432 gpu:L40S:4:45776 2x1900 2 200 2 x86_64
g6e.48xlarge 192 1572864 gpu:L40S:8:45776 4x1900 4 400 4 x86_64
g6e.xlarge 4 32768 gpu:L40S:1:45776 1x250 0 <20 1 x86_64
g6f.2xlarge 8 32768 gpu:L4:1:5722 1x200 0 <10 1 x86_64
g6f.4xlarge 16 65536 gpu:L4:1:11444 1x450 0 <25 1 x86_64
g6f.large 2 8192 gpu:L4:1:2861 1x100 0 <10 1 x86_64
g6f.xlarge 4 16384 gpu:L4:1:2861 1x100 0 <10 1 x86_64
g7.2xlarge 8 32768 gpu:RTX_PRO_4500:1:32768 1x440 0 <60 1 x86_64
g7.4xlarge 16 65536 gpu:RTX_PRO_4500:1:32768 1x875 0 <100 1 x86_64
g7.8xlarge 32 131072 gpu:RTX_PRO_4500:1:32768 1x930 1 100 1 x86_64
g7.12xlarge 48 196608 gpu:RTX_PRO_4500:2:32768 1x1900 1 175 1 x86_64
g7.24xlarge 96 393216 gpu:RTX_PRO_4500:4:32768 1x3800 1 350 1 x86_64
g7.48xlarge 192 786432 gpu:RTX_PRO_4500:8:32768 2x3800 2 700 2 x86_64
g7e.2xlarge 8 65536 gpu:RTX_PRO_Server_6000:1:98304 1x1900 0 50 1 x86_64
g7e.4xlarge 16 131072 gpu:RTX_PRO_Server_6000:1:98304 1x1900 0 50 1 x86_64
g7e.8xlarge 32 262144 gpu:RTX_PRO_Server_6000:1:98304 1x1900 1 100 1 x86_64
g7e.12xlarge 48 524288 gpu:RTX_PRO_Server_6000:2:98304 1x3800 1 400 1 x86_64
g7e.24xlarge 96 1048576 gpu:RTX_PRO_Server_6000:4:98304 2x3800 2 800 2 x86_64
g7e.48xlarge 192 2097152 gpu:RTX_PRO_Server_6000:8:98304 4x3800 4 1600 4 x86_64
gr6.4xlarge 16 131072 gpu:L4:1:22888 1x600 0 <25 1 x86_64
gr6.8xlarge 32 262144 gpu:L4:1:22888 2x450 1 25 1 x86_64
gr6f.4xlarge 16 131072 gpu:L4:1:11444 1x450 0 <25 1 x86_64
hpc6id.32xlarge 64 1048576 - 4x3800 2 200 2 x86_64
i3.2xlarge 8 62464 - 1x1900 0 <10 1 x86_64
i3.4xlarge 16 124928 - 2x1900 0 <10 1 x86_64
i3.8xlarge 32 249856 - 4x1900 0 10 1 x86_64
i3.16xlarge 64 499712 - 8x1900 0 25 1 x86_64
i3.large 2 15616 - 1x475 0 <10 1 x86_64
i3.xlarge 4 31232 - 1x950 0 <10 1 x86_64
i3en.2xlarge 8 65536 - 2x2500 0 <25 1 x86_64
i3en.3xlarge 12 98304 - 1x7500 0 <25 1 x86_64
i3en.6xlarge 24 196608 - 2x7500 0 25 1 x86_64
i3en.12xlarge 48 393216 - 4x7500 1 50 1 x86_64
i3en.24xlarge 96 786432 - 8x7500 1 100 1 x86_64
i3en.large 2 16384 - 1x1250 0 <25 1 x86_64
i3en.metal 96 786432 - 8x7500 1 100 1 x86_64
i3en.xlarge 4 32768 - 1x2500 0 <25 1 x86_64
i4g.2xlarge 8 65536 - 1x1875 0 <12 1 arm64
i4g.4xlarge 16 131072 - 1x3750 0 <25 1 arm64
i4g.8xlarge 32 262144 - 2x3750 0 18.75 1 arm64
i4g.16xlarge 64 524288 - 4x3750 1 37.5 1 arm64
i4g.large 2 16384 - 1x468 0 <10 1 arm64
i4g.xlarge 4 32768 - 1x937 0 <10 1 arm64
i4i.2xlarge 8 65536 - 1x1875 0 <12 1 x86_64
i4i.4xlarge 16 131072 - 1x3750 0 <25 1 x86_64
i4i.8xlarge 32 262144 - 2x3750 0 18.75 1 x86_64
i4i.12xlarge 48 393216 - 3x3750 0 28.12 1 x86_64
i4i.16xlarge 64 524288 - 4x3750 0 37.5 1 x86_64
i4i.24xlarge 96 786432 - 6x3750 0 56.25 1 x86_64
i4i.32xlarge 128 1048576 - 8x3750 1 75 1 x86_64
i4i.large 2 16384 - 1x468 0 <10 1 x86_64
i4i.metal 128 1048576 - 8x3750 1 75 1 x86_64
i4i.xlarge 4 32768 - 1x937 0 <10 1 x86_64
i7i.2xlarge 8 65536 - 1x1875 0 <12 1 x86_64
i7i.4xlarge 16 131072 - 1x3750 0 <25 1 x86_64
i7i.8xlarge 32 262144 - 2x3750 0 <25 1 x86_64
i7i.12xlarge 48 393216 - 3x3750 0 <28 1 x86_64
i7i.16xlarge 64 524288 - 4x3750 0 <37.5 1 x86_64
i7i.24xlarge 96 786432 - 6x3750 1 <56.25 1 x86_64
i7i.48xlarge 192 1572864 - 12x3750 1 <100 1 x86_64
i7i.large 2 16384 - 1x468 0 <10 1 x86_64
i7i.metal-24xl 96 786432 - 6x3750 0 <56.25 1 x86_64
i7i.metal-48xl 192 1572864 - 12x3750 1 <100 1 x86_64
i7i.xlarge 4 32768 - 1x937 0 <10 1 x86_64
i7ie.2xlarge 8 65536 - 2x2500 0 <25 1 x86_64
i7ie.3xlarge 12 98304 - 1x7500 0 <25 1 x86_64
i7ie.6xlarge 24 196608 - 2x7500 0 <25 1 x86_64
i7ie.12xlarge 48 393216 - 4x7500 0 <50 1 x86_64
i7ie.18xlarge 72 589824 - 6x7500 0 <75 1 x86_64
i7ie.24xlarge 96 786432 - 8x7500 0 <100 1 x86_64
i7ie.48xlarge 192 1572864 - 16x7500 1 200 2 x86_64
i7ie.large 2 16384 - 1x1250 0 <25 1 x86_64
i7ie.metal-24xl 96 786432 - 8x7500 0 <100 1 x86_64
i7ie.metal-48xl 192 1572864 - 16x7500 1 200 2 x86_64
i7ie.xlarge 4 32768 - 1x2500 0 <25 1 x86_64
i8g.2xlarge 8 65536 - 1x1875 0 <12 1 arm64
i8g.4xlarge 16 131072 - 1x3750 0 <25 1 arm64
i8g.8xlarge 32 262144 - 2x3750 0 <25 1 arm64
i8g.12xlarge 48 393216 - 3x3750 0 <28.12 1 arm64
i8g.16xlarge 64 524288 - 4x3750 0 <37.5 1 arm64
i8g.24xlarge 96 786432 - 6x3750 0 <56.25 1 arm64
i8g.48xlarge 192 1572864 - 12x3750 1 <100 1 arm64
i8g.large 2 16384 - 1x468 0 <10 1 arm64
i8g.metal-24xl 96 786432 - 6x3750 0 <56.25 1 arm64
i8g.metal-48xl 192 1572864 - 12x3750 1 <100 1 arm64
i8g.xlarge 4 32768 - 1x937 0 <10 1 arm64
i8ge.2xlarge 8 65536 - 2x2500 0 <25 1 arm64
i8ge.3xlarge 12 98304 - 1x7500 0 <25 1 arm64
i8ge.6xlarge 24 196608 - 2x7500 0 37.5 1 arm64
i8ge.12xlarge 48 393216 - 4x7500 0 75 1 arm64
i8ge.18xlarge 72 589824 - 6x7500 0 112.5 1 arm64
i8ge.24xlarge 96 786432 - 8x7500 0 150 1 arm64
i8ge.48xlarge 192 1572864 - 16x7500 1 300 2 arm64
i8ge.large 2 16384 - 1x1250 0 <25 1 arm64
i8ge.metal-24xl 96 786432 - 8x7500 0 150 1 arm64
i8ge.metal-48xl 192 1572864 - 16x7500 1 300 2 arm64
i8ge.xlarge 4 32768 - 1x2500 0 <25 1 arm64
im4gn.2xlarge 8 32768 - 1x3750 0 <25 1 arm64
im4gn.4xlarge 16 65536 - 1x7500 0 25 1 arm64
im4gn.8xlarge 32 131072 - 2x7500 0 50 1 arm64
im4gn.16xlarge 64 262144 - 4x7500 1 100 1 arm64
im4gn.large 2 8192 - 1x937 0 <25 1 arm64
im4gn.xlarge 4 16384 - 1x1875 0 <25 1 arm64
inf1.2xlarge 8 16384 neuron:Inferentia:1:8192 - 0 <25 1 x86_64
inf1.6xlarge 24 49152 neuron:Inferentia:4:8192 - 0 25 1 x86_64
inf1.24xlarge 96 196608 neuron:Inferentia:16:8192 - 1 100 1 x86_64
inf1.xlarge 4 8192 neuron:Inferentia:1:8192 - 0 <25 1 x86_64
inf2.8xlarge 32 131072 neuron:Inferentia2:1:32768 - 0 <25 1 x86_64
inf2.24xlarge 96 393216 neuron:Inferentia2:6:32768 - 0 50 1 x86_64
inf2.48xlarge 192 786432 neuron:Inferentia2:12:32768 - 0 100 1 x86_64
inf2.xlarge 4 16384 neuron:Inferentia2:1:32768 - 0 <15 1 x86_64
is4gen.2xlarge 8 49152 - 1x7500 0 <25 1 arm64
is4gen.4xlarge 16 98304 - 2x7500 0 25 1 arm64
is4gen.8xlarge 32 196608 - 4x7500 0 50 1 arm64
is4gen.large 2 12288 - 1x1875 0 <25 1 arm64
is4gen.medium 1 6144 - 1x937 0 <25 1 arm64
is4gen.xlarge 4 24576 - 1x3750 0 <25 1 arm64
m5ad.2xlarge 8 32768 - 1x300 0 <10 1 x86_64
m5ad.4xlarge 16 65536 - 2x300 0 <10 1 x86_64
m5ad.8xlarge 32 131072 - 2x600 0 <10 1 x86_64
m5ad.12xlarge 48 196608 - 2x900 0 10 1 x86_64
m5ad.16xlarge 64 262144 - 4x600 0 12 1 x86_64
m5ad.24xlarge 96 393216 - 4x900 0 20 1 x86_64
m5ad.large 2 8192 - 1x75 0 <10 1 x86_64
m5ad.xlarge 4 16384 - 1x150 0 <10 1 x86_64
m5d.2xlarge 8 32768 - 1x300 0 <10 1 x86_64
m5d.4xlarge 16 65536 - 2x300 0 <10 1 x86_64
m5d.8xlarge 32 131072 - 2x600 0 10 1 x86_64
m5d.12xlarge 48 196608 - 2x900 0 12 1 x86_64
m5d.16xlarge 64 262144 - 4x600 0 20 1 x86_64
m5d.24xlarge 96 393216 - 4x900 0 25 1 x86_64
m5d.large 2 8192 - 1x75 0 <10 1 x86_64
m5d.metal 96 393216 - 4x900 0 25 1 x86_64
m5d.xlarge 4 16384 - 1x150 0 <10 1 x86_64
m5dn.2xlarge 8 32768 - 1x300 0 <25 1 x86_64
m5dn.4xlarge 16 65536 - 2x300 0 <25 1 x86_64
m5dn.8xlarge 32 131072 - 2x600 0 25 1 x86_64
m5dn.12xlarge 48 196608 - 2x900 0 50 1 x86_64
m5dn.16xlarge 64 262144 - 4x600 0 75 1 x86_64
m5dn.24xlarge 96 393216 - 4x900 1 100 1 x86_64
m5dn.large 2 8192 - 1x75 0 <25 1 x86_64
m5dn.metal 96 393216 - 4x900 1 100 1 x86_64
m5dn.xlarge 4 16384 - 1x150 0 <25 1 x86_64
m6gd.2xlarge 8 32768 - 1x474 0 <10 1 arm64
m6gd.4xlarge 16 65536 - 1x950 0 <10 1 arm64
m6gd.8xlarge 32 131072 - 1x1900 0 12 1 arm64
m6gd.12xlarge 48 196608 - 2x1425 0 20 1 arm64
m6gd.16xlarge 64 262144 - 2x1900 0 25 1 arm64
m6gd.large 2 8192 - 1x118 0 <10 1 arm64
m6gd.medium 1 4096 - 1x59 0 <10 1 arm64
m6gd.metal 64 262144 - 2x1900 0 25 1 arm64
m6gd.xlarge 4 16384 - 1x237 0 <10 1 arm64
m6id.2xlarge 8 32768 - 1x474 0 <12.5 1 x86_64
m6id.4xlarge 16 65536 - 1x950 0 <12.5 1 x86_64
m6id.8xlarge 32 131072 - 1x1900 0 12.5 1 x86_64
m6id.12xlarge 48 196608 - 2x1425 0 18.75 1 x86_64
m6id.16xlarge 64 262144 - 2x1900 0 25 1 x86_64
m6id.24xlarge 96 393216 - 4x1425 0 37.5 1 x86_64
m6id.32xlarge 128 524288 - 4x1900 1 50 1 x86_64
m6id.large 2 8192 - 1x118 0 <12.5 1 x86_64
m6id.metal 128 524288 - 4x1900 1 50 1 x86_64
m6id.xlarge 4 16384 - 1x237 0 <12.5 1 x86_64
m6idn.2xlarge 8 32768 - 1x474 0 <40 1 x86_64
m6idn.4xlarge 16 65536 - 1x950 0 <50 1 x86_64
m6idn.8xlarge 32 131072 - 1x1900 0 50 1 x86_64
m6idn.12xlarge 48 196608 - 2x1425 0 75 1 x86_64
m6idn.16xlarge 64 262144 - 2x1900 0 100 1 x86_64
m6idn.24xlarge 96 393216 - 4x1425 0 150 1 x86_64
m6idn.32xlarge 128 524288 - 4x1900 2 200 2 x86_64
m6idn.large 2 8192 - 1x118 0 <25 1 x86_64
m6idn.metal 128 524288 - 4x1900 2 200 2 x86_64
m6idn.xlarge 4 16384 - 1x237 0 <30 1 x86_64
m7gd.2xlarge 8 32768 - 1x474 0 <15 1 arm64
m7gd.4xlarge 16 65536 - 1x950 0 <15 1 arm64
m7gd.8xlarge 32 131072 - 1x1900 0 15 1 arm64
m7gd.12xlarge 48 196608 - 2x1425 0 22.5 1 arm64
m7gd.16xlarge 64 262144 - 2x1900 1 30 1 arm64
m7gd.large 2 8192 - 1x118 0 <12.5 1 arm64
m7gd.medium 1 4096 - 1x59 0 <12.5 1 arm64
m7gd.metal 64 262144 - 2x1900 1 30 1 arm64
m7gd.xlarge 4 16384 - 1x237 0 <12.5 1 arm64
m8gd.2xlarge 8 32768 - 1x474 0 <15 1 arm64
m8gd.4xlarge 16 65536 - 1x950 0 <15 1 arm64
m8gd.8xlarge 32 131072 - 1x1900 0 15 1 arm64
m8gd.12xlarge 48 196608 - 3x950 0 22.5 1 arm64
m8gd.16xlarge 64 262144 - 2x1900 0 30 1 arm64
m8gd.24xlarge 96 393216 - 3x1900 1 40 1 arm64
m8gd.48xlarge 192 786432 - 6x1900 1 50 1 arm64
m8gd.large 2 8192 - 1x118 0 <12.5 1 arm64
m8gd.medium 1 4096 - 1x59 0 <12.5 1 arm64
m8gd.metal-24xl 96 393216 - 3x1900 1 40 1 arm64
m8gd.metal-48xl 192 786432 - 6x1900 1 50 1 arm64
m8gd.xlarge 4 16384 - 1x237 0 <12.5 1 arm64
m8id.2xlarge 8 32768 - 1x474 0 <15 1 x86_64
m8id.4xlarge 16 65536 - 1x950 0 <15 1 x86_64
m8id.8xlarge 32 131072 - 1x1900 0 15 1 x86_64
m8id.12xlarge 48 196608 - 1x2850 0 22.5 1 x86_64
m8id.16xlarge 64 262144 - 1x3800 0 30 1 x86_64
m8id.24xlarge 96 393216 - 2x2850 0 40 1 x86_64
m8id.32xlarge 128 524288 - 2x3800 0 50 1 x86_64
m8id.48xlarge 192 786432 - 3x3800 1 75 1 x86_64
m8id.96xlarge 384 1572864 - 6x3800 1 100 1 x86_64
m8id.large 2 8192 - 1x118 0 <12.5 1 x86_64
m8id.metal-48xl 192 786432 - 3x3800 1 75 1 x86_64
m8id.metal-96xl 384 1572864 - 6x3800 1 100 1 x86_64
m8id.xlarge 4 16384 - 1x237 0 <12.5 1 x86_64
m8idb.2xlarge 8 32768 - 1x474 0 <26.66 1 x86_64
m8idb.4xlarge 16 65536 - 1x950 0 <33.33 1 x86_64
m8idb.8xlarge 32 131072 - 1x1900 0 33.33 1 x86_64
m8idb.12xlarge 48 196608 - 1x2850 0 50 1 x86_64
m8idb.16xlarge 64 262144 - 1x3800 0 66.66 1 x86_64
m8idb.24xlarge 96 393216 - 2x2850 0 100 1 x86_64
m8idb.32xlarge 128 524288 - 2x3800 0 133.33 1 x86_64
m8idb.48xlarge 192 786432 - 3x3800 1 200 1 x86_64
m8idb.96xlarge 384 1572864 - 6x3800 2 400 2 x86_64
m8idb.large 2 8192 - 1x118 0 <16.66 1 x86_64
m8idb.metal-48xl 192 786432 - 3x3800 1 200 1 x86_64
m8idb.metal-96xl 384 1572864 - 6x3800 2 400 2 x86_64
m8idb.xlarge 4 16384 - 1x237 0 <20 1 x86_64
m8idn.2xlarge 8 32768 - 1x474 0 <40 1 x86_64
m8idn.4xlarge 16 65536 - 1x950 0 <50 1 x86_64
m8idn.8xlarge 32 131072 - 1x1900 0 50 1 x86_64
m8idn.12xlarge 48 196608 - 1x2850 0 75 1 x86_64
m8idn.16xlarge 64 262144 - 1x3800 0 100 1 x86_64
m8idn.24xlarge 96 393216 - 2x2850 0 150 1 x86_64
m8idn.32xlarge 128 524288 - 2x3800 0 200 1 x86_64
m8idn.48xlarge 192 786432 - 3x3800 1 300 1 x86_64
m8idn.96xlarge 384 1572864 - 6x3800 2 600 2 x86_64
m8idn.large 2 8192 - 1x118 0 <25 1 x86_64
m8idn.metal-48xl 192 786432 - 3x3800 1 300 1 x86_64
m8idn.metal-96xl 384 1572864 - 6x3800 2 600 2 x86_64
m8idn.xlarge 4 16384 - 1x237 0 <30 1 x86_64
m9gd.2xlarge 8 32768 - 1x474 0 <17 1 arm64
m9gd.4xlarge 16 65536 - 1x950 0 <17 1 arm64
m9gd.8xlarge 32 131072 - 1x1900 0 17 1 arm64
m9gd.12xlarge 48 196608 - 3x950 0 25 1 arm64
m9gd.16xlarge 64 262144 - 1x3800 0 34 1 arm64
m9gd.24xlarge 96 393216 - 3x1900 0 50 1 arm64
m9gd.48xlarge 192 786432 - 3x3800 1 100 1 arm64
m9gd.large 2 8192 - 1x118 0 <15 1 arm64
m9gd.medium 1 4096 - 1x59 0 <15 1 arm64
m9gd.metal-48xl 192 786432 - 3x3800 1 100 1 arm64
m9gd.xlarge 4 16384 - 1x237 0 <15 1 arm64
p3dn.24xlarge 96 786432 gpu:V100:8:32768 2x900 1 100 1 x86_64
p4d.24xlarge 96 1179648 gpu:A100:8:40960 8x1000 4 400 4 x86_64
p4de.24xlarge 96 1179648 gpu:A100:8:81920 8x1000 4 400 4 x86_64
p5.4xlarge 16 262144 gpu:H100:1:81920 1x3800 1 100 1 x86_64
p5.48xlarge 192 2097152 gpu:H100:8:81920 8x3800 32 3200 32 x86_64
p5e.48xlarge 192 2097152 gpu:H200:8:144384 8x3800 32 3200 32 x86_64
p5en.48xlarge 192 2097152 gpu:H200:8:144384 8x3800 16 3200 16 x86_64
p6-b200.48xlarge 192 2097152 gpu:B200:8:183359 8x3800 8 3200 8 x86_64
p6-b300.48xlarge 192 4194304 gpu:B300:8:275040 8x3800 16 6400 17 x86_64
r5ad.2xlarge 8 65536 - 1x300 0 <10 1 x86_64
r5ad.4xlarge 16 131072 - 2x300 0 <10 1 x86_64
r5ad.8xlarge 32 262144 - 2x600 0 <10 1 x86_64
r5ad.12xlarge 48 393216 - 2x900 0 10 1 x86_64
r5ad.16xlarge 64 524288 - 4x600 0 12 1 x86_64
r5ad.24xlarge 96 786432 - 4x900 0 20 1 x86_64
r5ad.large 2 16384 - 1x75 0 <10 1 x86_64
r5ad.xlarge 4 32768 - 1x150 0 <10 1 x86_64
r5d.2xlarge 8 65536 - 1x300 0 <10 1 x86_64
r5d.4xlarge 16 131072 - 2x300 0 <10 1 x86_64
r5d.8xlarge 32 262144 - 2x600 0 10 1 x86_64
r5d.12xlarge 48 393216 - 2x900 0 12 1 x86_64
r5d.16xlarge 64 524288 - 4x600 0 20 1 x86_64
r5d.24xlarge 96 786432 - 4x900 0 25 1 x86_64
r5d.large 2 16384 - 1x75 0 <10 1 x86_64
r5d.metal 96 786432 - 4x900 0 25 1 x86_64
r5d.xlarge 4 32768 - 1x150 0 <10 1 x86_64
r5dn.2xlarge 8 65536 - 1x300 0 <25 1 x86_64
r5dn.4xlarge 16 131072 - 2x300 0 <25 1 x86_64
r5dn.8xlarge 32 262144 - 2x600 0 25 1 x86_64
r5dn.12xlarge 48 393216 - 2x900 0 50 1 x86_64
r5dn.16xlarge 64 524288 - 4x600 0 75 1 x86_64
r5dn.24xlarge 96 786432 - 4x900 1 100 1 x86_64
r5dn.large 2 16384 - 1x75 0 <25 1 x86_64
r5dn.metal 96 786432 - 4x900 1 100 1 x86_64
r5dn.xlarge 4 32768 - 1x150 0 <25 1 x86_64
r6gd.2xlarge 8 65536 - 1x474 0 <10 1 arm64
r6gd.4xlarge 16 131072 - 1x950 0 <10 1 arm64
r6gd.8xlarge 32 262144 - 1x1900 0 12 1 arm64
r6gd.12xlarge 48 393216 - 2x1425 0 20 1 arm64
r6gd.16xlarge 64 524288 - 2x1900 0 25 1 arm64
r6gd.large 2 16384 - 1x118 0 <10 1 arm64
r6gd.medium 1 8192 - 1x59 0 <10 1 arm64
r6gd.metal 64 524288 - 2x1900 0 25 1 arm64
r6gd.xlarge 4 32768 - 1x237 0 <10 1 arm64
r6id.2xlarge 8 65536 - 1x474 0 <12.5 1 x86_64
r6id.4xlarge 16 131072 - 1x950 0 <12.5 1 x86_64
r6id.8xlarge 32 262144 - 1x1900 0 12.5 1 x86_64
r6id.12xlarge 48 393216 - 2x1425 0 18.75 1 x86_64
r6id.16xlarge 64 524288 - 2x1900 0 25 1 x86_64
r6id.24xlarge 96 786432 - 4x1425 0 37.5 1 x86_64
r6id.32xlarge 128 1048576 - 4x1900 1 50 1 x86_64
r6id.large 2 16384 - 1x118 0 <12.5 1 x86_64
r6id.metal 128 1048576 - 4x1900 1 50 1 x86_64
r6id.xlarge 4 32768 - 1x237 0 <12.5 1 x86_64
r6idn.2xlarge 8 65536 - 1x474 0 <40 1 x86_64
r6idn.4xlarge 16 131072 - 1x950 0 <50 1 x86_64
r6idn.8xlarge 32 262144 - 1x1900 0 50 1 x86_64
r6idn.12xlarge 48 393216 - 2x1425 0 75 1 x86_64
r6idn.16xlarge 64 524288 - 2x1900 0 100 1 x86_64
r6idn.24xlarge 96 786432 - 4x1425 0 150 1 x86_64
r6idn.32xlarge 128 1048576 - 4x1900 2 200 2 x86_64
r6idn.large 2 16384 - 1x118 0 <25 1 x86_64
r6idn.metal 128 1048576 - 4x1900 2 200 2 x86_64
r6idn.xlarge 4 32768 - 1x237 0 <30 1 x86_64
r7gd.2xlarge 8 65536 - 1x474 0 <15 1 arm64
r7gd.4xlarge 16 131072 - 1x950 0 <15 1 arm64
r7gd.8xlarge 32 262144 - 1x1900 0 15 1 arm64
r7gd.12xlarge 48 393216 - 2x1425 0 22.5 1 arm64
r7gd.16xlarge 64 524288 - 2x1900 1 30 1 arm64
r7gd.large 2 16384 - 1x118 0 <12.5 1 arm64
r7gd.medium 1 8192 - 1x59 0 <12.5 1 arm64
r7gd.metal 64 524288 - 2x1900 1 30 1 arm64
r7gd.xlarge 4 32768 - 1x237 0 <12.5 1 arm64
r8gd.2xlarge 8 65536 - 1x474 0 <15 1 arm64
r8gd.4xlarge 16 131072 - 1x950 0 <15 1 arm64
r8gd.8xlarge 32 262144 - 1x1900 0 15 1 arm64
r8gd.12xlarge 48 393216 - 3x950 0 22.5 1 arm64
r8gd.16xlarge 64 524288 - 2x1900 0 30 1 arm64
r8gd.24xlarge 96 786432 - 3x1900 1 40 1 arm64
r8gd.48xlarge 192 1572864 - 6x1900 1 50 1 arm64
r8gd.large 2 16384 - 1x118 0 <12.5 1 arm64
r8gd.medium 1 8192 - 1x59 0 <12.5 1 arm64
r8gd.metal-24xl 96 786432 - 3x1900 1 40 1 arm64
r8gd.metal-48xl 192 1572864 - 6x1900 1 50 1 arm64
r8gd.xlarge 4 32768 - 1x237 0 <12.5 1 arm64
r8id.2xlarge 8 65536 - 1x474 0 <15 1 x86_64
r8id.4xlarge 16 131072 - 1x950 0 <15 1 x86_64
r8id.8xlarge 32 262144 - 1x1900 0 15 1 x86_64
r8id.12xlarge 48 393216 - 1x2850 0 22.5 1 x86_64
r8id.16xlarge 64 524288 - 1x3800 0 30 1 x86_64
r8id.24xlarge 96 786432 - 2x2850 0 40 1 x86_64
r8id.32xlarge 128 1048576 - 2x3800 0 50 1 x86_64
r8id.48xlarge 192 1572864 - 3x3800 1 75 1 x86_64
r8id.96xlarge 384 3145728 - 6x3800 1 100 1 x86_64
r8id.large 2 16384 - 1x118 0 <12.5 1 x86_64
r8id.metal-48xl 192 1572864 - 3x3800 1 75 1 x86_64
r8id.metal-96xl 384 3145728 - 6x3800 1 100 1 x86_64
r8id.xlarge 4 32768 - 1x237 0 <12.5 1 x86_64
r8idb.2xlarge 8 65536 - 1x474 0 <26.66 1 x86_64
r8idb.4xlarge 16 131072 - 1x950 0 <33.33 1 x86_64
r8idb.8xlarge 32 262144 - 1x1900 0 33.33 1 x86_64
r8idb.12xlarge 48 393216 - 1x2850 0 50 1 x86_64
r8idb.16xlarge 64 524288 - 1x3800 0 66.66 1 x86_64
r8idb.24xlarge 96 786432 - 2x2850 0 100 1 x86_64
r8idb.32xlarge 128 1048576 - 2x3800 0 133.33 1 x86_64
r8idb.48xlarge 192 1572864 - 3x3800 1 200 1 x86_64
r8idb.96xlarge 384 3145728 - 6x3800 2 400 2 x86_64
r8idb.large 2 16384 - 1x118 0 <16.66 1 x86_64
r8idb.metal-48xl 192 1572864 - 3x3800 1 200 1 x86_64
r8idb.metal-96xl 384 3145728 - 6x3800 2 400 2 x86_64
r8idb.xlarge 4 32768 - 1x237 0 <20 1 x86_64
r8idn.2xlarge 8 65536 - 1x474 0 <40 1 x86_64
r8idn.4xlarge 16 131072 - 1x950 0 <50 1 x86_64
r8idn.8xlarge 32 262144 - 1x1900 0 50 1 x86_64
r8idn.12xlarge 48 393216 - 1x2850 0 75 1 x86_64
r8idn.16xlarge 64 524288 - 1x3800 0 100 1 x86_64
r8idn.24xlarge 96 786432 - 2x2850 0 150 1 x86_64
r8idn.32xlarge 128 1048576 - 2x3800 0 200 1 x86_64
r8idn.48xlarge 192 1572864 - 3x3800 1 300 1 x86_64
r8idn.96xlarge 384 3145728 - 6x3800 2 600 2 x86_64
r8idn.large 2 16384 - 1x118 0 <25 1 x86_64
r8idn.metal-48xl 192 1572864 - 3x3800 1 300 1 x86_64
r8idn.metal-96xl 384 3145728 - 6x3800 2 600 2 x86_64
r8idn.xlarge 4 32768 - 1x237 0 <30 1 x86_64
r9gd.2xlarge 8 65536 - 1x474 0 <17 1 arm64
r9gd.4xlarge 16 131072 - 1x950 0 <17 1 arm64
r9gd.8xlarge 32 262144 - 1x1900 0 17 1 arm64
r9gd.12xlarge 48 393216 - 3x950 0 25 1 arm64
r9gd.16xlarge 64 524288 - 1x3800 0 34 1 arm64
r9gd.24xlarge 96 786432 - 3x1900 0 50 1 arm64
r9gd.48xlarge 192 1572864 - 3x3800 1 100 1 arm64
r9gd.large 2 16384 - 1x118 0 <15 1 arm64
r9gd.medium 1 8192 - 1x59 0 <15 1 arm64
r9gd.metal-48xl 192 1572864 - 3x3800 1 100 1 arm64
r9gd.xlarge 4 32768 - 1x237 0 <15 1 arm64
trn1.2xlarge 8 32768 neuron:Trainium:1:32768 1x474 0 <12.5 1 x86_64
trn1.32xlarge 128 524288 neuron:Trainium:16:32768 4x1900 8 800 8 x86_64
trn1n.32xlarge 128 524288 neuron:Trainium:16:32768 4x1900 16 1600 16 x86_64
trn2.3xlarge 12 131072 neuron:Trainium2:1:98304 1x470 1 200 1 x86_64
trn2.48xlarge 192 2097152 neuron:Trainium2:16:98304 4x1900 16 3200 16 x86_64
trn2u.48xlarge 192 2097152 neuron:Trainium2:16:98304 4x1900 16 3200 16 x86_64
x2gd.2xlarge 8 131072 - 1x475 0 <10 1 arm64
x2gd.4xlarge 16 262144 - 1x950 0 <10 1 arm64
x2gd.8xlarge 32 524288 - 1x1900 0 12 1 arm64
x2gd.12xlarge 48 786432 - 2x1425 0 20 1 arm64
x2gd.16xlarge 64 1048576 - 2x1900 0 25 1 arm64
x2gd.large 2 32768 - 1x118 0 <10 1 arm64
x2gd.medium 1 16384 - 1x59 0 <10 1 arm64
x2gd.metal 64 1048576 - 2x1900 0 25 1 arm64
x2gd.xlarge 4 65536 - 1x237 0 <10 1 arm64
x2idn.16xlarge 64 1048576 - 1x1900 0 50 1 x86_64
x2idn.24xlarge 96 1572864 - 2x1425 0 75 1 x86_64
x2idn.32xlarge 128 2097152 - 2x1900 1 100 1 x86_64
x2idn.metal 128 2097152 - 2x1900 1 100 1 x86_64
x2iedn.2xlarge 8 262144 - 1x237 0 <25 1 x86_64
x2iedn.4xlarge 16 524288 - 1x475 0 <25 1 x86_64
x2iedn.8xlarge 32 1048576 - 1x950 0 25 1 x86_64
x2iedn.16xlarge 64 2097152 - 1x1900 0 50 1 x86_64
x2iedn.24xlarge 96 3145728 - 2x1425 0 75 1 x86_64
x2iedn.32xlarge 128 4194304 - 2x1900 1 100 1 x86_64
x2iedn.metal 128 4194304 - 2x1900 1 100 1 x86_64
x2iedn.xlarge 4 131072 - 1x118 0 <25 1 x86_64
x8aedz.3xlarge 12 393216 - 1x950 0 <18.75 1 x86_64
x8aedz.6xlarge 24 786432 - 1x1900 0 18.75 1 x86_64
x8aedz.12xlarge 48 1572864 - 1x3800 0 37.5 1 x86_64
x8aedz.24xlarge 96 3145728 - 2x3800 1 75 1 x86_64
x8aedz.large 2 65536 - 1x158 0 <18.75 1 x86_64
x8aedz.metal-12xl 48 1572864 - 1x3800 0 37.5 1 x86_64
x8aedz.metal-24xl 96 3145728 - 2x3800 1 75 1 x86_64
x8aedz.xlarge 4 131072 - 1x316 0 <18.75 1 x86_64
z1d.2xlarge 8 65536 - 1x300 0 <10 1 x86_64
z1d.3xlarge 12 98304 - 1x450 0 <10 1 x86_64
z1d.6xlarge 24 196608 - 1x900 0 12 1 x86_64
z1d.12xlarge 48 393216 - 2x900 0 25 1 x86_64
z1d.large 2 16384 - 1x75 0 <10 1 x86_64
z1d.metal 48 393216 - 2x900 0 25 1 x86_64
z1d.xlarge 4 32768 - 1x150 0 <10 1 x86_64
"""
# end generated

# Row in the form of TABLE to the document with all its values, for types that the generator lacks.
# Of p6e-gb200 the EC2 User Guide ("EFA configuration for a P6e-GB200 instances") has 4 or 8 EFA interfaces for the full
# bandwidth and 16 network cards that take one, and no source has the number that EC2 allows. Of the other UltraServers
# (_data/ultraservers.py) no source has any value.
_GUIDE = 'EC2 Instance Types Guide, "Specifications for Amazon EC2 accelerated computing instances"'
ADDITIONS: dict[str, str] = {
    "p6e-gb200.36xlarge 144 983040 gpu:GB200:4:189440 3x7500 ? 3200 17 arm64": (
        f"{_GUIDE}; name of the GPU: SageMaker HyperPod User Guide, topology-aware scheduling"
    ),
}


def _accelerators(text: str) -> dict[str, Any] | None:
    if text == "-":
        return None
    kind, name, count, memory = text.split(":")
    return {"kind": kind, "name": name.replace("_", " "), "count": int(count), "memory_mib": int(memory)}


def _instance_store(text: str) -> dict[str, int]:
    count, size = (0, 0) if text == "-" else map(int, text.split("x"))
    return {"count": count, "size_gb": size, "total_gb": count * size}


def _parse(row: str, source: str = SOURCE) -> dict[str, Any]:
    name, vcpus, memory, accelerators, store, efa, network, cards, architecture = row.split(" ")
    return {
        "instance_type": name,
        "vcpus": int(vcpus),
        "memory_mib": int(memory),
        "accelerators": _accelerators(accelerators),
        "instance_store": _instance_store(store),
        "efa_interfaces": None if efa == "?" else int(efa),
        "network_gbps": float(network.lstrip("<")),
        "network_burst": network.startswith("<"),
        "network_cards": int(cards),
        "architecture": architecture,
        "source": source + (f"; {CORRECTIONS[name]}" if name in CORRECTIONS else ""),
    }


def lookup(instance_type: object) -> dict[str, Any] | None:
    """Return the facts of one type, or None if the table lacks it.

    Shape: ``instance_type``, ``vcpus``, ``memory_mib``, ``accelerators`` (None, or ``kind`` gpu|neuron,
    ``name``, ``count``, ``memory_mib`` of each), ``instance_store`` (``count``, ``size_gb`` of each disk and
    ``total_gb``, decimal; count 0: there is certainly none), ``efa_interfaces`` (None: it has EFA, their number
    is unknown), ``network_gbps`` of the whole instance and ``network_burst`` (True: only up to that),
    ``network_cards``, ``architecture`` (x86_64 or arm64), ``source``.
    """
    if not isinstance(instance_type, str) or not instance_type or set(instance_type) & {" ", "\n"}:
        return None
    start = TABLE.find(f"\n{instance_type} ")
    if start < 0:
        added = [(row, source) for row, source in ADDITIONS.items() if row.startswith(f"{instance_type} ")]
        return _parse(*added[0]) if added else None
    return _parse(TABLE[start + 1 : TABLE.index("\n", start + 1)])


def has_efa(facts: Mapping[str, Any] | None) -> bool:
    """Return whether a type has EFA, by its facts from ``lookup``; False for an unknown one."""
    return bool(facts) and facts.get("efa_interfaces", 0) != 0  # type: ignore[union-attr]


def disks_and_gpus(facts: Mapping[str, Any] | None) -> tuple[int, int]:
    """Return the numbers of instance-store disks and of GPUs of a type, by its facts from ``lookup``; unknown: 0."""
    if not facts:
        return 0, 0
    accelerators = facts["accelerators"] or {"kind": "", "count": 0}
    return facts["instance_store"]["count"], accelerators["count"] if accelerators["kind"] == "gpu" else 0


def names() -> list[str]:
    """Return every type in the table, in its order, then the additions."""
    return [row.split(" ", 1)[0] for row in (*TABLE.splitlines(), *ADDITIONS) if row]
