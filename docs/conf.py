# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings of the documentation site, which ``make docs`` builds (its sources come from tests/docs_check/docs_site.py).

Nothing is fetched: names of other collections lead to their pages on docs.ansible.com by rule, not by an inventory.
"""

from __future__ import annotations

import re

from docutils import nodes

project = "mlcluster.aws"
author = "mlcluster.aws contributors"
copyright = "2026, mlcluster.aws contributors"  # noqa: A001  Sphinx names it so

extensions = ["myst_parser", "sphinx_antsibull_ext"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
root_doc = "index"
nitpicky = True
highlight_language = "yaml"

# The anchors of a code host, so that one link works in both places.
myst_heading_anchors = 6

html_theme = "furo"
html_title = "mlcluster.aws"
html_copy_source = False
html_show_sphinx = False
html_use_index = False

ANSIBLE = "https://docs.ansible.com/ansible/latest/"
LABEL = "ansible_collections."
# Labels of Ansible's own documentation that antsibull-docs names.
PAGES = {
    "action_plugins": "plugins/action.html",
    "ansible_configuration_settings": "reference_appendices/config.html",
    "callback_plugins": "plugins/callback.html",
    "common_return_values": "reference_appendices/common_return_values.html",
}


def address_outside(kind: str, target: str) -> str | None:
    """Where Ansible documents a name: a plugin of another collection, a setting's variable, a page; None for ours."""
    if kind == "envvar" and target.startswith("ANSIBLE_"):
        return f"{ANSIBLE}reference_appendices/config.html#envvar-{target}"
    if target in PAGES:
        return ANSIBLE + PAGES[target]
    parts = target[len(LABEL) :].split(".", 2) if target.startswith(LABEL) else []
    if len(parts) < 3 or parts[:2] == ["mlcluster", "aws"]:
        return None
    page, inside, _anchor = parts[2].partition("__")
    anchor = "#" + re.sub("[^a-z0-9]+", "-", target.lower()) if inside else ""
    return f"{ANSIBLE}collections/{parts[0]}/{parts[1]}/{page}.html{anchor}"


def outside(app, env, node, contnode):
    """Return a reference to another site for a name that is not in this one; Sphinx calls it."""
    address = address_outside(node.get("reftype", ""), node.get("reftarget", ""))
    return nodes.reference("", "", contnode, internal=False, refuri=address) if address else None


def setup(app):
    """Hooks of this site."""
    app.connect("missing-reference", outside)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
