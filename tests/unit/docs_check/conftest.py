# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The checkout and its pages, read once for all tests of the documentation."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs_check import docs_pages, docs_programs

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def checkout():
    return docs_programs.Checkout(ROOT)


@pytest.fixture(scope="session")
def pages(checkout):
    return docs_pages.Pages(ROOT, checkout.files)
