"""The table of kinds in the documentation is the one that Maar works by."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.kinds_table import END, HEAD, MARKER, table

from maar.kube.kinds import SOURCES
from maar.kube.kinds.kind import Kind

PAGE = Path(__file__).parents[3] / "docs" / "kinds.md"


def test_the_documentation_lists_all_kinds() -> None:
    if not PAGE.is_file():
        pytest.skip("there is no page docs/kinds.md yet")
    _, marker, rest = PAGE.read_text().partition(MARKER)
    assert marker, f"no marker `{MARKER}` in docs/kinds.md"
    assert table() == rest.partition(END)[0].strip(), "print it with `python tools/kinds_table.py`"


def test_each_kind_is_one_row_with_all_cells() -> None:
    head, line, *rows = table().splitlines()
    assert len(SOURCES) == len(rows)
    assert {len(HEAD) + 1} == {row.count("|") for row in (head, line, *rows)}
    assert all(source.about for source in SOURCES)


def test_maar_may_write_notes_for_the_owner_on_each_kind() -> None:
    """The annotation `maar.dev/why` is on the object that she submitted."""
    assert [] == [str(kind) for kind in SOURCES if isinstance(kind, Kind) and "patch" not in kind.writes.get("", ())]
