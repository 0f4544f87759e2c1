"""`maar run` as a child process, for tests that kill and restart it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.support.live import NAMESPACE


class Child:
    """`maar run` as a process with a log file."""

    def __init__(self, kubeconfig: Path, log: Path, *options: str) -> None:
        self.log = log
        command = [sys.executable, "-m", "maar.cli.main", "run", "--kubeconfig", str(kubeconfig)]
        command += ["--http-port", "0", "--lease-namespace", NAMESPACE, *options]
        with log.open("w") as out:
            self._process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def lives(self) -> bool:
        return self._process.poll() is None

    def says(self, text: str) -> bool:
        return text in self.log.read_text()

    def end(self, number: int = signal.SIGKILL, timeout: float = 20.0) -> int:
        """Send a signal, wait until the process is gone, and return its exit code."""
        if self._process.poll() is None:
            os.kill(self.pid, number)
        return self._process.wait(timeout)
