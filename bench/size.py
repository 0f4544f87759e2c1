"""Measures what Maar needs for clusters of different sizes: `make bench-size`, the table of docs/operations.md.

An embedded API server in a process of its own has nodes with 8 GPUs and ten pods for each of them, in gangs of 8; every
fifth pod waits. `maar run` and `maar web` read them, one after the other. Memory is the highest that the kernel counted
(VmHWM), with the processes that they start; CPU is that of the process, until it is ready and then while nothing
happens. The last line is JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import time
import urllib.request
from pathlib import Path

from tests.support.real.processes import free_port

from bench import processes

SIZES = ((100, 1_000), (1_000, 10_000), (5_000, 50_000))
SETTLE_S, IDLE_S = 20.0, 30.0
"""Time for the first writes, and then to look at the CPU of a cluster where nothing happens. Tuned by hand."""


def family(pid: int) -> list[int]:
    """A process and all that it has started."""
    children = (Path(f"/proc/{pid}/task/{pid}/children").read_text()).split()
    return [pid, *(one for child in children for one in family(int(child)))]


def cpu_seconds(pid: int) -> float:
    """Of a process and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / processes.TICKS


def cpu(pid: int) -> float:
    """CPU seconds of a process and of all that it has started."""
    return sum(map(cpu_seconds, family(pid)))


def memory(pid: int, seconds: float) -> float:
    """The most MB that the processes had together, in some seconds."""
    most, end = 0.0, time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError, IndexError):  # a process has just ended
            most = max(most, sum(map(processes.memory_mb, family(pid))))
        time.sleep(0.5)
    return most


def measure(kubeconfig: Path, port: int, *command: str) -> dict[str, float]:
    """Start a command, wait until it is ready, and look at it while nothing happens."""
    with processes.maar(kubeconfig, *command, "--history", "none") as (process, log):
        processes.while_running(process, lambda: is_ready(port), "it is ready", log)
        if "run" in command:
            processes.while_running(process, lambda: decided(port), "it has decided", log)
        until_ready = cpu(process.pid)
        most = memory(process.pid, SETTLE_S)
        before = cpu(process.pid)
        most = max(most, memory(process.pid, IDLE_S))
        idle = (cpu(process.pid) - before) / IDLE_S
        return {"mb": round(most), "cpu_s_to_first_decision": round(until_ready, 1), "idle_cores": round(idle, 3)}


def is_ready(port: int) -> bool:
    return processes.ask(f"http://127.0.0.1:{port}/readyz")[0] == 200


def decided(port: int) -> bool:
    """Whether the first cycle has ended."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            text = answer.read().decode()
    except OSError:  # it is busy
        return False
    found = re.search(r"^maar_first_cycle_timestamp_seconds (\S+)$", text, re.MULTILINE)
    return found is not None and float(found[1]) > 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, help="only the cluster with this many nodes")
    options = parser.parse_args()
    results = []
    for nodes, pods in (size for size in SIZES if options.nodes in (None, size[0])):
        with processes.cluster("bench.web", nodes=nodes, pods=pods) as kubeconfig:
            ports = free_port(), free_port()
            lease = ["--no-leader-elect", "--lease-duration", "300"]  # the server shares the cores
            run = measure(kubeconfig, ports[0], "run", *lease, "--http-port", str(ports[0]))
            web = measure(kubeconfig, ports[1], "web", "--anonymous", "--port", str(ports[1]))
        results.append({"nodes": nodes, "pods": pods, "run": run, "web": web})
        print(results[-1], flush=True)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
