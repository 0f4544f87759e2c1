"""The one table of formats, and how a trace is read by it.

A format is a module with `NAME`, `ABOUT`, `recognises(source)` and `read(source)`; a new one is a module and a line
here. Where no format is said, the first that recognises the source reads it: the particular ones come first.
"""

from __future__ import annotations

from typing import Protocol

from maar.config.problems import unknown
from maar.sim.trace import Trace
from maar.sim.traces import muri, own, philly, recorded
from maar.sim.traces.problems import TraceError
from maar.sim.traces.source import Source


class Format(Protocol):
    """What a module of a format has."""

    NAME: str
    ABOUT: str

    def recognises(self, source: Source) -> bool:
        """Whether a source looks like it."""

    def read(self, source: Source) -> Trace:
        """The trace, or a `TraceError` with all that is wrong."""


FORMATS: dict[str, Format] = {module.NAME: module for module in (recorded, muri, own, philly)}


def read_trace(source: Source, format: str | None = None) -> Trace:
    """A trace from a source, by the format that is named or else by the one that recognises it."""
    return (recognised(source) if format is None else named(format)).read(source)


def named(name: str) -> Format:
    """The format of that name."""
    if name in FORMATS:
        return FORMATS[name]
    raise TraceError([unknown("format", name, FORMATS)])


def recognised(source: Source) -> Format:
    """The format that a source looks like."""
    for format in FORMATS.values():
        if format.recognises(source):
            return format
    if not source.first:
        raise TraceError([f"{source.name}: no jobs in it"])
    first = source.first if len(source.first) <= 100 else source.first[:97] + "..."
    raise TraceError(
        [f"{source.name}: no known format begins like this: `{first}`; known: {', '.join(sorted(FORMATS))}"]
    )
