# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The documentation as it is: every link leads somewhere, every block parses, every command can be right."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs_check import docs_commands, docs_pages, docs_site

ROOT = Path(__file__).parents[3]


def assert_none(problems):
    found = list(problems)
    assert not found, "\n" + "\n".join(found)


def test_every_link_and_anchor_leads_somewhere(pages):
    assert sum(len(page.links) for page in pages.read.values()) > 100
    assert_none(docs_pages.link_problems(pages))


def test_every_page_has_one_title_and_leaves_out_no_level(pages):
    assert_none(docs_pages.title_problems(pages))


def test_every_block_parses_and_sets_known_variables(pages, checkout):
    variables = docs_pages.Variables(ROOT, checkout.variables)
    assert_none(docs_pages.block_problems(pages, variables))


def test_every_command_has_mark_and_could_run_there(pages, checkout):
    names = docs_commands.pages(ROOT)
    assert sum(len(docs_commands.blocks(name, pages.read[name])) for name in names) > 30
    assert_none(text for name in names for text in docs_commands.problems(name, pages.read[name], checkout))


def test_every_page_is_in_site(pages):
    entries = re.findall(
        r"^/(\S+)$", "\n".join(block.text for block in pages.read["docs/index.md"].blocks), re.MULTILINE
    )
    for name in filter(docs_site.is_page, pages.read):
        place = name.removesuffix(".md")
        assert name == "docs/index.md" or any(Path(place).match(entry) for entry in entries), f"{name} is in no toctree"
    for entry in entries:
        assert entry == "collection/index" or any(Path(name.removesuffix(".md")).match(entry) for name in pages.read)


def test_every_schema_is_in_notes_on_upgrades(pages, checkout):
    schema = re.compile(r"mlcluster\.[a-z_]+/\d+\b")
    places = ("plugins/", "hooks/", "roles/slurm_jobs/files/")
    written = {
        found
        for name in checkout.files
        if name.startswith(places) and name.endswith((".py", ".sh"))
        for found in schema.findall((ROOT / name).read_text(encoding="utf-8"))
    }
    listed = {found for code in pages.read["docs/upgrading.md"].codes for found in schema.findall(code.text)}
    assert written and written == listed


# People read a guide as a whole, and look things up in these.
REFERENCE = {"docs/guides/failure-catalogue.md", "docs/guides/faq.md"}
LONGEST_GUIDE = 250


def test_guides_are_short(pages):
    lengths = {
        name: len((ROOT / name).read_text(encoding="utf-8").splitlines())
        for name in pages.read
        if name.startswith("docs/guides/") and name not in REFERENCE
    }
    assert len(lengths) > 5
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST_GUIDE} == {}


def test_guides_begin_with_their_readers(pages):
    firsts = {
        name: (ROOT / name).read_text(encoding="utf-8").split("\n\n", 2)[1]
        for name in pages.read
        if name.startswith("docs/guides/")
    }
    assert {name: text[:40] for name, text in firsts.items() if not text.startswith("For ")} == {}


def test_guides_end_with_check_of_success(pages):
    ends = {
        name: re.findall(r"^## (.+)$", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE)[-2:]
        for name in pages.read
        if name.startswith("docs/guides/") and name not in REFERENCE
    }
    assert {name: last for name, last in ends.items() if "How to see that it worked" not in last} == {}


LONGEST_CELL = 120
GENERATED = re.compile(r"<!-- (?:variables|table: [a-z-]+) -->.*?<!-- /(?:variables|table) -->", re.DOTALL)


def test_cells_of_tables_are_short(pages):
    long = []
    for name in filter(docs_site.is_page, pages.read):
        text = GENERATED.sub("", (ROOT / name).read_text(encoding="utf-8"))
        for line in re.findall(r"^\|.*\|$", text, re.MULTILINE):
            # The first cell may be a quote; the target of a link takes no room.
            cells = re.split(r"(?<!\\)\|", re.sub(r"(?<=\])\([^)]*\)", "", line))[2:-1]
            long += [f"{name}: {cell.strip()}" for cell in cells if len(cell.strip()) > LONGEST_CELL]
    assert long == []
