# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""EFA interfaces that AWS's set-up of FSx for Lustre clients configures.

Source: FSx for Lustre User Guide, "Configuring EFA clients". Other types have two if they have several
network cards, otherwise one.
"""

from __future__ import annotations

EFA_INTERFACES: dict[str, int] = dict.fromkeys(
    ("p5.48xlarge", "p5e.48xlarge", "p5en.48xlarge", "p6-b200.48xlarge", "p6e-gb200.36xlarge"), 8
)
SEVERAL_CARDS = 2
ONE_CARD = 1
