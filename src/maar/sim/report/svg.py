"""A small SVG writer. It knows nothing about simulations.

Written by hand: the report needs three kinds of plot, readable in light and dark mode without scripts or requests, and
a plotting library is larger than all of Maar. Colours are CSS variables, so that one drawing serves both modes. A page
includes `STYLE` once; a separate drawing includes it too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from xml.sax.saxutils import escape, quoteattr

SERIES = 8
"""Number of colours, after Okabe and Ito (safe for colour-blind readers); further series are dashed."""

DASHES = ("", "6 3", "2 3")

STYLE = """
:root{--ink:#1d2530;--quiet:#5b6675;--line:#d5dae1;--paper:#fff;--panel:#f6f7f9;
--s0:#0072b2;--s1:#d55e00;--s2:#009e73;--s3:#b0568c;--s4:#8a6d00;--s5:#3b8fc4;--s6:#6a4fb3;--s7:#4d4d4d}
@media(prefers-color-scheme:dark){:root{--ink:#e4e8ee;--quiet:#9aa5b4;--line:#38414d;--paper:#14181e;--panel:#1b2129;
--s0:#56b4e9;--s1:#f0894a;--s2:#3cc79d;--s3:#e39bc6;--s4:#e6c229;--s5:#8ecdf2;--s6:#b09df0;--s7:#c0c0c0}}
svg{font:12px system-ui,sans-serif;max-width:100%;height:auto}
svg text{fill:var(--ink)}svg .q{fill:var(--quiet)}svg .e{text-anchor:end}svg .m{text-anchor:middle}
svg .g{stroke:var(--line);fill:none}svg .w{stroke:var(--quiet);fill:none}svg .l{fill:none;stroke-width:1.8}
svg .a{fill-opacity:.35}svg .p{fill:var(--paper)}
""" + "".join(f".c{i}{{stroke:var(--s{i})}}.f{i}{{fill:var(--s{i})}}" for i in range(SERIES))
"""Classes: q quiet, e ends at x, m middle, g grid, w waiting, l line, a area, p paper, cN and fN stroke and fill N."""


def number(value: float) -> str:
    """A coordinate, rounded to a tenth, in the shortest form.

    >>> number(12.04), number(3.0), number(-0.01), number(7.25)
    ('12', '3', '0', '7.2')
    """
    text = f"{value:.1f}"
    text = text.removesuffix(".0")
    return "0" if text == "-0" else text


def element(name: str, *children: str, **attributes: str | float) -> str:
    """One element; attribute names lose a trailing `_`, other `_` become `-`."""
    written = "".join(
        f" {key.rstrip('_').replace('_', '-')}={quoteattr(value if isinstance(value, str) else number(value))}"
        for key, value in attributes.items()
        if value != ""
    )
    return f"<{name}{written}>{''.join(children)}</{name}>" if children else f"<{name}{written}/>"


def text(words: str, x: float, y: float, class_: str = "") -> str:
    """A line of text, its baseline at (x, y)."""
    return element("text", escape(words), x=x, y=y, class_=class_)


def title(words: str) -> str:
    """The tooltip of the enclosing element, also for screen readers."""
    return element("title", escape(words))


def line(x1: float, y1: float, x2: float, y2: float, class_: str = "g") -> str:
    return element("path", d=f"M{number(x1)} {number(y1)}L{number(x2)} {number(y2)}", class_=class_)


def path(points: Sequence[tuple[float, float]], class_: str, *, steps: bool = False, dash: str = "") -> str:
    """A line through points: straight, or in steps that keep each y until the next point."""
    return element("path", d=_through(points, steps), class_=class_, stroke_dasharray=dash)


def area(points: Sequence[tuple[float, float]], floor: float, class_: str, *, steps: bool = False) -> str:
    """The area between a line and `floor`."""
    if not points:
        return ""
    down = f"V{number(floor)}H{number(points[0][0])}Z"
    return element("path", d=_through(points, steps) + down, class_=class_)


def _through(points: Iterable[tuple[float, float]], steps: bool) -> str:
    parts: list[str] = []
    for x, y in points:
        if not parts:
            parts.append(f"M{number(x)} {number(y)}")
        elif steps:
            parts.append(f"H{number(x)}V{number(y)}")
        else:
            parts.append(f"L{number(x)} {number(y)}")
    return "".join(parts)


def drawing(width: float, height: float, title: str, about: str, *content: str, id_: str) -> str:
    """A whole drawing, with a title and a description for screen readers."""
    return element(
        "svg",
        element("title", escape(title), id=f"{id_}-t"),
        element("desc", escape(about), id=f"{id_}-d"),
        *content,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {number(width)} {number(height)}",
        width=width,
        height=height,
        role="img",
        aria_labelledby=f"{id_}-t {id_}-d",
    )


def alone(svg: str) -> str:
    """A drawing as a separate file, with the style and a background."""
    head, inner = svg.split(">", 1)
    paper = element("rect", width="100%", height="100%", class_="p")
    title_end = inner.index("</desc>") + len("</desc>")
    return f"{head}>{inner[:title_end]}{element('style', escape(STYLE))}{paper}{inner[title_end:]}\n"


def series(i: int) -> tuple[int, str]:
    """Colour and dashes of the i-th series."""
    return i % SERIES, DASHES[i // SERIES % len(DASHES)]
