# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The pictures of the README; that of the page is drawn by a browser, as tests/integration/report does."""

from __future__ import annotations

from tests.docs_check import pictures

# Together with the README they are what a visitor loads first.
MAX_BYTES = 300_000


def test_picture_of_run_is_up_to_date():
    assert pictures.RUN.read_text(encoding="utf-8") == pictures.drawn(pictures.terminal()), "run make pictures"


def test_long_lines_are_folded_and_blanks_kept():
    svg = pictures.drawn(["word " * 40, "a  b <c>"])
    assert svg.count("<text") == 3 and "a\u00a0\u00a0b\u00a0&lt;c&gt;" in svg


def test_page_has_content_of_its_picture():
    page = pictures.page()
    assert "gpu-dy-p5-7" in page and "32 EFA functions" in page and "login-2" in page


def test_pictures_are_small():
    assert 0 < sum(path.stat().st_size for path in (pictures.PAGE, pictures.RUN)) < MAX_BYTES
