# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Links, anchors, titles and blocks on small pages of their own, and how they get into the site."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs_check import docs_markdown, docs_pages, docs_site

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def variables():
    return docs_pages.Variables(ROOT, {"fsx_lustre_own"})


@pytest.fixture
def small(tmp_path):
    """small(name=text, ...) makes these pages, with a file beside them."""

    def make(**texts):
        files = {f"docs/{name}.md": text for name, text in texts.items()}
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text, encoding="utf-8")
        return docs_pages.Pages(tmp_path, {*files, "docs", "docs/iam", "docs/iam/a.json"})

    return make


@pytest.mark.parametrize(
    ("title", "anchor"),
    [
        ("What it is", "what-it-is"),
        ("`mlcluster health`: three depths", "mlcluster-health-three-depths"),
        ("EFA, NCCL & more", "efa-nccl--more"),
        ("5분 시작 안내", "5분-시작-안내"),
        ("on_node_configured.sh", "on_node_configuredsh"),
    ],
)
def test_anchor_is_that_of_code_host(title, anchor):
    assert docs_markdown.read(f"# {title}\n").anchors == {anchor}


def test_repeated_heading_is_numbered():
    assert docs_markdown.read("# A\n## B\n## B\n").anchors == {"a", "b", "b-1"}


@pytest.mark.parametrize(
    "target",
    [
        "other.md",
        "other.md#two-words",
        "#here",
        "iam",
        "iam/a.json",
        "https://docs.aws.amazon.com/x",
        "other.md#%EC%95%88",
    ],
)
def test_link_with_target_passes(small, target):
    pages = small(x=f"# Here\n\n[a]({target})\n", other="# Two words\n\n## 안\n")
    assert list(docs_pages.link_problems(pages)) == []


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ("none.md", "none.md leads to docs/none.md, which is not there"),
        ("other.md#none", "docs/other.md has no heading with that anchor"),
        ("#none", "docs/x.md has no heading with that anchor"),
        ("../docs/iam/b.json", "leads to docs/iam/b.json, which is not there"),
        ("../../outside.md", "which is not there"),
        ("http://docs.aws.amazon.com/x", "is not an https address"),
        ("https://docs.aws.amazon.com.example.org/x", "is not a host that is linked to so far"),
    ],
)
def test_link_without_target_is_named(small, target, problem):
    pages = small(x=f"# Here\n\n| a |\n|---|\n| [a]({target}) |\n", other="# Two words\n")
    (found,) = docs_pages.link_problems(pages)
    assert found.startswith("docs/x.md:5: ") and problem in found


@pytest.mark.parametrize("text", ["no title\n", "# a\n\n# b\n", "## a\n\n# b\n", "# a\n\n### b\n"])
def test_titles_out_of_order_are_named(small, text):
    assert len(list(docs_pages.title_problems(small(x=text)))) == 1


@pytest.mark.parametrize(
    ("language", "text", "problem"),
    [
        ("", "x", "the block's language is not named"),
        ("shell", "x", "the block's language is shell: use one of bash"),
        ("{toctree}", "x", "the block's language is {toctree}"),
        ("yaml", "a: [", "this is not yaml"),
        ("yaml", "- hosts: a\n  vars: {nvme_raid0_lyaout: x}", "nvme_raid0_lyaout is not a variable of nvme_raid0"),
        ("json", "{", "this is not json"),
        ("python", "a b", "this is not python"),
        ("toml", "a b", "this is not toml"),
        ("bash", "if true", "syntax error"),
    ],
)
def test_invalid_block_is_named(variables, language, text, problem):
    block = docs_markdown.Block(language, text, 1, "")
    assert problem in (docs_pages.block_problem("docs/x.md", block, variables) or "")


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("text", "anything [ {"),
        ("yaml", "a: !vault |\n  x\nnvme_raid0_layout: raid0\n---\nfsx_lustre_own: 1"),
        ("json", "{}"),
        ("bash", "for x in a; do echo $x; done"),
    ],
)
def test_valid_block_passes(variables, language, text):
    assert docs_pages.block_problem("docs/x.md", docs_markdown.Block(language, text, 1, ""), variables) is None


def test_links_to_other_files_lead_to_sources():
    pages = {"docs/a.md", "docs/b.md"}
    text = "[b](b.md#x) [j](iam/a.json) [l](../LICENSE) [o](https://x)\n"
    assert docs_site.rewritten(text, "docs/a.md", pages, "https://p") == (
        "[b](b.md#x) [j](https://p/blob/main/docs/iam/a.json) [l](https://p/blob/main/LICENSE) [o](https://x)\n"
    )


@pytest.mark.parametrize(
    ("name", "page"),
    [
        ("README.md", True),
        ("docs/ko/start.md", True),
        ("roles/a/README.md", True),
        ("tests/rig/vm/README.md", True),
        ("tests/unit/plugins/fixtures/README.md", False),
        ("CODE_OF_CONDUCT.md", False),
        ("docs/iam/a.json", False),
    ],
)
def test_pages_of_site(name, page):
    assert docs_site.is_page(name) is page


def test_pages_keep_their_paths_and_index_is_on_top(tmp_path):
    docs_site.stage(ROOT, tmp_path)
    index = (tmp_path / "index.md").read_text(encoding="utf-8")
    assert "](docs/guides/start.md)" in index and "](README.md)" in index and "](docs/pictures/run.svg)" in index
    assert not (tmp_path / "docs/index.md").exists()
    assert "[`nvme_raid0`](roles/nvme_raid0/README.md)" in (tmp_path / "README.md").read_text(encoding="utf-8")


def test_pictures_and_drawn_diagrams_go_with_pages(tmp_path):
    docs_site.stage(ROOT, tmp_path)
    assert (tmp_path / "docs/pictures/report.png").stat().st_size > 10000
    assert "](docs/pictures/run.svg)" in (tmp_path / "README.md").read_text(encoding="utf-8")
    page = (tmp_path / "docs/architecture.md").read_text(encoding="utf-8")
    assert "![diagram](architecture-1.svg)" in page and "```mermaid" not in page
    assert (tmp_path / "docs/architecture-1.svg").read_text(encoding="utf-8").startswith("<svg")


def test_page_has_no_second_table_of_contents():
    text = "Title\n\n.. contents::\n   :local:\n   :depth: 1\n\nText\n"
    assert docs_site.CONTENTS.sub("", text) == "Title\n\n\nText\n"
