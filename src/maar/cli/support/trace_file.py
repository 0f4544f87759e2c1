"""Reads trace files for `maar trace` and `maar simulate`: a path or - for standard input, including recordings.

The formats (`maar.sim.traces`) open no files and do not import the controller; this module connects them. All errors
are a `TraceError`.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from maar.cli.support.inputs import source_of
from maar.controller.record import MAGIC, RecordedCycle, RecordingError, read_recording
from maar.sim.trace import Trace
from maar.sim.traces.formats import read_trace
from maar.sim.traces.problems import TraceError
from maar.sim.traces.source import Source


def load_trace(file: str, format: str | None = None) -> Trace:
    """Read a trace in the given format, or in a format detected from the file."""
    name = source_of(file)
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except FileNotFoundError:
        raise TraceError([f"{name}: no such file"]) from None
    except OSError as error:
        raise TraceError([f"{name}: cannot be read: {error.strerror}"]) from None
    if not data.startswith(MAGIC):
        return read_trace(Source(name, data), format)
    return read_trace(Source(name, data, lambda: _cycles(name, data)), format)


def _cycles(name: str, data: bytes) -> Iterator[RecordedCycle]:
    """The cycles of a recording. It is copied to a file first, because standard input is not one."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "recording"
        copy.write_bytes(data)
        try:
            yield from read_recording(copy)
        except RecordingError as error:
            raise TraceError([str(error).replace(str(copy), name)]) from None
