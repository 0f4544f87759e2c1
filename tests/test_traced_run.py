"""The tool that traces one decision."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

from tools.traced_run import Trace

TOOL = Path(__file__).parents[1] / "tools" / "traced_run.py"


def test_a_switch_is_a_call_from_another_file(tmp_path: Path) -> None:
    low = written(tmp_path / "low.py", "def low(x=0):\n    return helper(x)\n\ndef helper(x):\n    return x\n")
    high = written(tmp_path / "high.py", "def high(low):\n    low()\n    return sorted([2, 1], key=low)\n")
    unused = written(tmp_path / "unused.py", "def unused():\n    pass\n")
    with Trace(f"{tmp_path}/") as trace:
        high.high(low.low)
    assert unused.__file__ not in trace.files
    assert {high.__file__, low.__file__} == trace.files
    # `low` is called three times by `high`; `high` by this test, which does not count
    assert (3, 7) == (trace.switches, trace.calls)


def test_a_call_through_a_library_counts_for_the_file_that_called_the_library(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    library = written(tmp_path / "library.py", "def call(f):\n    return f()\n")
    low = written(inside / "low.py", "def low():\n    pass\n")
    high = written(inside / "high.py", "def high(call, low):\n    call(lambda: None)\n    call(low)\n")
    with Trace(f"{inside}/") as trace:
        high.high(library.call, low.low)
    assert (1, 3) == (trace.switches, trace.calls)


def test_the_command_traces_three_runs_the_same_each_time() -> None:
    first, second = traced(), traced()
    assert first == second
    assert ["fits", "preempts", "grows"] == list(first)
    for numbers in first.values():
        assert 30 < numbers["files"] < numbers["switches"] < numbers["calls"]


def traced() -> dict[str, dict[str, int]]:
    done = subprocess.run([sys.executable, TOOL], stdout=subprocess.PIPE, check=True)
    found: dict[str, dict[str, int]] = json.loads(done.stdout)
    return found


def written(file: Path, text: str) -> ModuleType:
    """A module with this text."""
    file.write_text(text)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
