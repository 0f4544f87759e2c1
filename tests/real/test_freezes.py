"""Leaders that are frozen for longer than their lease continue in the middle of a burst with evictions and resizes.

Gangs are ReplicaSets, so that evicted pods come back. Elastic Jobs grow and shrink in what gangs leave. An owner
changes all running pods of low priority all the time. MAAR_FREEZES is the number of rounds.

In another story the leader is frozen while its decided evictions, by uid alone, are on their way. They arrive after its
successor has carried them out, and pods of the same names run again.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.support.burst import PER_NODE
from tests.support.elastic_story import CONFIG
from tests.support.faults.witness import Witness, Wrong, watching
from tests.support.holding import HoldingProxy
from tests.support.live import NAMESPACE, Live, Seen, bound, connected
from tests.support.real.cluster import RealCluster
from tests.support.scheduler import Child

from maar.kube.client.errors import NotFound
from maar.kube.kinds import batchjob, volcano_podgroup
from maar.kube.wire.api_resources import EVENTS, LEASES, PODS

FREEZES = int(os.environ.get("MAAR_FREEZES", "5"))
NODES = 8
LEASE_S = 3
CONTROLLERS = ("replicaset-controller", "job-controller", "garbage-collector-controller")
SETS = f"/apis/apps/v1/namespaces/{NAMESPACE}/replicasets"
JOBS = batchjob.KIND.resource.path(NAMESPACE)
ELASTIC = ("e0", "e1")
MOST = 8
"""Gangs that exist at once. They need about 1.5 times the cluster."""


def template(annotations: dict[str, str], **spec: Any) -> dict[str, Any]:
    limits = {"limits": {"nvidia.com/gpu": "2"}}
    container = {"name": "c", "image": "train", "resources": limits}
    whole = {"containers": [container], "schedulerName": "maar", "terminationGracePeriodSeconds": 0, **spec}
    return {"metadata": {"labels": {"app": "x"}, "annotations": annotations}, "spec": whole}


class Load:
    """Gangs that come and go, and elastic Jobs that stay."""

    def __init__(self, live: Live, dice: random.Random) -> None:
        self.sizes: dict[str, int] = {}
        """The sizes of the existing gangs."""
        self._live = live
        self._dice = dice
        self._number = 0

    async def begin(self) -> None:
        await self._live.nodes(NODES, gpu=2 * PER_NODE)
        await self._live.priority("high", 1000)
        for name in ELASTIC:
            bounds = {"maar.dev/min-workers": "1", "maar.dev/max-workers": "12"}
            spec = {"parallelism": 1, "completions": 99, "template": template({}, restartPolicy="Never")}
            head = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "annotations": bounds}}
            await self._live.create(JOBS, head | {"spec": spec})

    async def turn(self) -> None:
        """One more gang, every second one with a high priority, and one less if there are many."""
        self._number += 1
        name, size = f"g{self._number}", self._dice.randint(3, 8)
        priority: dict[str, Any] = {"priorityClassName": "high"} if self._number % 2 else {}
        await self._live.group(name, size, **priority)
        made = template({"scheduling.k8s.io/group-name": name}, **priority)
        made["metadata"]["labels"]["app"] = name
        spec = {"replicas": size, "selector": {"matchLabels": {"app": name}}, "template": made}
        head = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name}}
        await self._live.create(SETS, head | {"spec": spec})
        self.sizes[name] = size
        if len(self.sizes) > MOST:
            gone = self._dice.choice(list(self.sizes)[:-2])
            del self.sizes[gone]
            for path in (f"{SETS}/{gone}", volcano_podgroup.KIND.resource.path(NAMESPACE, gone)):
                await self._live.api.delete(path)

    async def never_rests(self) -> None:
        """Change all running pods of low priority, again and again."""
        number = 0
        while True:
            number += 1
            note = {"metadata": {"annotations": {"example.com/number": str(number)}}}
            low = [p for p in await self._live.pods() if p.node and p.group and int(p.group[1:]) % 2 == 0]
            patches = (self._live.api.patch(PODS.path(NAMESPACE, pod.name), note) for pod in low)
            await asyncio.gather(asyncio.sleep(0.1), *patches, return_exceptions=True)

    async def decided(self) -> bool:
        """Whether the newest gang runs in part or knows why it waits."""
        newest = list(self.sizes)[-1]
        pods = [pod for pod in await self._live.pods() if pod.group == newest]
        return any(pod.node for pod in pods) or (len(pods) == self.sizes[newest] and all(pod.reason for pod in pods))

    def is_whole(self, pods: list[Seen]) -> bool:
        """Whether all pods exist and no gang runs in part."""
        there, run = Counter(p.group for p in pods if p.group), Counter(p.group for p in pods if p.group and p.node)
        return there == self.sizes and all(count == self.sizes[name] for name, count in run.items())


class Replicas:
    """A leader and a standby."""

    def __init__(self, live: Live, kubeconfig: Path, folder: Path, least: int = 0) -> None:
        """`least`: if fewer live, another one is started, as a Deployment does it."""
        self._live, self._kubeconfig, self._folder, self._least = live, kubeconfig, folder, least
        self._config = folder / "maar.yaml"
        self._config.write_text(CONFIG)
        self.children: list[Child] = []

    def start(self, kubeconfig: Path | None = None) -> Child:
        log = self._folder / f"maar-{len(self.children)}.log"
        options = ("--config", str(self._config), "--history", "none", "--lease-duration", str(LEASE_S))
        self.children.append(Child(kubeconfig or self._kubeconfig, log, *options))
        return self.children[-1]

    async def leader(self) -> Child:
        """The process that holds the lease."""
        found: list[Child] = []

        async def leads() -> bool:
            if sum(child.lives for child in self.children) < self._least:
                self.start()  # on a busy machine, one may lose the lease that no test has taken from it
            try:
                lease = await self._live.get(LEASES.path(NAMESPACE, "maar"))
            except NotFound:
                return False
            holder = str(lease["spec"].get("holderIdentity") or "")
            found[:] = [child for child in self.children if child.lives and holder.endswith(f"_{child.pid}")]
            return bool(found)

        await self._live.eventually(leads, "a process leads")
        return found[0]

    async def succeeded(self, old: Child) -> None:
        async def other() -> bool:
            return await self.leader() is not old

        await self._live.eventually(other, "another process leads")


@pytest.mark.slow
def test_frozen_leaders_that_continue_do_no_harm(real_cluster: RealCluster, tmp_path: Path) -> None:
    dice = random.Random(11)
    bound: list[bool] = []
    """For each round, whether the successor bound pods while the old leader was frozen."""

    async def freeze(live: Live, load: Load, replicas: Replicas, witness: Witness) -> None:
        old = await replicas.leader()
        binds = len(witness.nodes)

        async def begun() -> bool:
            # Gangs of high priority may fill the cluster: then nothing is bound, and the newest is told so.
            return len(witness.nodes) > binds or await load.decided()

        for _ in range(3):
            await load.turn()
        await live.eventually(begun, "the burst has begun")
        await asyncio.sleep(dice.uniform(0.0, 0.1))
        os.kill(old.pid, signal.SIGSTOP)
        try:
            await load.turn()
            await replicas.succeeded(old)
            binds = len(witness.nodes)
            await load.turn()
            await live.eventually(begun, "the successor has decided")
            bound.append(len(witness.nodes) > binds)
        finally:
            os.kill(old.pid, signal.SIGCONT)
        replicas.start()
        await live.eventually(lambda: not old.lives, "the old leader has ended")
        assert old.says("lost the lease")

    async def story() -> None:
        async with connected(real_cluster.kubeconfig) as live, watching(real_cluster) as seen:
            load, replicas = Load(live, dice), Replicas(live, real_cluster.kubeconfig, tmp_path, least=2)
            try:
                await load.begin()
                await replicas.leader()
                restless = asyncio.create_task(load.never_rests())
                try:
                    for _ in range(FREEZES):
                        await freeze(live, load, replicas, seen.witness)
                    await live.until(load.is_whole, "no gang is in part")
                    assert not restless.done()
                finally:
                    restless.cancel()
                    await asyncio.gather(restless, return_exceptions=True)
                assert any(bound), "a freeze was in the middle of a burst"
                assert {"Preempted", "Resized"} <= await _reasons(live), "there were evictions and resizes"
                sizes = [await _size(live, name) for name in ELASTIC]
                assert all(1 <= size <= 12 for size in sizes)
            finally:
                for child in replicas.children:
                    child.end()
            await seen.caught_up()
            logs = "".join(child.log.read_text() for child in replicas.children)
            assert "Traceback" not in logs
            seen.witness.check(but=[Wrong.LOST])  # the users delete gangs
            assert PER_NODE == seen.witness.most

    real_cluster.start_controller_manager(CONTROLLERS)
    asyncio.run(story())


@pytest.mark.slow
def test_decided_evictions_of_a_frozen_leader_are_carried_out_by_its_successor_and_late_copies_do_nothing(
    real_cluster: RealCluster, tmp_path: Path
) -> None:
    """The beneficiary goes while the leader is frozen. New pods of the same names run before its requests arrive."""
    size, nodes = 4, 4

    async def round_of(live: Live, number: int, replicas: Replicas, proxy: HoldingProxy) -> None:
        old = replicas.start(proxy.kubeconfig(tmp_path / f"kubeconfig-{number}", real_cluster.token))
        assert await replicas.leader() is old
        hers, mine = f"hers{number}", f"mine{number}"
        await live.gang(hers, size, gpu=8)
        await live.until(bound(hers, size))
        before = {pod.name: pod.uid for pod in await live.pods()}
        proxy.restless = proxy.holds_by_uid = True
        await live.gang(mine, 1, gpu=8, priorityClassName="high")
        await live.eventually(lambda: proxy.held["eviction"] == size, "all victims are decided, and on their way")
        notes = (await live.get(LEASES.path(NAMESPACE, "maar")))["metadata"]["annotations"]
        decided = json.loads(notes["maar.dev/evictions"])["evict"][PODS.path(NAMESPACE)]
        assert before == {name: uid for name, (uid, _) in decided.items()}
        os.kill(old.pid, signal.SIGSTOP)
        try:
            await live.delete(f"{mine}-0")
            successor = replicas.start()
            await replicas.succeeded(old)
            await live.until(lambda ps: not {pod.uid for pod in ps} & set(before.values()), "the victims are gone")
            assert successor.says(f"carrying out {size} evictions that were decided")
            note = {"annotations": {"scheduling.k8s.io/group-name": hers}}
            for name in before:
                await live.pod(name, gpu=8, metadata=note)
            await live.until(bound(hers, size), "new pods of the same names run")
            after = {pod.name: pod.uid for pod in await live.pods()}
        finally:
            os.kill(old.pid, signal.SIGCONT)
        assert [409] * size == await proxy.let_through(), "they are for pods of other uids"
        await live.eventually(lambda: not old.lives, "the old leader has ended")
        assert old.says("lost the lease")
        pods = await live.pods()
        assert after == {pod.name: pod.uid for pod in pods if pod.node and not pod.leaving}
        for name in before:
            await live.delete(name)
        await live.until(lambda ps: not ps, "the round is over")
        successor.end(signal.SIGTERM)

    async def story() -> None:
        async with connected(real_cluster.kubeconfig) as live, watching(real_cluster) as seen:
            replicas = Replicas(live, real_cluster.kubeconfig, tmp_path)
            try:
                await live.nodes(nodes, gpu=8)
                await live.priority("high", 1000)
                for number in range(FREEZES):
                    async with HoldingProxy(real_cluster.server, real_cluster.ca) as proxy:
                        await round_of(live, number, replicas, proxy)
            finally:
                for child in replicas.children:
                    child.end()
            await seen.caught_up()
            assert not any(child.says("Traceback") for child in replicas.children)
            seen.witness.check(but=[Wrong.LOST])  # the users delete gangs

    real_cluster.start_kwok()
    asyncio.run(story())


async def _reasons(live: Live) -> set[str]:
    return {event["reason"] for event in (await live.get(EVENTS.path(NAMESPACE)))["items"]}


async def _size(live: Live, name: str) -> int:
    return int((await live.get(f"{JOBS}/{name}"))["spec"]["parallelism"])
