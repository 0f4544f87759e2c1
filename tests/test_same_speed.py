"""The tool that compares how fast two versions decide."""

import json
import subprocess
import sys
from pathlib import Path

TOOL = Path(__file__).parents[1] / "tools" / "same_speed.py"


def test_both_versions_take_turns() -> None:
    asked = [sys.executable, str(TOOL), "--lines", "impossible", "--turns", "2"]
    done = subprocess.run(asked, stdout=subprocess.PIPE, check=True, text=True)
    *lines, last = done.stdout.splitlines()
    assert ["an impossible gang"] == [line[:45].strip() for line in lines]
    found = json.loads(last)
    assert ["impossible"] == list(found)
    assert all(figure > 0 for both in found.values() for figure in both)
