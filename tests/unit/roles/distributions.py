# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The distributions that roles are rendered for."""

from __future__ import annotations

import pytest

# What setup says of these: distribution, major version, family, package manager.
DISTRIBUTIONS = {
    "debian-12": ("Debian", "12", "Debian", "apt"),
    "debian-13": ("Debian", "13", "Debian", "apt"),
    "ubuntu-22.04": ("Ubuntu", "22", "Debian", "apt"),
    "ubuntu-24.04": ("Ubuntu", "24", "Debian", "apt"),
    "amazon-2023": ("Amazon", "2023", "RedHat", "dnf"),
    "rhel-9": ("RedHat", "9", "RedHat", "dnf"),
    "rocky-9": ("Rocky", "9", "RedHat", "dnf"),
    "rhel-10": ("RedHat", "10", "RedHat", "dnf"),
}
every_distribution = pytest.mark.parametrize("facts", DISTRIBUTIONS.values(), ids=DISTRIBUTIONS)
