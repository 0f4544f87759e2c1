"""Run a program in namespaces of its own, so that whatever it starts ends with it, and nothing of it is left.

`run` is outside. It starts `main` as the first process of a new process namespace, with its own mounts and network.
When that process ends, the kernel kills all others, and removes mounts, files, network interfaces and firewall rules
with the namespaces. It ends when its program ends, or when `run` dies: then the pipe between them closes. Cgroups have
no owner, so `run` removes them; those that a killed `run` left are removed by the next one.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.support.node.needs import CGROUPS
from tests.support.patience import wait_until

INSIDE = "MAAR_NODE"
"""The environment variable that is set inside."""
CGROUP = "maar-node"
"""The cgroup of all containers."""
ADDRESS = "10.77.0.1"
"""The node's own address. It exists only inside."""
MEMORY = "4g"
"""The most memory for files: all that is written inside, the unpacked images most of all."""
LOCK = Path(tempfile.gettempdir()) / "maar-node.lock"
HIDDEN = ("/etc", "/var/lib", "/var/log", "/run")
"""Where kubelet, containerd and network plugins write whatever their settings are, and tests write names of hosts."""


def run(program: Sequence[str]) -> int:
    """Run a program inside, and return its exit code. One at a time on a machine: the others wait."""
    with LOCK.open("w") as lock, tempfile.TemporaryDirectory(prefix="maar-node-") as folder:
        fcntl.flock(lock, fcntl.LOCK_EX)
        remove_cgroups()
        _make_cgroups()
        unshare = ["unshare", "--cgroup", "--mount", "--net", "--pid", "--fork", "--mount-proc", "--kill-child=KILL"]
        inside = [sys.executable, "-m", "tests.support.node.walls", folder, *program]
        environment = {**os.environ, "TMPDIR": folder}
        command = [*unshare, *inside]
        with subprocess.Popen(command, stdin=subprocess.PIPE, env=environment, preexec_fn=_join_cgroups) as process:
            previous = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the program inside too
            try:
                code = process.wait()
            finally:
                signal.signal(signal.SIGINT, previous)
        remove_cgroups()
        return code if code >= 0 else 128 - code


def remove_cgroups() -> None:
    """Remove the cgroups of containers that are gone."""

    def gone() -> bool:
        # The kernel empties a cgroup a moment after its last process has died.
        roots = [root / CGROUP for root in _hierarchies()]
        for root in filter(Path.is_dir, roots):
            for folder in sorted((path for path in [root, *root.rglob("*")] if path.is_dir()), reverse=True):
                with contextlib.suppress(OSError):
                    folder.rmdir()
        return not any(map(Path.is_dir, roots))

    wait_until(gone, f"cgroups `{CGROUP}` are removed")


def main() -> None:
    """The first process inside: set up, run the program, and wait for every orphan, until the program ends."""
    folder, *command = sys.argv[1:]
    threading.Thread(target=_end_with_the_pipe, daemon=True).start()
    for step in _steps(Path(folder)):
        subprocess.run(step, check=True, stdin=subprocess.DEVNULL)
    _leave_root_of_cgroups()
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    program = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        pid, status = os.wait()
        if pid == program.pid:
            os._exit(os.waitstatus_to_exitcode(status) % 256)


def _hierarchies() -> list[Path]:
    """Where cgroups are mounted: one place for version 2, one for each controller for version 1."""
    if (CGROUPS / "cgroup.procs").is_file():
        return [CGROUPS]
    return [path for path in CGROUPS.iterdir() if (path / "cgroup.procs").is_file() and not path.is_symlink()]


def _make_cgroups() -> None:
    """Make a cgroup for all that runs inside."""
    for root in _hierarchies():
        (root / CGROUP).mkdir(exist_ok=True)
        for setting in ("cpuset.cpus", "cpuset.mems"):  # version 1 lets no process into a cgroup without them
            if (root / setting).is_file():
                (root / CGROUP / setting).write_text((root / setting).read_text())


def _join_cgroups() -> None:
    """Move this process there. A cgroup namespace that it makes then has this cgroup as its root."""
    for root in _hierarchies():
        (root / CGROUP / "cgroup.procs").write_text(str(os.getpid()))


def _enclose_cgroups() -> Iterator[list[str]]:
    """Show only this cgroup and those below it, where all are mounted."""
    for root in _hierarchies():
        yield ["mount", "--bind", str(root / CGROUP), str(root)]


def _leave_root_of_cgroups() -> None:
    """In version 2, a cgroup with others below it that have limits must not have processes of its own."""
    if (CGROUPS / "cgroup.procs").is_file():
        (CGROUPS / "processes").mkdir()
        for pid in (CGROUPS / "cgroup.procs").read_text().split():
            (CGROUPS / "processes" / "cgroup.procs").write_text(pid)


def _steps(folder: Path) -> Iterator[list[str]]:
    yield from _enclose_cgroups()
    yield ["mount", "-t", "tmpfs", "-o", f"mode=755,size={MEMORY}", "tmpfs", str(folder)]
    for hidden in HIDDEN:
        name = hidden.strip("/").replace("/", "-")
        upper, work = folder / name / "upper", folder / name / "work"
        upper.mkdir(parents=True)
        work.mkdir()
        layers = f"lowerdir={hidden},upperdir={upper},workdir={work}"
        yield ["mount", "-t", "overlay", "overlay", "-o", layers, hidden]
    yield ["ip", "link", "set", "lo", "up"]
    yield ["ip", "link", "add", "node0", "type", "bridge"]
    yield ["ip", "address", "add", f"{ADDRESS}/32", "dev", "node0"]
    yield ["ip", "link", "set", "node0", "up"]
    yield ["ip", "route", "add", "default", "dev", "node0"]


def _end_with_the_pipe() -> None:
    """End, and so end everything inside, when the process outside is gone."""
    while os.read(0, 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    main()
