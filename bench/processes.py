"""What a process has cost so far, as the kernel counts it."""

from __future__ import annotations

import os
import re
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """CPU seconds of a process, without its children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory_mb(pid: int, field: str = "VmHWM") -> float:
    """Peak memory; with `VmRSS`, memory now."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(rf"{field}:\s+(\d+) kB", text)[0]) / 1024
