"""`make test-node` says what a machine lacks, and skips; in CI that is a failure. `make test` collects none of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(("ci", "code", "word"), [("", 0, "skipped"), ("true", 1, "failed")])
def test_what_is_missing_is_named(ci: str, code: int, word: str) -> None:
    environment = {**os.environ, "CI": ci, "PATH": "/nonexistent"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.node"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert code == done.returncode
    first, *lacks = done.stderr.splitlines()
    assert f"tests on a real node: {word}, the machine lacks:" == first
    assert "  a package of the system: `containerd`" in lacks
    assert ("  root: a node makes namespaces, mounts and cgroups" in lacks) == (os.geteuid() != 0)


def test_other_runs_do_not_collect_the_tests_on_a_node() -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n", "0", "tests/node"]
    environment = {name: value for name, value in os.environ.items() if name != "MAAR_NODE"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert pytest.ExitCode.NO_TESTS_COLLECTED == done.returncode, done.stdout + done.stderr
