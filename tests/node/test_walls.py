"""Nothing is left of what ran in namespaces of its own, also when its starter was killed."""

from __future__ import annotations

import secrets
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.node.needs import CGROUPS
from tests.support.patience import wait_until

PROGRAM = """
import subprocess, sys, time
from pathlib import Path
subprocess.Popen(["sleep", sys.argv[1]], start_new_session=True)
Path("/var/lib/left").write_text("")
Path(sys.argv[2]).write_text("")
while len(sys.argv) > 3:
    time.sleep(0.1)
"""


def start(number: str, ready: Path, *more: str) -> subprocess.Popen[bytes]:
    """Run a program that starts another one and writes files. With one more argument it does not end."""
    command = [sys.executable, "-c", PROGRAM, number, str(ready), *more]
    script = f"import sys; from tests.support.node.walls import run; sys.exit(run({command!r}))"
    return subprocess.Popen([sys.executable, "-c", script])


def left(number: str) -> list[str]:
    """What exists of a program."""
    found = [str(path) for path in Path("/proc").glob("[0-9]*/cmdline") if number in _read(path)]
    found += [str(path) for path in CGROUPS.rglob("maar-node")]
    found += [path for path in ("/var/lib/left",) if Path(path).exists()]
    return found


@pytest.fixture
def number() -> str:
    return str(10**6 + secrets.randbelow(10**6))


def test_nothing_is_left_at_the_end(tmp_path: Path, number: str) -> None:
    ready = tmp_path / "ready"
    assert 0 == start(number, ready).wait()
    assert ready.exists()
    assert [] == left(number)


def test_nothing_runs_when_the_starter_was_killed(tmp_path: Path, number: str) -> None:
    ready = tmp_path / "ready"
    starter = start(number, ready, "for ever")
    wait_until(ready.exists, "the program runs", 60)
    assert left(number)
    starter.send_signal(signal.SIGKILL)
    starter.wait()
    wait_until(lambda: not [one for one in left(number) if "cmdline" in one], "all processes have ended", 60)
    # Cgroups have no owner: the next start removes them.
    assert 0 == start(number, ready).wait()
    assert [] == left(number)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""  # it has just ended
