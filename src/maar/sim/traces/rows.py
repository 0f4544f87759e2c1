"""Rows and cells of a table, with errors that name line and column.

A format reads cells from a row. A bad cell is noted and replaced by a default, the row is no longer `good`, and reading
continues. At the end, one error lists all problems.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from maar.model.words import unknown
from maar.sim.trace import Trace, TraceJob
from maar.sim.traces.problems import TraceError
from maar.sim.traces.source import Source, header

LARGEST = 2**31 - 1
"""Largest accepted number of workers, GPUs or epochs."""


@dataclass(slots=True)
class Row:
    """One line, with its cells by column."""

    line: int
    cells: Mapping[str, object]
    problems: list[tuple[int, str]]
    """The problems of all rows."""
    titles: Mapping[str, str] = field(default_factory=dict)
    good: bool = True

    def wrong(self, column: str, expected: str, got: object) -> None:
        shown = "nothing" if got in (None, "") else f"`{got}`"
        self.problem(f"{self.title(column)}: expected {expected}, got {shown}")

    def title(self, column: str) -> str:
        """The name of a column in the file."""
        return self.titles.get(column, column)

    def problem(self, what: str) -> None:
        self.good = False
        self.problems.append((self.line, what))

    def has(self, column: str) -> bool:
        return self.cells.get(column) not in (None, "")

    def text(self, column: str, default: str | None = None) -> str:
        """A text; an empty cell is invalid unless there is a default."""
        value = self.cells.get(column)
        if isinstance(value, str) and value:
            return value
        if isinstance(value, int | float) and not isinstance(value, bool):
            return str(value)
        if value not in (None, "") or default is None:
            self.wrong(column, "a text", value)
        return default or ""

    def whole(self, column: str, least: int | None, default: int | None = None, most: int = LARGEST) -> int:
        """A whole number between `least`, if given, and `most`."""
        if default is not None and not self.has(column):
            return default
        found = _whole(self.cells.get(column))
        if found is None or not (-most if least is None else least) <= found <= most:
            expected = "a whole number" if least is None else f"a whole number of at least {least}"
            beyond = found is not None and found > most
            self.wrong(column, f"{expected} and at most {most}" if beyond else expected, self.cells.get(column))
            return least or 0
        return found

    def number(self, column: str, least: float = -math.inf, scale: float = 1.0) -> float:
        """A number of at least `least`, divided by `scale` (1000 for milliseconds)."""
        number = _number(self.cells.get(column))
        if not least <= number < math.inf or number == -math.inf:
            expected = "a number" if least == -math.inf else f"a number of at least {least:g}"
            self.wrong(column, expected, self.cells.get(column))
            return 0.0
        return number / scale

    def maybe(self, column: str, least: float) -> float | None:
        """A number, or None if the cell is empty."""
        return self.number(column, least) if self.has(column) else None


def _number(value: object) -> float:
    """The value as a float; NaN if it is not a number."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return math.nan
    try:
        return math.nan if isinstance(value, str) and "_" in value else float(value)
    except (ValueError, OverflowError):
        return math.nan


def _whole(value: object) -> int | None:
    """The value as an int, exact beyond the precision of floats; None if it is not a whole number."""
    if isinstance(value, str) and "_" not in value:
        try:
            return int(value)
        except ValueError:
            pass
    number = _number(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return int(number) if math.isfinite(number) and number.is_integer() else None


class Rows:
    """The rows of one source. After reading all of them, `trace` returns the trace or raises all problems."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._problems: list[tuple[int, str]] = []
        self._lines: dict[str, int] = {}
        self._jobs: list[TraceJob] = []

    def csv(
        self, needs: Sequence[str], names: Mapping[str, str] | None = None, known: Sequence[str] = ()
    ) -> Iterator[Row]:
        """Rows of a CSV file with a header that has the needed columns; lines with `#` may come first.

        `names` maps other names of a column to ours; the first of two columns with the same meaning counts. If `known`
        is given, an unknown or repeated column is an error.
        """
        skipped, table = _without_notes(self._source.text)
        reader = csv.reader(table, strict=True)
        columns: list[str] = []
        titles: dict[str, str] = {}
        ended = skipped
        try:
            for cells in reader:
                number, ended = ended + 1, skipped + reader.line_num
                if not any(cell.strip() for cell in cells):
                    continue
                if not columns:
                    columns = self._columns(header(cells), needs, names or {}, number)
                    titles = dict(zip(columns, map(str.strip, cells), strict=True))
                    if known:
                        self._refuse(header(cells), known, number)
                    continue
                row = Row(number, dict(zip(columns, cells, strict=False)), self._problems, titles)
                if len(cells) != len(columns):
                    row.problem(f"expected {len(columns)} columns, got {len(cells)}")
                    continue
                yield row
        except csv.Error as error:
            self._problems.append((skipped + reader.line_num, f"expected cells separated by commas: {error}"))

    def json_lines(self) -> Iterator[Row]:
        """Rows of a file with one JSON object per line."""
        for i, line in enumerate(self._source.text.split("\n"), 1):
            if not line.strip():
                continue
            try:
                cells = msgspec.json.decode(line)
            except msgspec.DecodeError as error:
                self._problems.append((i, f"expected a JSON object, got `{_short(line)}` ({error})"))
                continue
            if not isinstance(cells, dict):
                self._problems.append((i, f"expected a JSON object, got `{_short(line)}`"))
                continue
            yield Row(i, cells, self._problems)

    def add(self, row: Row, job: TraceJob, named: str = "name") -> None:
        """Add a job if its row is good; `named` is the column with its name."""
        known = self._lines.setdefault(job.name, row.line)
        if known != row.line:
            row.problem(f"{row.title(named)}: expected a unique name, got `{job.name}`, which is also in line {known}")
        elif row.good:
            self._jobs.append(job)

    def check(self) -> None:
        """Raise all problems, if there are any."""
        if self._problems:
            # A format may read one column of all rows before the next column.
            in_order = sorted(self._problems, key=lambda problem: problem[0])
            raise TraceError([f"{self._place(line)}: {what}" for line, what in in_order])

    def trace(self) -> Trace:
        self.check()
        if not self._jobs:
            raise TraceError([f"{self._source.name}: contains no jobs"])
        return Trace(tuple(self._jobs), self._source.name)

    def _columns(self, cells: tuple[str, ...], needs: Sequence[str], names: Mapping[str, str], line: int) -> list[str]:
        columns: list[str] = []
        for i, cell in enumerate(cells):
            name = names.get(cell, cell)
            columns.append(name if name not in columns else f"{cell} ({i})")
        missing = [need for need in needs if need not in columns]
        if missing:
            problem = f"missing columns: {', '.join(missing)}; got {', '.join(cells)}"
            raise TraceError([f"{self._place(line)}: {problem}"])
        return columns

    def _refuse(self, columns: Sequence[str], known: Sequence[str], line: int) -> None:
        problems = [unknown("column", column, known) for column in columns if column not in known]
        problems += [f"expected column `{column}` once, got it {columns.count(column)} times"
                 for column in known if columns.count(column) > 1]  # fmt: skip
        if problems:
            raise TraceError([f"{self._place(line)}: {what}" for what in problems])

    def _place(self, line: int) -> str:
        return f"{self._source.name}:{line}"


def _without_notes(text: str) -> tuple[int, io.StringIO]:
    """The number of lines at the top that begin with `#`, and the text after them."""
    stream = io.StringIO(text, newline="")
    skipped, start = 0, 0
    while stream.readline().lstrip().startswith("#"):
        skipped, start = skipped + 1, stream.tell()
    stream.seek(start)
    return skipped, stream


def _short(line: str) -> str:
    return line if len(line) <= 60 else line[:57] + "..."
