"""Trace files as commands name them: a path or - for standard input, of any format, recordings among them.

The formats (`maar.sim.traces`) know no files and no controller; here the two meet. `maar trace` and `maar simulate`
read by this. All that can be wrong is a `TraceError`.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from maar.cli.inputs import source_of
from maar.controller.record import MAGIC, RecordedCycle, RecordingError, read_recording
from maar.sim.trace import Trace
from maar.sim.traces.formats import read_trace
from maar.sim.traces.problems import TraceError
from maar.sim.traces.source import Source


def load_trace(file: str, format: str | None = None) -> Trace:
    """The trace in a file; by the format that is named, or by what the file looks like."""
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
    """Those of a recording, which is read from a file of its own: what came by standard input has none."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "recording"
        copy.write_bytes(data)
        try:
            yield from read_recording(copy)
        except RecordingError as error:
            raise TraceError([str(error).replace(str(copy), name)]) from None
