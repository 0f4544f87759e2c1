"""`make test-node` says what a machine lacks, and skips; in CI that is a failure. `make test` collects none of it."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from tests.support.node.needs import lacking_cgroups, lacking_rights

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


def as_nobody(answers: Connection, folder: Path) -> None:
    os.setuid(65534)
    answers.send((lacking_rights(), lacking_cgroups(folder)))


def test_root_and_cgroups_that_cannot_be_written_are_named() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    ours, theirs = multiprocessing.Pipe()
    with tempfile.TemporaryDirectory() as made:  # pytest's own folders are closed to other users
        folder = Path(made)
        folder.chmod(0o755)
        (folder / "cgroup.controllers").write_text("cpu io memory pids\n")
        process = multiprocessing.get_context("fork").Process(target=as_nobody, args=(theirs, folder))
        process.start()
        rights, cgroups = ours.recv()
        process.join()
    assert ["root: a node makes namespaces, mounts and cgroups"] == rights
    assert [f"cgroups that can be written: `{folder}` is read-only"] == cgroups


def test_cgroup_controllers_are_named(tmp_path: Path) -> None:
    def named(*controllers: str) -> list[str]:
        return [f"the cgroup controller `{name}` below `{tmp_path}`" for name in controllers]

    assert named("cpu", "memory", "pids") == lacking_cgroups(tmp_path)
    for name in ("cpu", "pids"):  # version 1: a folder for each
        (tmp_path / name).mkdir()
        (tmp_path / name / "cgroup.procs").touch()
    assert named("memory") == lacking_cgroups(tmp_path)
    (tmp_path / "cgroup.controllers").write_text("cpu io\n")  # version 2
    assert named("memory", "pids") == lacking_cgroups(tmp_path)
    (tmp_path / "cgroup.controllers").write_text("cpu io memory pids\n")
    assert [] == lacking_cgroups(tmp_path)


def test_other_runs_do_not_collect_the_tests_on_a_node() -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n", "0", "tests/node"]
    environment = {name: value for name, value in os.environ.items() if name != "MAAR_NODE"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert pytest.ExitCode.NO_TESTS_COLLECTED == done.returncode, done.stdout + done.stderr
