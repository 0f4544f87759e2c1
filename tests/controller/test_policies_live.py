"""Policies that need time, live: reclaim, reservation, cooldowns and promises, on both servers.

`tests/actions` and `tests/plugins` test the decisions without a cluster. Here: the state on objects, restarts,
decisions that no event triggers, and that the cluster settles.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

from tests.support.burst import without_locks
from tests.support.live import EVENTS_PATH, NAMESPACE, Live, Seen, bound, scheduling, tell, where
from tests.support.memory import elected, electing, state

from maar.controller.scheduler import Scheduler
from maar.controller.settings.settings import Settings
from maar.controller.snapshots.cycle import Cycle
from maar.kube.client.errors import NotFound
from maar.kube.kinds import volcano_podgroup
from maar.kube.wire import annotations as known
from maar.kube.wire.api_resources import NODES, PODS
from maar.model.selectors import Requirement, Selector

RESTLESS = Settings(resync=0.1)
"""All jobs are looked at ten times a second, so that many resyncs take little time."""
SLEEPY = Settings(resync=3600.0, discover_again=3600.0)
"""No resync: cycles run only after events and at the times that plans name."""
A_LONG_TIME = 25
"""Number of cycles."""


async def after_a_long_time(cluster: Live, scheduler: Scheduler) -> list[Seen]:
    """The pods, many cycles later."""
    ends = scheduler.loop.cycles + A_LONG_TIME
    await cluster.eventually(lambda: scheduler.loop.cycles >= ends, "many cycles have passed")
    return await cluster.pods()


async def events(cluster: Live, reason: str) -> list[dict[str, Any]]:
    """All events with a reason."""
    return [e for e in (await cluster.get(EVENTS_PATH))["items"] if e["reason"] == reason]


def in_gang(name: str, **more: Any) -> dict[str, Any]:
    return {"annotations": {"scheduling.k8s.io/group-name": name}, **more}


# -- reclaim


def test_a_queue_gives_back_what_is_not_its_own_and_then_nothing_moves(kubeconfig: Path) -> None:
    """Two queues of equal weight; one has all four nodes. Whole gangs are evicted, at most half; none comes back."""

    async def story(cluster: Live) -> None:
        await cluster.queue("research")
        await cluster.queue("production")
        async with scheduling(cluster, RESTLESS) as scheduler:
            for i in range(4):
                await cluster.gang(f"study-{i}", 2, gpu=4, group={"queue": "research"})
            before = await cluster.until(lambda ps: len(ps) == 8 and all(p.node for p in ps), "research has all")
            await cluster.gang("serve", 4, gpu=4, group={"queue": "production"})
            await cluster.until(bound("serve", 4), "production has its share")
            left = await cluster.until(lambda ps: len(ps) == 8, "the victims are gone")
            stay = Counter(p.group for p in left if p.group.startswith("study"))
            assert {2} == set(stay.values()), "whole gangs are evicted, the others stay complete"
            assert 2 == len(stay)
            gone = {p.name for p in before} - {p.name for p in left}
            assert gone == {e["involvedObject"]["name"] for e in await _preempted(cluster, len(gone))}

            for name in sorted(gone):  # As their controllers would do.
                await cluster.pod(name, gpu=4, metadata=in_gang(name.rpartition("-")[0]))
            await cluster.until(lambda ps: all(p.message for p in ps if p.name in gone), "they wait, with a reason")
            evicted = scheduler.outbox.counts["done:Evict"]
            now = {p.uid: p.node for p in await cluster.pods()}
            assert now == {p.uid: p.node for p in await after_a_long_time(cluster, scheduler)}
            assert (evicted, len(gone)) == (scheduler.outbox.counts["done:Evict"], evicted)

    tell(kubeconfig, story, nodes=4)


async def _preempted(cluster: Live, count: int) -> list[dict[str, Any]]:
    """The events on victims, each of which names the beneficiary."""

    async def reported() -> bool:
        return len(await events(cluster, "Preempted")) >= count

    await cluster.eventually(reported, "every victim has an event")
    found = await events(cluster, "Preempted")
    assert all("`default/serve`" in e["message"] for e in found), found
    return found


# -- reservation

INTERVAL = 1.0
"""Seconds between two locks: enough time to stop a scheduler after the first."""


async def locks(cluster: Live) -> dict[str, str]:
    """The nodes that are locked for `default/big`, and since when; once it runs, another job may be elected."""
    return {name: since for name, (job, since) in (await all_locks(cluster)).items() if job == "default/big"}


async def all_locks(cluster: Live) -> dict[str, tuple[str, str]]:
    """The locked nodes, each with its job and since when."""
    nodes = (await cluster.get(NODES.path()))["items"]
    annotations = {n["metadata"]["name"]: n["metadata"].get("annotations", {}) for n in nodes}
    return {
        name: (a[known.LOCKED_FOR], a[known.LOCKED_SINCE]) for name, a in annotations.items() if known.LOCKED_FOR in a
    }


def _moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def test_nodes_are_locked_for_a_gang_that_small_jobs_would_pass_and_a_restart_keeps_them(kubeconfig: Path) -> None:
    """Half of each of four nodes is in use by jobs of equal priority; `big` needs three whole nodes."""

    async def locked(cluster: Live, count: int) -> dict[str, str]:
        async def there() -> bool:
            return len(await locks(cluster)) >= count

        await cluster.eventually(there, f"{count} nodes are locked")
        return await locks(cluster)

    async def story(cluster: Live) -> None:
        async with scheduling(cluster, SLEEPY, electing(kubeconfig.parent)):
            for i in range(4):
                await cluster.pod(f"long-{i}", gpu=4, nodeSelector={"kubernetes.io/hostname": f"n{i}"})
                await cluster.api.patch(
                    NODES.path(name=f"n{i}"), {"metadata": {"labels": {"kubernetes.io/hostname": f"n{i}"}}}
                )
            await cluster.until(lambda ps: all(p.node for p in ps), "half of each node is in use")
            await cluster.gang("big", 3, gpu=8)
            first = await locked(cluster, 1)
            assert 1 == len(first), "nodes are locked one after another"
            elect = (await state(cluster))["elect"]
            assert "default/big" == elect["job"]
            assert elect["since"] <= _moment(min(first.values())) + 1e-3

        assert first == await locks(cluster), "the locks are on objects"
        async with scheduling(cluster, SLEEPY, electing(kubeconfig.parent)) as again:
            three = await locked(cluster, 3)
            assert elect == (await state(cluster))["elect"]
            assert first.items() <= three.items()
            moments = sorted(map(_moment, three.values()))
            assert all(b - a >= INTERVAL - 1e-3 for a, b in itertools.pairwise(moments)), three
            (free,) = {f"n{i}" for i in range(4)} - three.keys()

            await cluster.pod("later", gpu=2)
            await cluster.pod("medium", gpu=4)
            pods = await cluster.until(
                lambda ps: bool(where(ps)["later"]) and any(p.name == "medium" and p.message for p in ps),
                "one fits outside the locked nodes, the other waits",
            )
            assert free == where(pods)["later"]
            (reason,) = {p.message for p in pods if p.name == "medium"}
            assert "nodes with room are kept for a job that has waited longer" in reason
            assert three == await locks(cluster), "no more nodes than needed"
            assert {"default/big"} == {job for job, _ in (await all_locks(cluster)).values()}, "no other job is elected"

            for i in range(4):
                await cluster.delete(f"long-{i}")
            await cluster.until(bound("big", 3), "the gang starts in the end")
            await cluster.eventually(lambda: _unlocked(cluster), "the locks are removed")
            await cluster.until(lambda ps: bool(where(ps)["medium"]), "the waiting pod starts")
            assert 0 == again.outbox.counts["done:Evict"]

    tell(kubeconfig, story, nodes=4)


async def _unlocked(cluster: Live) -> bool:
    return not await locks(cluster) and await elected(cluster) != "default/big"


# -- what time alone changes


def test_a_victim_goes_when_its_cooldown_ends_though_nothing_happens(kubeconfig: Path) -> None:
    """No resync for an hour, and no event: the plan names the time of the next cycle."""
    cooldown = 4.0

    async def story(cluster: Live) -> None:
        await cluster.priority("high", 1000)
        async with scheduling(cluster, SLEEPY):
            young = {"annotations": {"volcano.sh/cooldown-time": f"{cooldown:.0f}s"}}
            await cluster.pod("low", gpu=8, metadata=young)
            await cluster.until(lambda ps: ps[0].phase == "Running")
            started = (await cluster.get(PODS.path(NAMESPACE, "low")))["status"]["startTime"]
            await cluster.pod("high", gpu=8, priorityClassName="high")
            await cluster.until(lambda ps: any(p.name == "high" and p.node for p in ps), "the cooldown has ended")
            ends = _moment(started) + cooldown
            (event,) = await events(cluster, "Preempted")
            assert "`default/high`" in event["message"]
            assert ends <= _moment(event["eventTime"]) + 1.0, "not earlier, to the second"

    tell(kubeconfig, story, nodes=1)


def test_a_group_is_admitted_when_its_promised_wait_ends_though_nothing_happens(kubeconfig: Path) -> None:
    """A group that does not fit is not admitted until its longest wait has passed; then it is admitted in time."""
    wait = 3.0
    path = volcano_podgroup.KIND.resource.path(NAMESPACE, "promised")

    async def phase(cluster: Live) -> str:
        return str((await cluster.get(path)).get("status", {}).get("phase", ""))

    async def admitted(cluster: Live) -> bool:
        return await phase(cluster) == "Inqueue"

    async def story(cluster: Live) -> None:
        async with scheduling(cluster, SLEEPY):
            too_much = {"nvidia.com/gpu": "100"}
            note = {known.SLA[0]: f"{wait:.0f}s"}
            await cluster.group("promised", 1, annotations=note, minResources=too_much)
            created = _moment((await cluster.get(path))["metadata"]["creationTimestamp"])
            await cluster.eventually(lambda: admitted(cluster), "it is admitted")
            assert time.time() >= created + wait

    tell(kubeconfig, story, nodes=1)


# -- waiting jobs are skipped


class Looks:
    """How often each job was looked at and found waiting."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.at: Counter[str] = Counter()
        scheduler.loop.on_cycle.append(self._on_cycle)

    def _on_cycle(self, cycle: Cycle) -> None:
        self.at.update(wait.job for wait in cycle.plan.waiting)


def test_a_waiting_job_is_skipped_until_something_could_help(kubeconfig: Path, tmp_path: Path) -> None:
    """Twenty pods are created and start, one after another; the gang that does not fit is not looked at each time."""

    async def story(cluster: Live) -> None:
        async with scheduling(cluster, SLEEPY, config=without_locks(tmp_path)) as scheduler:
            looks = Looks(scheduler)
            await cluster.gang("huge", 3, gpu=8)
            await cluster.until(lambda ps: all(p.message for p in ps), "huge has its reason")
            asked, cycles = looks.at["default/huge"], scheduler.loop.cycles
            for i in range(20):
                await cluster.pod(f"small-{i}")
                await cluster.until(lambda ps, i=i: bool(where(ps)[f"small-{i}"]))  # type: ignore[misc]
            assert scheduler.loop.cycles >= cycles + 20
            assert asked == looks.at["default/huge"], "new pods cannot help it"
            await cluster.nodes(1, gpu=8, first=7)
            await cluster.until(bound("huge", 3), "a new node helps")

    tell(kubeconfig, story, nodes=2)


def test_all_jobs_are_looked_at_after_the_resync_time(kubeconfig: Path) -> None:
    async def story(cluster: Live) -> None:
        async with scheduling(cluster, Settings(resync=0.2)) as scheduler:
            looks = Looks(scheduler)
            await cluster.pod("huge", gpu=9)
            await cluster.until(lambda ps: bool(ps[0].message), "huge has its reason")
            asked = looks.at["default/huge"]
            await cluster.eventually(lambda: looks.at["default/huge"] >= asked + 5, "it is looked at again and again")

    tell(kubeconfig, story, nodes=1)


def test_a_pod_with_affinity_starts_after_its_target(kubeconfig: Path) -> None:
    """Only the decision itself helps `follower`: the next cycle looks at it again."""
    near = {"labelSelector": {"matchLabels": {"app": "leader"}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}}

    async def story(cluster: Live) -> None:
        await cluster.api.patch(NODES.path(name="n0"), {"metadata": {"labels": {"kubernetes.io/hostname": "n0"}}})
        async with scheduling(cluster, SLEEPY):
            await cluster.pod("follower", affinity=affinity)
            await cluster.until(lambda ps: bool(ps[0].message), "it waits")
            await cluster.pod("leader", metadata={"labels": {"app": "leader"}})
            await cluster.until(lambda ps: {"leader": "n0", "follower": "n0"} == where(ps), "both are bound")

    tell(kubeconfig, story, nodes=1)


# -- Maar's pods and nodes


def test_nodes_become_ours_by_their_labels_and_pods_of_others_count_on_them(kubeconfig: Path) -> None:
    settings = Settings(
        scheduler_names=frozenset({"maar", "volcano"}),
        node_selector=Selector((Requirement("pool", "In", ("ours",)), Requirement("gpu", "In", ("a100",)))),
    )

    async def label(cluster: Live, node: str, **labels: str | None) -> None:
        await cluster.api.patch(NODES.path(name=node), {"metadata": {"labels": labels}}, "merge")

    async def story(cluster: Live) -> None:
        await label(cluster, "n0", pool="ours", gpu="a100")
        await label(cluster, "n1", pool="ours", gpu="t4")
        await cluster.pod("theirs", gpu=3, schedulerName="other", nodeName="n0")
        async with scheduling(cluster, settings):
            # Pods with two scheduler names are one gang, if both names are Maar's.
            await cluster.group("mixed", 2)
            await cluster.pod("mixed-0", gpu=2, metadata=in_gang("mixed"))
            await cluster.pod("mixed-1", gpu=2, schedulerName="volcano", metadata=in_gang("mixed"))
            await cluster.until(bound("mixed", 2))
            await cluster.pod("next", gpu=2, schedulerName="volcano")
            pods = await cluster.until(lambda ps: any(p.name == "next" and p.message for p in ps), "n0 is full")
            expected = {"mixed-0": "n0", "mixed-1": "n0", "theirs": "n0", "next": ""}
            assert expected == where(pods)
            assert "no nodes with enough free room" in next(p.message for p in pods if p.name == "next")
            await label(cluster, "n1", gpu="a100")
            await cluster.until(lambda ps: where(ps)["next"] == "n1", "another node has the label now")
            await label(cluster, "n1", pool=None)
            await cluster.pod("last", gpu=2)
            pods = await cluster.until(
                lambda ps: any(p.name == "last" and p.message for p in ps), "the node has lost the label"
            )
            assert "n1" == where(pods)["next"], "running pods stay"

    tell(kubeconfig, story, nodes=2)


# -- how victims are evicted


def without_budgets(folder: Path) -> Path:
    """Maar's default configuration without the plugin that checks budgets."""
    text, path = files("maar").joinpath("default.yaml").read_text(), folder / "maar.yaml"
    assert "  - name: pdb " in text
    path.write_text(text.replace("  - name: pdb ", "  # - name: pdb "))
    return path


def test_victims_are_evicted_and_deleted_only_where_configured(kubeconfig: Path, tmp_path: Path) -> None:
    """An API server marks pods that the Eviction API evicts, and refuses to evict pods that a budget protects."""
    config = without_budgets(tmp_path)

    async def reason(cluster: Live, name: str) -> list[str]:
        status = (await cluster.get(PODS.path(NAMESPACE, name)))["status"]
        return [c["reason"] for c in status.get("conditions", []) if c["type"] == "DisruptionTarget"]

    async def story(cluster: Live) -> None:
        await cluster.priority("high", 1000)
        stuck = {"finalizers": ["test.dev/wait"], "labels": {"app": "low"}}
        for delete in (False, True):
            async with scheduling(cluster, Settings(delete_victims=delete), config=config) as scheduler:
                await cluster.pod("low", gpu=8, metadata=stuck)
                await cluster.until(lambda ps: bool(where(ps)["low"]))
                await cluster.pod("high", gpu=8, priorityClassName="high")
                await cluster.until(lambda ps: any(p.name == "low" and p.leaving for p in ps), "low is evicted")
                assert ([] if delete else ["EvictionByEvictionAPI"]) == await reason(cluster, "low")
                kind = "Delete" if delete else "Evict"
                await cluster.eventually(lambda: scheduler.outbox.counts[f"done:{kind}"] == 1)  # noqa: B023
                assert not scheduler.outbox.counts[f"done:{'Evict' if delete else 'Delete'}"]
                await cluster.let_go("low")
                await cluster.until(lambda ps: bool(where(ps)["high"]))
                await cluster.delete("high")
                await cluster.until(lambda ps: not ps)

    tell(kubeconfig, story, nodes=1)


def test_a_budget_stops_evictions_and_deletion_goes_past_it(kubeconfig: Path, tmp_path: Path) -> None:
    """With `--delete-victims`; the plugin that checks budgets is not configured here."""
    config = without_budgets(tmp_path)
    budgets = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets"
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "low", "namespace": NAMESPACE},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "low"}}},
    }

    async def story(cluster: Live) -> None:
        await cluster.priority("high", 1000)
        await cluster.create(budgets, budget)
        async with scheduling(cluster, config=config) as scheduler:
            await cluster.pod("low", gpu=8, metadata={"labels": {"app": "low"}})
            await cluster.until(lambda ps: ps[0].phase == "Running")
            await cluster.pod("high", gpu=8, priorityClassName="high")
            await cluster.until(lambda ps: any(p.nominated for p in ps), "an eviction was decided")
            await cluster.eventually(lambda: scheduler.executor.counts.retries >= 3, "the server refuses it for now")
            assert not any(p.leaving for p in await cluster.pods())
            assert [] == await events(cluster, "Preempted"), "no eviction happened"
        async with scheduling(cluster, Settings(delete_victims=True), config=config):
            await cluster.until(
                lambda ps: any(p.name == "high" and p.node for p in ps), "the victim is deleted despite its budget"
            )
            assert 1 == len(await events(cluster, "Preempted"))
        try:
            await cluster.api.delete(f"{budgets}/low")
        except NotFound:
            return

    tell(kubeconfig, story, nodes=1)
