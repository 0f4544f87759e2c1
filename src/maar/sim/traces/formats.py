"""The table of trace formats, and reading a trace with it.

A format is a module with `NAME`, `recognises(source)` and `read(source)`. A new format is a module and an
entry in `FORMATS`. Without an explicit format, the first that recognises the source reads it: specific formats come
first.
"""

from __future__ import annotations

from typing import Protocol

from maar.model.words import unknown
from maar.sim.papers import muri_trace, pollux_trace
from maar.sim.trace import Trace
from maar.sim.traces import own, philly, recorded
from maar.sim.traces.problems import TraceError
from maar.sim.traces.source import Source


class Format(Protocol):
    """The interface of a format module."""

    NAME: str

    def recognises(self, source: Source) -> bool:
        """Whether the source looks like this format."""

    def read(self, source: Source) -> Trace:
        """Read the trace; a `TraceError` lists all problems."""


FORMATS: dict[str, Format] = {module.NAME: module for module in (recorded, muri_trace, own, pollux_trace, philly)}


def read_trace(source: Source, format: str | None = None) -> Trace:
    """Read a trace in the given format, or in the first format that recognises the source."""
    return (recognised(source) if format is None else named(format)).read(source)


def named(name: str) -> Format:
    if name in FORMATS:
        return FORMATS[name]
    raise TraceError([unknown("format", name, FORMATS)])


def recognised(source: Source) -> Format:
    for format in FORMATS.values():
        if format.recognises(source):
            return format
    if not source.first:
        raise TraceError([f"{source.name}: contains no jobs"])
    first = source.first if len(source.first) <= 100 else source.first[:97] + "..."
    raise TraceError(
        [f"{source.name}: unknown format, first line: `{first}`; known formats: {', '.join(sorted(FORMATS))}"]
    )
