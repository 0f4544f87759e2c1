"""`maar simulate` on a terminal: progress while it runs, and at the end only a table that fits."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from tests.support.patience import wait_until

JOBS = 40
COLUMNS = 80
CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
CURSOR_IS_BACK = "\x1b[?25h"
ERASED = "\x1b[1A\x1b[2K"
"""Terminal code: one line up, and clear it."""


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    file = tmp_path / "trace.csv"
    rows = (f"{10 * i},{100 + i},{1 + i % 4}" for i in range(JOBS))
    file.write_text("timestamp,duration,num_gpus\n" + "\n".join(rows) + "\n")
    return file


def started(trace: Path, *options: str, out: Path | None = None) -> tuple[subprocess.Popen[bytes], int]:
    """`maar simulate` on a terminal, and our end of the terminal; standard output may go to a file."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR")} | {"TERM": "xterm-256color"}
    command = [sys.executable, "-m", "maar.cli.main", "simulate", trace.name, *options]
    with open(out or os.devnull, "wb") as file:
        stdout = theirs if out is None else file.fileno()
        process = subprocess.Popen(
            command, cwd=trace.parent, stdin=theirs, stdout=stdout, stderr=theirs, env=environment
        )
    os.close(theirs)
    return process, ours


def on_a_terminal(trace: Path, *options: str, out: Path | None = None) -> str:
    """All output to the terminal."""
    process, terminal = started(trace, *options, out=out)
    sent = bytearray()
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # on Linux: the other end is closed
            break
        if not part:
            break
        sent += part
    os.close(terminal)
    assert 0 == process.wait(), sent.decode()
    return sent.decode()


def lines_of(text: str) -> list[str]:
    return [line.rstrip() for line in re.split(r"\r\n|\r", CODES.sub("", text))]


@pytest.mark.parametrize("processes", ["1", "2"])
def test_bars_while_it_runs_and_a_clean_table_at_the_end(trace: Path, processes: str) -> None:
    options = ("--policy", "fifo,elastic-tiresias", "--processes", processes)
    bars, table = on_a_terminal(trace, *options).split(CURSOR_IS_BACK)
    shown = lines_of(bars)
    assert any(re.fullmatch(rf"fifo +━+ +0/{JOBS} -:--:--", line) for line in shown)
    last = [line for line in shown if line][-2:]
    assert all(
        re.fullmatch(rf"{name} +━+ {JOBS}/{JOBS} 0:00:\d\d", line)
        for name, line in zip(("fifo", "elastic-tiresias"), last, strict=True)
    )
    assert max(map(len, shown)) <= COLUMNS
    assert table.startswith("\r" + 2 * ERASED), "the bars are taken away"
    lines = lines_of(table)
    assert f"trace.csv: {JOBS} jobs on 64 GPUs" in lines
    assert "━" not in table
    policies = [line.split()[0] for line in lines if line.startswith(("fifo", "elastic"))]
    assert 2 * ["fifo", "elastic-tiresias"] == policies, "two tables, of which none is too wide"
    assert "…" not in table
    assert max(map(len, lines)) <= COLUMNS


def test_bars_do_not_touch_what_is_redirected(trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "runs.json"
    shown = on_a_terminal(trace, "--policy", "fifo", "-o", "json", out=out)
    assert f"{JOBS}/{JOBS}" in shown
    assert [JOBS] == [run["jobs"] for run in json.loads(out.read_text())["runs"]]


def test_a_long_name_leaves_room_for_its_bar(trace: Path, tmp_path: Path) -> None:
    folder = tmp_path / "a-folder-with-a-name-that-is-rather-long"
    folder.mkdir()
    config = folder / "of-the-cluster-in-the-basement.yaml"
    config.write_text("actions: allocate\ntiers: [{plugins: [{name: priority}, {name: gang}]}]\n")
    bars, _ = on_a_terminal(trace, "--config", str(config)).split(CURSOR_IS_BACK)
    last = [line for line in lines_of(bars) if line][-1]
    assert re.fullmatch(rf"…he-cluster-in-the-basement.yaml ━+ {JOBS}/{JOBS} 0:00:\d\d", last)
    assert len(last) <= COLUMNS


def test_who_is_killed_leaves_no_processes(tmp_path: Path) -> None:
    jobs = 20_000
    trace = tmp_path / "trace.csv"
    trace.write_text("timestamp,duration,num_gpus\n" + "".join(f"{i},{100 + i},{1 + i % 8}\n" for i in range(jobs)))
    process, terminal = started(trace, "--policy", "tiresias,elastic-tiresias", "--processes", "2")
    shown = ""
    while re.search(rf"[1-9]\d*/{jobs}", CODES.sub("", shown)) is None:  # until a run has progress
        shown = shown[-1000:] + os.read(terminal, 65536).decode(errors="replace")
    workers = workers_of(process.pid)
    process.kill()
    process.wait()
    os.close(terminal)
    assert 2 == len(workers)
    wait_until(lambda: not any(map(is_alive, workers)), "they do not go on working for nobody")


def workers_of(parent: int) -> list[int]:
    """The child processes that run policies."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [int(pid) for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def is_alive(pid: int) -> bool:
    """Whether the process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
