"""The table of kinds as Markdown: `python tools/kinds_table.py` prints the part of docs/kinds.md between its markers.

It comes from `maar.kube.kinds.SOURCES`, the one table that also drives watches, gangs, resizing and rights.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from maar.kube.kinds import SOURCES
from maar.kube.kinds.kind import GangSource, JobKind, Kind

MARKER, END = "<!-- kinds -->", "<!-- /kinds -->"
HEAD = ("kind", "API", "what is one gang", "elastic by", "suspended and resumed")


def table() -> str:
    """All kinds, in the order in which they win where a pod names several gangs."""
    rows = [HEAD, tuple("---" for _ in HEAD), *map(row, SOURCES)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def row(source: GangSource) -> tuple[str, ...]:
    """The cells of one kind."""
    kind, api = (source.resource.kind, ", ".join(versions(source))) if isinstance(source, Kind) else ("pods", "")
    return kind, api, source.about, *changes(source)


def versions(kind: Kind[Any]) -> Iterator[str]:
    """The versions in which Maar reads a kind."""
    return (f"`{resource.api_version}`" for resource in (kind.resource, *kind.older))


def changes(source: GangSource) -> tuple[str, str]:
    """What Maar changes about a job: its size, and whether it runs."""
    if not isinstance(source, JobKind):
        return "", ""
    if source.write is None:
        return "no", "no"
    return source.bounds or "no", f"yes, with {source.suspends}" if source.suspends else "yes"


if __name__ == "__main__":
    print(table())
