"""A burst of gangs on a real API server while the scheduler is killed again and again, and the server once."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from importlib.resources import files
from pathlib import Path

from maar.kube.errors import AlreadyExists, ApiError, ServerFault, TooManyRequests, Unreachable
from maar.kube.informer import Changed, Delta, Informer, Removed, Replaced
from maar.kube.reading import Broken
from maar.kube.resources import PODS
from maar.kube.wire_pods import Pod
from maar.testing.live import NAMESPACE, Live, Seen, connected
from maar.testing.real import RealCluster

SIZES = [2 + i % 4 for i in range(100)]
"""Of the gangs; every pod wants a quarter of a node."""
NODES = 75
ROOM = 4 * NODES
"""Pods that fit, of 350: some gangs must wait."""
BURST_S = 40.0
PATIENCE_S = 60.0


class Witness:
    """Watches all pods: where each was bound, and how full each node ever was."""

    def __init__(self) -> None:
        self.nodes: dict[str, set[str]] = {}
        """By uid: where a pod was ever seen."""
        self.removed: list[str] = []

    def __call__(self, delta: Delta[Pod]) -> None:
        match delta:
            case Replaced(objects=pods):
                for pod in pods:
                    self._see(pod)
            case Changed(object=pod):
                self._see(pod)
            case Removed(name=name):
                self.removed.append(name)

    def _see(self, pod: Pod | Broken) -> None:
        assert isinstance(pod, Pod)
        if pod.spec.node_name:
            self.nodes.setdefault(pod.metadata.uid, set()).add(pod.spec.node_name)

    def fullest(self) -> int:
        """The most pods that a node ever had: none has left."""
        return max(Counter(node for nodes in self.nodes.values() for node in nodes).values())


async def stubborn(write: Callable[[], Awaitable[None]]) -> None:
    """A user who tries again until it is done."""
    while True:
        try:
            return await write()
        except AlreadyExists:
            return
        except (Unreachable, ServerFault, TooManyRequests):
            await asyncio.sleep(0.1)


async def create(cluster: Live) -> None:
    """The burst: a gang every moment, its pods one after the other."""

    async def gang(number: int, size: int) -> None:
        name = f"g{number}"
        metadata = {"annotations": {"scheduling.k8s.io/group-name": name}}
        await stubborn(lambda: cluster.group(name, size))
        for i in range(size):
            await stubborn(lambda i=i: cluster.pod(f"{name}-{i}", gpu=2, metadata=metadata))  # type: ignore[misc]

    async with asyncio.TaskGroup() as group:
        for number, size in enumerate(SIZES):
            group.create_task(gang(number, size))
            await asyncio.sleep(BURST_S / len(SIZES))


def is_settled(pods: list[Seen]) -> bool:
    """That all pods are there, no gang is in part, and none waits that would fit."""
    sizes: Counter[str] = Counter(p.group for p in pods)
    running: Counter[str] = Counter(p.group for p in pods if p.node)
    waiting = [size for group, size in sizes.items() if not running[group]]
    whole = all(sizes[group] == count for group, count in running.items())
    return len(pods) == sum(SIZES) and whole and ROOM - running.total() < min(waiting)


async def until_settled(cluster: Live) -> None:
    ends = time.monotonic() + PATIENCE_S
    while True:
        try:
            pods = await cluster.pods()
            if is_settled(pods):
                return
        except ApiError:
            pods = []
        running = Counter(p.group for p in pods if p.node)
        assert time.monotonic() < ends, f"not settled: {running.total()} of {ROOM} run: {running}"
        await asyncio.sleep(0.2)


def without_locks(folder: Path) -> Path:
    """Maar's own configuration, but no room is locked for a gang that waits: then a smaller one that fits must run."""
    text = files("maar").joinpath("default.yaml").read_text()
    actions = 'actions: "enqueue, elect, allocate, preempt, reclaim, backfill, reserve"'
    assert actions in text
    place = folder / "maar.yaml"
    place.write_text(text.replace(actions, 'actions: "enqueue, allocate, preempt, reclaim, backfill"'))
    return place


class Child:
    """`maar run`, as a process, alone: whoever comes after it need not wait for a lease."""

    def __init__(self, kubeconfig: Path, config: Path, log: Path) -> None:
        command = [sys.executable, "-m", "maar.cli.main", "run", "--kubeconfig", str(kubeconfig)]
        command += ["--config", str(config), "--http-port", "0", "--no-leader-elect"]
        with log.open("a") as out:
            self._process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)

    def kill(self) -> bool:
        """kill -9; whether it was still alive."""
        alive = self._process.poll() is None
        if alive:
            os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait()
        return alive


def test_a_burst_survives_kills_of_the_scheduler_and_of_the_server(real_cluster: RealCluster, tmp_path: Path) -> None:
    dice = random.Random(4)
    witness = Witness()
    log, config = tmp_path / "maar.log", without_locks(tmp_path)
    kills = 0

    async def killing(stop: asyncio.Event) -> Child:
        """Kill and start again until told to stop; the last one stays."""
        nonlocal kills
        while True:
            child = Child(real_cluster.kubeconfig, config, log)
            if stop.is_set():
                return child
            await asyncio.sleep(dice.uniform(1.0, 3.5))
            kills += child.kill()

    async def trouble_for_the_server() -> None:
        await asyncio.sleep(BURST_S / 2)
        await asyncio.to_thread(real_cluster.restart_api_server)

    async def story() -> None:
        async with connected(real_cluster.kubeconfig) as cluster, connected(real_cluster.kubeconfig) as watching:
            await cluster.nodes(NODES, gpu=8)
            informer = asyncio.create_task(Informer(watching.api, PODS, witness, namespace=NAMESPACE).run())
            stop = asyncio.Event()
            killer = asyncio.create_task(killing(stop))
            try:
                await asyncio.gather(create(cluster), trouble_for_the_server())
            finally:
                stop.set()
                last = await killer
            try:
                await until_settled(cluster)
                await asyncio.sleep(1.0)
                assert is_settled(await cluster.pods())
            finally:
                last.kill()
                informer.cancel()
                await asyncio.gather(informer, return_exceptions=True)

    asyncio.run(story())
    assert kills >= 8
    assert {1} == {len(nodes) for nodes in witness.nodes.values()}
    assert [] == witness.removed
    assert 4 == witness.fullest()
    assert "Traceback" not in log.read_text()
