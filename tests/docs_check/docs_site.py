# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Build the documentation site into docs/_build/html; a warning is an error, and nothing is fetched.

    python -m tests.docs_check.docs_site          the whole site
    python -m tests.docs_check.docs_site lint     antsibull-docs' own judgement on plugins and roles, without a site

The sources lie together in .build/docs as they lie in the checkout, so that links between them hold; the pages of
modules, plugins and roles come from antsibull-docs.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import unquote, urlsplit

import yaml

from tests.build import house_rules

from . import diagrams, docs_markdown

CHECKOUT = Path(__file__).resolve().parents[2]
BIN = CHECKOUT / ".venv-docs" / "bin"
STAGE = CHECKOUT / ".build" / "docs"
SITE = CHECKOUT / "docs" / "_build" / "html"
COLLECTION = "mlcluster.aws"
# A table of contents within a page: the theme has one beside it, and takes offence at a second.
CONTENTS = re.compile(r"^\.\. contents::\n(?:[ \t]+:.*\n)*", re.MULTILINE)
INDEX = "docs/index.md"
# Pictures go with the pages.
PICTURES = "docs/pictures/"
# Where a checkout's other files can be read.
BRANCH = "blob/main"


def is_page(name: str) -> bool:
    """Return whether a file of the checkout is a page of the site."""
    if not name.endswith(".md") or name == "CODE_OF_CONDUCT.md":
        return False
    return "/" not in name or name.startswith("docs/") or (name.endswith("/README.md") and "/fixtures/" not in name)


def rewritten(text: str, name: str, pages: set[str], sources: str) -> str:
    """The Markdown of page ``name`` with links to what is not a page leading to ``sources``, the project's address."""
    for target in {link.target for link in docs_markdown.read(text).links}:
        parts = urlsplit(unquote(target))
        if parts.scheme or not parts.path:
            continue
        path = posixpath.normpath(posixpath.join(posixpath.dirname(name), parts.path))
        if path not in pages and not path.startswith(PICTURES):
            address = f"{sources}/{BRANCH}/{path}" + (f"#{parts.fragment}" if parts.fragment else "")
            text = text.replace(f"]({target})", f"]({address})")
        elif name == INDEX:
            # It stands above the folder from which its links lead.
            text = text.replace(f"]({target})", f"]({path}" + (f"#{parts.fragment})" if parts.fragment else ")"))
    return text


def stage(checkout: Path, target: Path) -> None:
    """Copy the pages of ``checkout`` into ``target``; docs/index.md becomes the root page."""
    sources = yaml.safe_load((checkout / "galaxy.yml").read_text(encoding="utf-8"))["repository"]
    files = house_rules.tracked_files(checkout)
    pages = {name for name in files if is_page(name)}
    for name in sorted(pages):
        text = (checkout / name).read_text(encoding="utf-8")
        place = target / ("index.md" if name == INDEX else name)
        place.parent.mkdir(parents=True, exist_ok=True)
        text, drawn = diagrams.replaced(rewritten(text, name, pages, sources), place.stem)
        place.write_text(text, encoding="utf-8")
        for file, picture in drawn.items():
            (place.parent / file).write_text(picture, encoding="utf-8")
    for name in files:
        if name.startswith(PICTURES):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(checkout / name, target / name)


def environment() -> dict[str, str]:
    """Sphinx and antsibull-docs first, then the ansible-doc of the build; collections from the checkout only."""
    result = dict(os.environ)
    search = [str(BIN), str(CHECKOUT / ".venv" / "bin"), result.get("PATH", os.defpath)]
    result["PATH"] = os.pathsep.join(search)
    result["ANSIBLE_COLLECTIONS_PATH"] = str(CHECKOUT / ".collections")
    result["ANSIBLE_CONFIG"] = str(CHECKOUT / "ansible.cfg")
    result["NO_COLOR"] = "1"
    return result


def run(*command: str | Path) -> int:
    """Run a program of the site's environment in the checkout; returns its exit status."""
    return subprocess.run([str(word) for word in command], cwd=CHECKOUT, env=environment(), check=False).returncode


def reference() -> int:
    """Write the pages of modules, plugins and roles; returns the exit status."""
    target = STAGE / "collection"
    target.mkdir()
    # antsibull-docs refuses a folder that others may write into.
    target.chmod(0o755)
    options = ("--use-current", "--squash-hierarchy", "--fail-on-error", "--no-add-antsibull-docs-version")
    status = run("antsibull-docs", "collection", *options, "--dest-dir", target, COLLECTION)
    for page in target.glob("*.rst"):
        page.write_text(CONTENTS.sub("", page.read_text(encoding="utf-8")), encoding="utf-8")
    return status


def build() -> int:
    """Build the site; returns the exit status."""
    shutil.rmtree(STAGE, ignore_errors=True)
    shutil.rmtree(SITE, ignore_errors=True)
    STAGE.mkdir(parents=True)
    stage(CHECKOUT, STAGE)
    if status := reference():
        return status
    options = ("--jobs", "2", "--fail-on-warning", "--quiet", "--conf-dir", CHECKOUT / "docs")
    return run("sphinx-build", "--builder", "html", *options, "--doctree-dir", STAGE / ".doctrees", STAGE, SITE)


def lint() -> int:
    """Let antsibull-docs judge the documentation of plugins and roles; returns the exit status."""
    options = ("--plugin-docs", "--skip-rstcheck", "--validate-collection-refs", "self")
    return run("antsibull-docs", "lint-collection-docs", *options, ".")


def main(arguments: list[str]) -> int:
    """Build or judge; returns the exit status."""
    begin = time.monotonic()

    def show(text: str) -> None:
        print(f"[{time.monotonic() - begin:4.0f} s] {text}", flush=True)

    if arguments == ["lint"]:
        status = lint()
        show(
            "plugins and roles are documented as antsibull-docs asks" if not status else "antsibull-docs found problems"
        )
        return status
    status = build()
    show("the site was not built" if status else f"{SITE.relative_to(CHECKOUT)}/index.html")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
