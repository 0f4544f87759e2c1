"""Write the map of folders into the pages that show it.

    python tools/folders.py

The order, the rooms inside a folder and the star come from the import contracts in pyproject.toml; what a folder is
about comes from the first sentence of its docstring. `tests/test_docs.py` checks the pages.
"""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src"
PAGES = ("README.md", "CONTRIBUTING.md", "docs/architecture.md")
MARKER, END = "<!-- folders -->\n", "<!-- /folders -->\n"
HEAD = "src/maar/          a folder imports only from folders above it; * no I/O, no clock, no threads, no randomness"


def contracts() -> dict[str, dict[str, Any]]:
    """The import contracts by name."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    return {contract["id"]: contract for contract in tomllib.loads(text)["tool"]["importlinter"]["contracts"]}


def about(name: str) -> str:
    """The first sentence of a module's docstring, on one line."""
    path = SOURCES.joinpath(*name.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    said = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return " ".join(said.partition("\n\n")[0].split()).partition(". ")[0].removesuffix(".")


def rooms(folder: str, contract: dict[str, Any]) -> str:
    """The folders inside a folder, lowest first; those between commas are of one layer. Modules are left out."""
    place = SOURCES.joinpath(*folder.split("."))
    layers = [re.split(r" [|:] ", layer) for layer in reversed(contract["layers"])]
    found = [", ".join(name for name in layer if (place / name).is_dir()) for layer in layers]
    return " < ".join(filter(None, found))


def folders() -> str:
    """The map, as an indented block."""
    known = contracts()
    inside = {folder: rooms(folder, c) for c in known.values() for folder in c.get("containers", ())}
    pure = set(known["pure"]["source_modules"])
    lines = [HEAD]
    for name in reversed(known["layers"]["layers"]):
        folder = SOURCES.joinpath(*name.split(".")).is_dir()
        short = name.removeprefix("maar.") + ("/" if folder else ".py")
        lines.append(f"{'*' if name in pure else ' '} {short:<15}  {about(name)}")
        if inside.get(name):
            lines.append(f"{'':<19}inside: {inside[name]}")
    return "".join(f"    {line}\n" for line in lines)


def refreshed(text: str) -> str:
    """A page with the current map between its markers; `ValueError` without them."""
    before, marker, rest = text.partition(MARKER)
    _, end, after = rest.partition(END)
    if not marker or not end:
        raise ValueError(f"no `{MARKER.strip()}` and `{END.strip()}`")
    return f"{before}{marker}\n{folders()}\n{end}{after}"


def main() -> None:
    """Refresh the pages, and print the names of changed ones."""
    for name in PAGES:
        page = ROOT / name
        before = page.read_text(encoding="utf-8")
        after = refreshed(before)
        if after != before:
            page.write_text(after, encoding="utf-8")
            print(f"changed: {name}")


if __name__ == "__main__":
    main()
