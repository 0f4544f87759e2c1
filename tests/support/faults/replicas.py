"""Replicas of Maar: one leads, the others stand by. They are killed, frozen and confused, and start again."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import re
import signal
import sys
import urllib.request
from collections.abc import Sequence
from contextlib import suppress

import msgspec
from tests.support.faults import shaken
from tests.support.faults.witness import Witness
from tests.support.real.cluster import RealCluster
from tests.support.real.processes import free_port

LEASE_S = 3
"""The duration of the lease: short, so that a standby takes over soon after a kill."""
NUMBERS = itertools.count()
"""Every replica has a name and a log of its own, also on a cluster that several tests use."""
ALONE = "--no-leader-elect"
FULL_DISK = 16 * 1024
"""Bytes that fit on a disk that is soon full: some cycles."""
CHECK_EVERY_S = 0.5
ENDED_NORMALLY = re.compile("lost the lease")
"""What the log of a replica says that ended by itself for a good reason."""


class Use(msgspec.Struct, frozen=True):
    """What a process uses."""

    rss_mb: float
    fds: int
    tasks: int


class Replica:
    """One `maar run`."""

    def __init__(self, cluster: RealCluster, name: str, options: Sequence[str], disk: int = 0) -> None:
        self.name = name
        self.port = free_port()
        self.frozen = False
        self.log = cluster.processes.log(name)
        self.clock = cluster.folder / f"{name}.clock"
        self._cluster = cluster
        shaken.step(self.clock, 0.0)
        command = [sys.executable, "-P", shaken.__file__, str(self.clock), str(disk), "run"]
        cluster.processes.start(name, [*command, "--http-port", str(self.port), *options])
        self.pid = cluster.processes.pid(name)

    @property
    def lives(self) -> bool:
        return self._cluster.processes.runs(self.name)

    def end(self, how: signal.Signals = signal.SIGKILL) -> None:
        """End the process and wait until it is gone."""
        if self.frozen:
            self.go_on()
        self._cluster.processes.end(self.name, how)

    def freeze(self) -> None:
        if self.lives:
            self.frozen = True
            os.kill(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        self.frozen = False
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGCONT)

    def says(self, text: str) -> bool:
        return text in self.log.read_text(errors="replace")

    def metrics(self) -> dict[str, float]:
        """Its metrics without labels; none while it does not answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=5) as page:
                lines = page.read().decode().splitlines()
        except OSError:
            return {}
        pairs = (line.split() for line in lines if line and line[0] != "#" and "{" not in line)
        return {pair[0]: float(pair[1]) for pair in pairs}

    def use(self) -> Use | None:
        """What it uses now, if it answers."""
        found = self.metrics()
        if not found:
            return None
        return Use(
            rss_mb=round(found["process_resident_memory_bytes"] / 2**20, 1),
            fds=int(found["process_open_fds"]),
            tasks=int(found["maar_tasks"]),
        )


class Replicas:
    """Some replicas. One that ends is replaced at once, as a kubelet does it."""

    def __init__(self, cluster: RealCluster, options: Sequence[str], witness: Witness, dice: random.Random) -> None:
        self._cluster = cluster
        self._options = ["--lease-duration", str(LEASE_S), *options]
        self._witness = witness
        self._dice = dice
        self._running: list[Replica] = []
        self._shadows: list[Replica] = []
        self.kills = 0
        self.freezes = 0
        self.crashes: list[str] = []
        """Logs of replicas that ended by themselves without a good reason, or that have a traceback."""
        self.full_disks = False
        """Whether new replicas record their cycles on a disk that is soon full."""

    @property
    def running(self) -> list[Replica]:
        return list(self._running)

    def start(self, *more: str) -> Replica:
        """Start one more replica."""
        name = f"maar-{next(NUMBERS)}"
        disk = 0
        if self.full_disks:
            disk = FULL_DISK
            more = (*more, "--record", str(self._cluster.folder / f"{name}.record"))
        replica = Replica(self._cluster, name, [*self._options, *more], disk)
        self._running.append(replica)
        return replica

    def start_shadow(self) -> Replica:
        """Start a replica in shadow mode, which nothing kills. It ends with the others."""
        shadow = Replica(self._cluster, f"shadow-{next(NUMBERS)}", [*self._options, "--dry-run"])
        self._shadows.append(shadow)
        return shadow

    async def keep(self) -> None:
        """Replace every replica that ends, until cancelled."""
        while True:
            for replica in self.running:
                if not replica.lives and not replica.frozen:
                    self._gone(replica)
                    self.start()
            for shadow in self._shadows:
                if not shadow.lives:
                    raise AssertionError(f"{shadow.name} ended: {shadow.log.read_text(errors='replace')[-2000:]}")
            await asyncio.sleep(CHECK_EVERY_S)

    async def kill(self, replica: Replica, how: signal.Signals = signal.SIGKILL) -> None:
        """End a replica by a signal, and start the next one, unless another fault has just done so."""
        if replica not in self._running:
            return
        self.kills += 1
        self._running.remove(replica)
        await asyncio.to_thread(replica.end, how)
        self._check(replica)
        self.start()

    async def freeze(self, replica: Replica, seconds: float) -> None:
        """Stop a replica for a while, and let it go on."""
        self.freezes += 1
        replica.freeze()
        try:
            await asyncio.sleep(seconds)
        finally:
            replica.go_on()

    def leader(self) -> Replica | None:
        """The replica that holds the lease, as the API server stores it; without an election, the first one."""
        if ALONE in self._options:
            return next((r for r in self._running if r.lives), None)
        holders = [(lease.get("spec") or {}).get("holderIdentity") or "" for lease in self._leases()]
        found = [r for r in self._running if r.lives and any(h.endswith(f"_{r.pid}") for h in holders)]
        return found[0] if found else None

    def _leases(self) -> list[dict[str, dict[str, str]]]:
        return list(self._witness.objects["leases"].values())

    def pick(self) -> Replica:
        """The leader twice as often as any other."""
        leader = self.leader()
        among = [r for r in self._running if not r.frozen] or self._running
        return self._dice.choice([*among, *([leader] if leader in among and leader is not None else [])])

    async def stop(self) -> None:
        """End all replicas, and check their logs."""
        ending = [*self._running, *self._shadows]
        self._running, self._shadows = [], []
        await asyncio.gather(*(asyncio.to_thread(replica.end, signal.SIGTERM) for replica in ending))
        for replica in ending:
            self._check(replica)

    def _gone(self, replica: Replica) -> None:
        """A replica ended by itself."""
        text = replica.log.read_text(errors="replace")
        if not ENDED_NORMALLY.search(text):
            self.crashes.append(f"{replica.name} ended by itself: {text[-2000:]}")
        else:
            self._check(replica)
        self._running.remove(replica)
        replica.end()

    def _check(self, replica: Replica) -> None:
        text = replica.log.read_text(errors="replace")
        if "Traceback" in text:
            before, after = text.split("Traceback", 1)
            self.crashes.append(f"{replica.name}: {before[-1000:]}Traceback {after[-3000:]}")
