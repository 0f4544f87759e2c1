"""Packages of others, as pip would install them: files outside of Maar."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent


def install(folder: Path, name: str, code: str, plugins: dict[str, str]) -> None:
    """Write a package with one module and the entry points of its plugins."""
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.py").write_text(dedent(code))
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = (f"{plugin} = {name}:{what}\n" for plugin, what in plugins.items())
    (info / "entry_points.txt").write_text("[maar.plugins]\n" + "".join(lines))
