"""`make profile-decide` writes a flame graph."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[1]


@pytest.mark.slow
def test_the_flame_graph_of_a_decision_shows_its_actions(tmp_path: Path) -> None:
    output = tmp_path / "new" / "decide.svg"
    size = ("--nodes", "20", "--jobs", "20", "--seconds", "2")
    command = [sys.executable, "-m", "bench.profile", "decide", *size, "--output", str(output)]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stderr
    assert f"wrote {output}: open it in a browser, and click a box to see only what is above it" in done.stdout
    drawn = output.read_text()
    assert "</svg>" in drawn
    assert "deciding (bench/profile.py:" in drawn
    assert "decide (maar/decide.py:" in drawn
