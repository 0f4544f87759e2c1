"""The processes of a real cluster (`cluster`): starts them, checks them, and ends each by its own id."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.support.patience import wait_until

# These ports are below the range that kernels use for outgoing connections. In that range, a port that is free
# now may belong to a client a moment later.
PORTS = range(20_000, 32_000)

# Reads `+pid` and `-pid`. When the pipe closes, for any reason, it kills the remaining groups and removes the folder.
_GUARD = """
import os, shutil, signal, sys
groups = set()
for line in sys.stdin:
    (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
for group in groups:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass
shutil.rmtree(sys.argv[1], ignore_errors=True)
"""


class StartFailed(Exception):
    """A process ended or did not respond. The message ends with its log."""


class Processes:
    """The processes of one cluster. Each has its own process group and log, and ends with this program."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._guard = subprocess.Popen(
            [sys.executable, "-c", _GUARD, str(folder)], stdin=subprocess.PIPE, start_new_session=True
        )

    def start(self, name: str, command: Sequence[str | Path]) -> None:
        if self.runs(name):
            raise RuntimeError(f"already running: {name}")
        with self.log(name).open("ab") as log:
            process = subprocess.Popen(
                command, cwd=self._folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self._running[name] = process
        self._tell_guard("+", process.pid)

    def end(self, name: str, how: signal.Signals = signal.SIGKILL) -> None:
        """End a process and wait until it is gone, because it may hold its port until then."""
        if (process := self._running.pop(name, None)) is None:
            return
        if process.poll() is None:
            os.killpg(process.pid, how)
        process.wait()
        self._tell_guard("-", process.pid)

    def end_all(self) -> None:
        for name in reversed(list(self._running)):
            self.end(name)
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        self._guard.wait()

    def runs(self, name: str) -> bool:
        return name in self._running and self._running[name].poll() is None

    def pid(self, name: str) -> int:
        return self._running[name].pid

    def log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def check(self, *names: str) -> None:
        """Raise an error with the end of the log if one of these processes has ended."""
        for name in names:
            if not self.runs(name):
                process = self._running.get(name)
                raise StartFailed(f"{name} ended: code {process and process.returncode}\n{self.tail(name)}")

    def await_answer(self, name: str, answers: Callable[[], bool], *needs: str) -> None:
        """Wait until a process responds. Raises an error with its log if it, or one it needs, ends or is too slow."""

        def ready() -> bool:
            self.check(*needs, name)
            return answers()

        try:
            wait_until(ready, f"{name} answers")
        except TimeoutError as late:
            raise StartFailed(f"{late}\n{self.tail(name)}") from late

    def tail(self, name: str, lines: int = 30) -> str:
        if not self.log(name).is_file():
            return f"--- no log of {name}"
        with self.log(name).open(errors="replace") as log:
            return f"--- last lines of {self.log(name).name}\n" + "".join(deque(log, lines))

    def _tell_guard(self, sign: str, pid: int) -> None:
        assert self._guard.stdin is not None
        self._guard.stdin.write(f"{sign}{pid}\n".encode())
        self._guard.stdin.flush()


def free_port() -> int:
    """A free port on 127.0.0.1."""
    for port in random.sample(PORTS, 100):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise StartFailed(f"no free port found in {PORTS.start} to {PORTS.stop}")


def listens(port: int) -> bool:
    """Whether a process accepts connections on a port of 127.0.0.1."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
