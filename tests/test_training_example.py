"""The training in examples/training: workers come, go and are killed, and the result is that of one undisturbed run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.patience import wait_until

SCRIPT = Path(__file__).parents[1] / "examples" / "training" / "train.py"
SMALL = ["--samples=8192", "--batch=1024", "--hidden=64"]
FOR_EVER = 1_000_000
STOPPED = 128 + signal.SIGTERM
ENVIRONMENT = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}

Worker = subprocess.Popen[str]


class Run:
    """One training in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.workers: list[Worker] = []

    def start(self, rank: int, epochs: int = FOR_EVER) -> Worker:
        command = [sys.executable, str(SCRIPT), f"--folder={self.folder}", *SMALL, f"--epochs={epochs}"]
        worker = subprocess.Popen(
            command,
            env={**ENVIRONMENT, "JOB_COMPLETION_INDEX": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.workers.append(worker)
        return worker

    def saved(self) -> dict[str, Any]:
        if not (self.folder / "checkpoint.npz").exists():
            return {"epoch": 0, "epochs": []}
        with np.load(self.folder / "checkpoint.npz") as saved:
            rest: dict[str, Any] = json.loads(str(saved["rest"]))
            return {**rest, "weights": saved["weights"]}

    def epochs(self) -> list[dict[str, Any]]:
        epochs: list[dict[str, Any]] = self.saved()["epochs"]
        return epochs

    def await_workers(self, count: int) -> None:
        """Wait until some epochs have ended with this number of workers."""
        begin = len(self.epochs())

        def trained() -> bool:
            return len([e for e in self.epochs()[begin:] if e["workers"] == count]) >= 3

        wait_until(trained, f"epochs with {count} workers", 60)


@pytest.fixture
def new_run(tmp_path: Path) -> Iterator[Callable[[str], Run]]:
    runs: list[Run] = []

    def make(name: str) -> Run:
        runs.append(Run(tmp_path / name))
        return runs[-1]

    yield make
    for run in runs:
        for worker in run.workers:
            worker.kill()
            worker.communicate()


def end(worker: Worker, how: signal.Signals = signal.SIGTERM) -> int:
    worker.send_signal(how)
    worker.communicate(timeout=60)
    return worker.returncode


@pytest.mark.slow
def test_workers_come_and_go_and_the_result_is_the_same(new_run: Callable[[str], Run]) -> None:
    run = new_run("elastic")
    first, second = run.start(0), run.start(1)
    run.await_workers(2)
    third = run.start(2)
    run.await_workers(3)
    assert STOPPED == end(third)
    run.await_workers(2)
    assert STOPPED == end(second)
    run.await_workers(1)
    assert STOPPED == end(first)  # all are gone, as when the job is suspended
    before = run.saved()

    total = before["epoch"] + 5
    resumed, helper = run.start(0, total), run.start(1, total)
    output, _ = resumed.communicate(timeout=60)
    helper.communicate(timeout=60)
    assert (0, 0) == (resumed.returncode, helper.returncode)
    assert output.startswith(f"begin at epoch {before['epoch']}, step {before['step']}\n")
    late = run.start(1, total)  # a worker that comes after the end has nothing to do
    late.communicate(timeout=60)
    assert 0 == late.returncode

    epochs = run.epochs()
    assert list(range(total)) == [entry["epoch"] for entry in epochs]
    assert {1, 2, 3} <= {entry["workers"] for entry in epochs}
    losses = [entry["loss"] for entry in epochs]
    assert sorted(losses, reverse=True) == losses

    alone = new_run("alone")
    alone.start(0, total).communicate(timeout=60)
    np.testing.assert_allclose(alone.saved()["weights"], run.saved()["weights"], rtol=0.01, atol=0.001)


@pytest.mark.slow
def test_a_killed_coordinator_loses_nothing_beyond_the_last_checkpoint(new_run: Callable[[str], Run]) -> None:
    run = new_run("killed")
    first = run.start(0)
    worker = run.start(1)
    run.await_workers(2)
    assert -signal.SIGKILL == end(first, signal.SIGKILL)
    before = run.saved()

    total = before["epoch"] + 20
    again = run.start(0, total)
    output, _ = again.communicate(timeout=60)
    worker.communicate(timeout=60)  # it has found the new coordinator, or the end
    assert (0, 0) == (again.returncode, worker.returncode)
    assert output.startswith(f"begin at epoch {before['epoch']}, step {before['step']}\n")
    assert before["epochs"] == run.epochs()[: before["epoch"]]
    assert list(range(total)) == [entry["epoch"] for entry in run.epochs()]


def test_a_killed_worker_is_replaced_by_the_coordinator(new_run: Callable[[str], Run]) -> None:
    run = new_run("worker")
    run.start(0)
    worker = run.start(1)
    run.await_workers(2)
    assert -signal.SIGKILL == end(worker, signal.SIGKILL)
    run.await_workers(1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--show"], "no checkpoint in `{folder}`"),
        (["--batch=9", "--samples=8"], "--batch: expected a number from 1 to 8, got 9"),
    ],
)
def test_bad_arguments_get_an_answer(tmp_path: Path, arguments: list[str], message: str) -> None:
    command = [sys.executable, str(SCRIPT), f"--folder={tmp_path}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert 0 != done.returncode
    assert message.format(folder=tmp_path) in done.stderr
