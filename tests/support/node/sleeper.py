"""A worker of a training with a hidden speed-up, in a pod: it sleeps as long as computing would take.

`sleepers` runs it in pods of the image, with the standard library and `maar.report`. Rank 0 trains: it looks at the
number of workers, makes as much progress as they would, and reports each epoch. Workers are counted by locks on files
in a folder that all share, which end with their processes. When the number changes, the training pauses for a moment,
as if it restarted. On SIGTERM rank 0 saves how far it is.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import IO

from maar.report import Reporter

TICK_S = 0.1
STEP_S = 0.002
"""Seconds of a step on one worker: jobs of a category differ in the number of steps, not in their length."""
BATCH = 32
STOPPED = 128 + signal.SIGTERM
"""The exit code after SIGTERM. It is not 0: the Job would count the worker as complete."""


def join(folder: Path, rank: int) -> IO[str]:
    """Be counted, after the last worker of this rank has gone. The file must stay open."""
    file = (folder / f"worker-{rank}").open("w")
    fcntl.flock(file, fcntl.LOCK_EX)
    return file


def count(folder: Path) -> int:
    """How many workers there are. Only rank 0 asks, for the others."""
    return 1 + sum(map(is_locked, set(folder.glob("worker-*")) - {folder / "worker-0"}))


def is_locked(path: Path) -> bool:
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


class Training:
    """Rank 0."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._folder: Path = options.folder
        self._speeds: list[float] = options.speeds
        self._epochs: int = options.epochs
        self._seconds: float = options.seconds
        self._pause: float = options.pause
        self._seed = os.environ.get("MAAR_JOB", "")
        self._state = self._folder / "state.json"
        saved = json.loads(self._state.read_text()) if self._state.exists() else [0, 0.0]
        self._epoch, self._part = int(saved[0]), float(saved[1])
        self._workers = count(self._folder)
        self._reporter = Reporter(
            total_epochs=self._epochs, local_batch_size=BATCH, workers=lambda: self._workers, rank=0
        )

    def run(self) -> None:
        at = time.time()
        goes_on = at + self._pause
        whole, began, first = self._part == 0.0, goes_on, self._workers
        while self._epoch < self._epochs:
            time.sleep(TICK_S)
            now = time.time()
            at = max(at, goes_on)
            rate = self._speeds[self._workers - 1] / (self._seconds * self._noise())
            end = at + (1.0 - self._part) / rate
            if end <= now:
                if whole:  # the duration of a part of an epoch says nothing
                    steps = round(self._seconds / STEP_S / self._workers)
                    self._reporter.report(self._epoch, end - began, began, first, steps)
                self._epoch, self._part, at = self._epoch + 1, 0.0, end
                whole, began, first = True, end, self._workers
            elif at < now:
                self._part, at = self._part + (now - at) * rate, now
            workers = count(self._folder)
            if workers != self._workers:
                self._workers, goes_on = workers, now + self._pause
        (self._folder / "finished.tmp").write_text(str(at))
        (self._folder / "finished.tmp").replace(self._folder / "finished")
        self._reporter.flush()

    def _noise(self) -> float:
        """Epochs differ by a few percent."""
        return random.Random(f"{self._seed} {self._epoch}").lognormvariate(0.0, 0.05)

    def save(self) -> None:
        self._state.write_text(json.dumps((self._epoch, self._part)))


def stop(*_: object) -> None:
    sys.exit(STOPPED)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--rank", type=int, default=int(os.environ.get("JOB_COMPLETION_INDEX", "0")))
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True, help="of an epoch on one worker")
    parser.add_argument("--pause", type=float, required=True, help="seconds, when the number of workers changes")
    parser.add_argument("--speeds", type=float, nargs="+", required=True, help="on 1, 2, 3, ... workers")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, stop)
    with join(options.folder, options.rank):
        if options.rank > 0:
            while not (options.folder / "finished").exists():
                time.sleep(TICK_S)
            return
        training = Training(options)
        try:
            training.run()
        finally:
            training.save()


if __name__ == "__main__":
    main()
