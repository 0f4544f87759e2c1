"""The documentation site: `make docs` builds it from README.md and docs/ with Sphinx, into build/site.

The pages stay as GitHub shows them. Here is only what GitHub does not need: the navigation, which is the index in
docs/README.md, and a theme that loads nothing from elsewhere. Every warning is an error, so a broken link fails.
"""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx

project = "Maar"
html_title = "Maar"
author = "Maar developers"
extensions = ["myst_parser"]
root_doc = "README"
include_patterns = ["*.md", "docs/*.md"]
exclude_patterns = [".*", "build", "dist", "node_modules"]
myst_heading_anchors = 4  # as GitHub numbers and names them

html_theme = "alabaster"
FONT = "system-ui, sans-serif"  # of the reader's system
html_theme_options = {
    "page_width": "1200px",
    "sidebar_width": "260px",
    "fixed_sidebar": True,
    "show_powered_by": False,
    "font_family": FONT,
    "head_font_family": FONT,
    "font_size": "16px",
}
html_static_path = ["static"]
html_css_files = ["site.css"]
html_extra_path = ["index.html"]
html_sidebars = {"**": ["about.html", "searchbox.html", "navigation.html"]}
html_show_sourcelink = False
html_copy_source = False

SECTION = re.compile(r"^## (.+)\n+((?:\|.*\n)+)", re.MULTILINE)


def navigation(index: str) -> str:
    """The sections of the index as lists of pages that only the navigation shows."""
    lists = ["```{toctree}\n:hidden:\n\ndocs/README\n```\n"]
    listed = {root_doc}
    for title, table in SECTION.findall(index):
        pages = []
        for cell in re.findall(r"^\| (\[.*?) \|", table, re.MULTILINE):
            for target in re.findall(r"\]\(([^)#]+)\.md\)", cell):
                page = target.removeprefix("../") if target.startswith("../") else f"docs/{target}"
                if page not in listed:
                    listed.add(page)
                    pages.append(page)
        lists.append("\n".join(["```{toctree}", f":caption: {title}", ":hidden:", "", *pages, "```", ""]))
    return "\n".join(lists)


def add_navigation(app: Sphinx, name: str, source: list[str]) -> None:
    if name == root_doc:
        source[0] += "\n" + navigation(Path(app.srcdir, "docs", "README.md").read_text(encoding="utf-8"))


def setup(app: Sphinx) -> None:
    app.connect("source-read", add_navigation)
