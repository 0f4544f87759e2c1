"""The processes that benchmarks start (a cluster on an embedded API server, and commands of Maar that read it), and
what a process has cost so far, as the kernel counts it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TypeVar

from tests.support.patience import wait_until

T = TypeVar("T")

PATIENCE = 600.0
"""Seconds: the largest clusters take minutes to be made and read."""
WEB = ("web", "--port", "0", "--history", "none", "--anonymous")
TICKS = os.sysconf("SC_CLK_TCK")
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""An installed Maar has its bytecode."""


def while_running(process: subprocess.Popen[bytes], holds: Callable[[], T], what: str, log: Path | None = None) -> T:
    """Wait until a condition is true; an error with the log if the process ends before."""

    def check() -> T:
        assert process.poll() is None, what if log is None else log.read_text()
        return holds()

    return wait_until(check, what, PATIENCE)


@contextmanager
def cluster(module: str, **sizes: int) -> Iterator[Path]:
    """A kubeconfig of the API server that a benchmark serves with `--serve FOLDER`."""
    with tempfile.TemporaryDirectory() as folder:
        given = (f"--{name}={number}" for name, number in sizes.items())
        command = [sys.executable, "-m", module, "--serve", folder, *given]
        with subprocess.Popen(command, stdin=subprocess.PIPE) as server:
            try:
                kubeconfig = Path(folder) / "kubeconfig"
                while_running(server, kubeconfig.exists, "the cluster is made")
                yield kubeconfig
            finally:
                server.kill()


@contextmanager
def maar(kubeconfig: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A command of Maar that reads the cluster, and its log."""
    log = kubeconfig.with_name("log")
    command = [sys.executable, "-m", "maar.cli.main", *arguments, "--kubeconfig", str(kubeconfig)]
    with log.open("w") as out, subprocess.Popen(command, stderr=out, env=ENVIRONMENT) as process:
        try:
            yield process, log
        finally:
            process.terminate()


@contextmanager
def web(kubeconfig: Path) -> Iterator[tuple[int, str]]:
    """A `maar web` that has decided once: its process and its address."""
    with maar(kubeconfig, *WEB) as (process, log):
        serves = re.compile(r"serving at (http://\S+)/\n")
        found = while_running(process, lambda: serves.search(log.read_text()), "maar web serves", log)
        assert found is not None
        while_running(process, lambda: ask(f"{found[1]}/readyz")[0] == 200, "maar web is ready", log)
        yield process.pid, found[1]


def ask(url: str) -> tuple[int, int, float]:
    """Status, bytes and seconds of an answer."""
    begun = perf_counter()
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            return answer.status, len(answer.read()), perf_counter() - begun
    except urllib.error.HTTPError as error:
        with error:
            return error.code, 0, 0.0
    except OSError:
        return 0, 0, 0.0


def cpu_seconds(pid: int) -> float:
    """CPU seconds of a process, without its children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory_mb(pid: int, field: str = "VmHWM") -> float:
    """Peak memory; with `VmRSS`, memory now."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(rf"{field}:\s+(\d+) kB", text)[0]) / 1024
