"""Draw docs/figures/demo.svg: one act of a real `maar demo` as a terminal shows it.

    python tools/demo_picture.py

It runs the demo with short pauses (about twenty seconds), keeps the beginning of one act and writes it as SVG. The
picture loads no fonts and names no host.
"""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME

from maar.cli.demo import Sayer

PICTURE = Path(__file__).parents[1] / "docs" / "figures" / "demo.svg"
ACT = 8
"""The act in which elastic jobs shrink for a rigid gang."""
WIDTH = 108
TEMPLATE = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: monospace; font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ font-family: sans-serif; font-size: 18px; font-weight: bold; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g>
</g>
</svg>
"""
"""The template of Rich without its web fonts."""


def demo_output() -> str:
    """The whole output of one demo."""
    command = [sys.executable, "-m", "maar.cli.main", "demo", "--speed", "50", "--no-page"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def act(text: str, number: int) -> list[str]:
    """The lines of an act, up to the end of its first picture of the nodes."""
    begin = text.index(f"── {number} ")
    words, nodes = text[begin:].split("\n\n")[:2]
    return [*words.splitlines(), "", *nodes.splitlines()]


def draw(lines: list[str]) -> str:
    """The lines as an SVG of a terminal."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    say = Sayer(console)
    for line in lines:
        say(line)
    return console.export_svg(title="maar demo", theme=SVG_EXPORT_THEME, code_format=TEMPLATE, unique_id="maar-demo")


def main() -> None:
    """Run the demo and write the picture."""
    PICTURE.write_text(draw(act(demo_output(), ACT)), encoding="utf-8")
    print(f"wrote {PICTURE.name}: {PICTURE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
