"""A burst of gangs while things go wrong, on the embedded server: what fits runs, whole, and nothing is bound twice."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from importlib.resources import files
from pathlib import Path

import pytest

from maar.controller.cache import Cache
from maar.controller.run import Scheduler
from maar.embedded.faults import all_binds
from maar.embedded.server import EmbeddedServer
from maar.embedded.store import Event
from maar.kube.errors import AlreadyExists, ApiError, ServerFault, TooManyRequests, Unreachable
from maar.kube.picture import Picture
from maar.kube.resources import PODS
from maar.testing.live import GPU, Live, Seen, connected, scheduling

CRDS = Path(__file__).parents[2] / "deploy" / "crds"
SIZES = [2 + i % 4 for i in range(30)]
"""Of the gangs; every pod wants a quarter of a node."""
NODES = 22
ROOM = 4 * NODES
"""Pods that fit, of 104: some gangs must wait."""


class Witness:
    """Sees every write to pods as it happens, whatever becomes of watches and answers."""

    def __init__(self, server: EmbeddedServer) -> None:
        self.binds: Counter[str] = Counter()
        """By uid: how often a pod got a node."""
        self.moved: list[str] = []
        self.removed: list[str] = []
        self.most: Counter[str] = Counter()
        """By node: the most GPUs ever taken at once."""
        self._taken: dict[str, Counter[str]] = defaultdict(Counter)
        server.call(server.api.store.listeners.append, self._see)

    def _see(self, table: tuple[str, str], event: Event) -> None:
        if table[1] != "pods":
            return
        pod, before = event.item.obj, event.previous.obj if event.previous else {"spec": {}}
        node, old = pod["spec"].get("nodeName", ""), before["spec"].get("nodeName", "")
        if event.type == "DELETED":
            self.removed.append(pod["metadata"]["name"])
        if old and node != old:
            self.moved.append(pod["metadata"]["name"])
        if node and not old:
            self.binds[pod["metadata"]["uid"]] += 1
            gpus = int(pod["spec"]["containers"][0]["resources"]["limits"][GPU])
            self._taken[node][pod["metadata"]["uid"]] = gpus
            self.most[node] = max(self.most[node], self._taken[node].total())


async def stubborn(write: Callable[[], Awaitable[None]]) -> None:
    """A user who tries again until it is done."""
    while True:
        try:
            return await write()
        except AlreadyExists:
            return
        except (Unreachable, ServerFault, TooManyRequests):
            await asyncio.sleep(0.02)


async def create(cluster: Live) -> None:
    """The burst: all gangs at once, the pods of each one after the other."""

    async def gang(number: int, size: int) -> None:
        name = f"g{number}"
        metadata = {"annotations": {"scheduling.k8s.io/group-name": name}}
        await stubborn(lambda: cluster.group(name, size))
        for i in range(size):
            await stubborn(lambda i=i: cluster.pod(f"{name}-{i}", gpu=2, metadata=metadata))  # type: ignore[misc]

    await asyncio.gather(*(gang(number, size) for number, size in enumerate(SIZES)))


def is_settled(pods: list[Seen]) -> bool:
    """That all pods are there, no gang is in part, and none waits that would fit."""
    sizes: Counter[str] = Counter(p.group for p in pods)
    running: Counter[str] = Counter(p.group for p in pods if p.node)
    waiting = [size for group, size in sizes.items() if not running[group]]
    whole = all(sizes[group] == count for group, count in running.items())
    return len(pods) == sum(SIZES) and whole and ROOM - running.total() < min(waiting)


def without_locks(folder: Path) -> Path:
    """Maar's own configuration, but no room is locked for a gang that waits: then a smaller one that fits must run."""
    text = files("maar").joinpath("default.yaml").read_text()
    actions = 'actions: "enqueue, elect, allocate, preempt, reclaim, backfill, reserve"'
    assert actions in text
    place = folder / "maar.yaml"
    place.write_text(text.replace(actions, 'actions: "enqueue, allocate, preempt, reclaim, backfill"'))
    return place


def burst(
    box: EmbeddedServer,
    folder: Path,
    trouble: Callable[[], Awaitable[None]] | None = None,
    *,
    felt: Callable[[Scheduler], int],
) -> None:
    """Create gangs for which there is not enough room, with trouble meanwhile, and look at what came of it.

    `felt` counts the trouble that reached the scheduler: without any the test would show nothing.
    """

    async def story() -> None:
        async with connected(box.kubeconfig(folder / "kubeconfig")) as cluster:
            box.faults.fail_share, share = 0.0, box.faults.fail_share
            await cluster.crds(CRDS)
            await cluster.nodes(NODES, gpu=8)
            box.faults.fail_share = share
            async with scheduling(cluster, config=without_locks(folder)) as scheduler:
                await asyncio.gather(create(cluster), *([] if trouble is None else [trouble()]))
                await until_settled(cluster)
                await asyncio.sleep(0.5)
                assert is_settled(await cluster.pods())
                assert felt(scheduler) > 0

    witness = Witness(box)
    asyncio.run(story())
    assert {1} == set(witness.binds.values())
    assert [] == witness.moved
    assert [] == witness.removed
    assert 8 == max(witness.most.values())


async def until_settled(cluster: Live) -> None:
    async def check() -> bool:
        try:
            return is_settled(await cluster.pods())
        except ApiError:
            return False

    await cluster.eventually(check, "every gang that fits runs, and whole")


def retries(scheduler: Scheduler) -> int:
    return scheduler.executor.counts.retries


def watches(scheduler: Scheduler) -> int:
    """Watches of pods after the first."""
    return scheduler.informers[PODS].counts.watches - 1


def test_watches_are_cut_again_and_again(box: EmbeddedServer, tmp_path: Path) -> None:
    box.faults.cut_watches_every = 0.3
    burst(box, tmp_path, felt=watches)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_fifth_of_all_writes_fails(box: EmbeddedServer, tmp_path: Path, seed: int) -> None:
    box.faults.fail_share = 0.2
    box.faults.seed = seed
    burst(box, tmp_path, felt=retries)


def test_binds_happen_and_their_answers_get_lost(box: EmbeddedServer, tmp_path: Path) -> None:
    box.faults.drop_share = 0.3
    box.faults.drops = all_binds
    burst(box, tmp_path, felt=retries)


def test_the_server_restarts_in_the_middle(box: EmbeddedServer, tmp_path: Path) -> None:
    async def restart() -> None:
        await asyncio.sleep(0.3)
        await asyncio.to_thread(box.call_restart, 0.5)

    burst(box, tmp_path, restart, felt=watches)


def test_a_server_that_comes_later_is_waited_for(box: EmbeddedServer, tmp_path: Path) -> None:
    async def story() -> None:
        async with connected(box.kubeconfig(tmp_path / "kubeconfig")) as cluster:
            await cluster.nodes(1)
            await cluster.pod("early")
            box.faults.refuse = True
            asyncio.get_running_loop().call_later(0.5, setattr, box.faults, "refuse", False)
            async with scheduling(cluster):
                await cluster.until(lambda pods: all(p.node for p in pods), "the pod has a node")

    asyncio.run(story())


def test_pods_that_come_before_the_object_that_owns_them_do_not_start_in_part(
    box: EmbeddedServer, tmp_path: Path
) -> None:
    """Watches are independent: until the object is there, nothing says how many pods there will be."""
    metadata = {"labels": {"training.kubeflow.org/job-name": "train"}}

    async def story() -> None:
        async with connected(box.kubeconfig(tmp_path / "kubeconfig")) as cluster:
            await cluster.nodes(1, gpu=8)
            async with scheduling(cluster):
                for i in range(2):
                    await cluster.pod(f"train-{i}", gpu=8, metadata=metadata)
                    await asyncio.sleep(0.3)
                pods = await cluster.until(lambda ps: all("nodes fit" in p.message for p in ps), "both have reasons")
                assert not any(p.node for p in pods)

    asyncio.run(story())


@pytest.mark.slow
def test_all_of_it_at_once(box: EmbeddedServer, tmp_path: Path) -> None:
    async def restart() -> None:
        for _ in range(2):
            await asyncio.sleep(0.4)
            await asyncio.to_thread(box.call_restart, 0.2)

    box.faults.cut_watches_every = 0.3
    box.faults.fail_share = 0.2
    box.faults.drop_share = 0.2
    box.faults.drops = all_binds
    burst(box, tmp_path, restart, felt=lambda scheduler: min(retries(scheduler), watches(scheduler)))


def test_room_that_comes_while_a_decision_runs_is_not_missed() -> None:
    cache = Cache(Picture(frozenset({"maar"})))
    cache.snapshot(0.0)
    cache.wake_all()
    cache.let_rest(frozenset({"default/waits"}))
    assert not cache.has_resting
    cache.snapshot(1.0)
    cache.let_rest(frozenset({"default/waits"}))
    assert cache.has_resting
