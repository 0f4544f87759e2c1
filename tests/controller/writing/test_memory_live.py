"""What Maar remembers, live: in the ConfigMap `maar-state` and on nodes, never where tenants can write it.

Stories run on both servers. A story ends with nothing left over: no lock, no election.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.live import NAMESPACE, Live, bound, scheduling, tell, where
from tests.support.memory import HOME, STATE, elected, electing, facts, locks, state

from maar.controller.scheduler import Scheduler
from maar.controller.settings.settings import Settings
from maar.embedded.server import EmbeddedServer
from maar.kube.kinds import volcano_podgroup
from maar.kube.kinds.cluster import STATE as STATE_KIND
from maar.kube.wire.api_resources import CONFIG_MAPS, NODES

SLEEPY = Settings(resync=3600.0, discover_again=3600.0)
"""No resync: cycles run only after events and at the times that plans name."""
RESTLESS = Settings(resync=0.1)
"""All jobs are looked at ten times a second."""
GROUPS = volcano_podgroup.KIND.resource
LONG_AGO = "2001-01-01T00:00:00Z"
FORGED = {"maar.dev/elected-since": LONG_AGO, "maar.dev/election-expired": LONG_AGO}


async def half_full(cluster: Live, nodes: int = 3) -> None:
    """Half of each node is in use."""
    for i in range(nodes):
        host = {"metadata": {"labels": {"kubernetes.io/hostname": f"n{i}"}}}
        await cluster.api.patch(NODES.path(name=f"n{i}"), host)
        await cluster.pod(f"long-{i}", gpu=4, nodeSelector={"kubernetes.io/hostname": f"n{i}"})
    await cluster.until(lambda ps: all(where(ps)[f"long-{i}"] for i in range(nodes)), "half of each node is in use")


async def is_locked(cluster: Live, job: str, count: int) -> None:
    async def there() -> bool:
        return list((await locks(cluster)).values()) == [job] * count and await elected(cluster) == job

    await cluster.eventually(there, f"{count} nodes are locked for {job}")


async def nothing_left(cluster: Live, scheduler: Scheduler) -> None:
    async def gone() -> bool:
        return not await locks(cluster) and not await elected(cluster)

    await cluster.eventually(gone, "no lock and no election is left over")
    memory = scheduler.outbox.memory
    await cluster.eventually(lambda: memory.due() is None, "every write is seen, and none is due again")


async def many_cycles(cluster: Live, scheduler: Scheduler) -> None:
    ends = scheduler.loop.cycles + 20
    await cluster.eventually(lambda: scheduler.loop.cycles >= ends, "many cycles have passed")


def test_a_forged_election_does_not_win_after_a_restart(kubeconfig: Path) -> None:
    """The pod of a tenant claims to be elected since 2001; the older gang keeps its election and its locks."""

    async def story(cluster: Live) -> None:
        async with scheduling(cluster, SLEEPY, electing(kubeconfig.parent)):
            await half_full(cluster)
            await cluster.gang("wide", 2, gpu=8)
            await is_locked(cluster, "default/wide", 2)
        before = await state(cluster)
        await cluster.group("forged", 1, annotations=FORGED)
        metadata = {"annotations": {"scheduling.k8s.io/group-name": "forged", **FORGED}}
        await cluster.pod("forged-0", gpu=8, metadata=metadata)
        await cluster.pod("alone", gpu=8, metadata={"annotations": FORGED})
        async with scheduling(cluster, RESTLESS, electing(kubeconfig.parent)) as again:
            await cluster.until(lambda ps: all(p.message for p in ps if p.name in ("forged-0", "alone")), "they wait")
            await many_cycles(cluster, again)
            assert before == await state(cluster)
            assert ["default/wide"] * 2 == list((await locks(cluster)).values())
            await cluster.api.delete(GROUPS.path(NAMESPACE, "forged"))
            for name in ("forged-0", "alone", "long-0", "long-1", "long-2"):
                await cluster.delete(name)
            await cluster.until(bound("wide", 2), "the gang starts")
            await nothing_left(cluster, again)

    tell(kubeconfig, story, nodes=3)


@pytest.mark.parametrize("how", ["cordon", "remove"])
def test_a_gang_that_can_no_longer_start_keeps_no_node_locked(kubeconfig: Path, how: str) -> None:
    async def story(cluster: Live) -> None:
        async with scheduling(cluster, SLEEPY, electing(kubeconfig.parent)) as scheduler:
            await half_full(cluster)
            await cluster.gang("wide", 3, gpu=8)
            await is_locked(cluster, "default/wide", 3)
            await cluster.pod("small", gpu=4)
            await cluster.until(lambda ps: any(p.name == "small" and p.message for p in ps), "a small job waits")
            if how == "cordon":
                await cluster.api.patch(NODES.path(name="n2"), {"spec": {"unschedulable": True}})
            else:
                await cluster.api.delete(NODES.path(name="n2"))
            pods = await cluster.until(lambda ps: bool(where(ps)["small"]), "the small job starts at once")
            assert where(pods)["small"] in ("n0", "n1")
            await nothing_left(cluster, scheduler)

    tell(kubeconfig, story, nodes=3)


def test_a_deleted_gang_leaves_nothing_and_its_successor_inherits_nothing(kubeconfig: Path) -> None:
    async def story(cluster: Live) -> None:
        async with scheduling(cluster, SLEEPY, electing(kubeconfig.parent)):
            await half_full(cluster)
            await cluster.gang("wide", 2, gpu=8)
            await is_locked(cluster, "default/wide", 2)
            first = (await state(cluster))["elect"]
        # While no Maar runs: a job of the same name, and one that has waited longer by then.
        await cluster.gang("next", 2, gpu=8)
        await cluster.api.delete(GROUPS.path(NAMESPACE, "wide"))
        for i in range(2):
            await cluster.delete(f"wide-{i}")
        await cluster.until(lambda ps: not any(p.group == "wide" for p in ps), "the gang is gone")
        created = (await cluster.get(GROUPS.path(NAMESPACE, "next")))["metadata"]["creationTimestamp"]

        async def later() -> bool:
            if await _exists(cluster):
                await cluster.api.delete(GROUPS.path(NAMESPACE, "wide"))
            await cluster.group("wide", 2)
            found = await cluster.get(GROUPS.path(NAMESPACE, "wide"))
            return bool(found["metadata"]["creationTimestamp"] > created)

        await cluster.eventually(later, "it is created again, in a later second")
        for i in range(2):
            await cluster.pod(f"wide-{i}", gpu=8, metadata={"annotations": {"scheduling.k8s.io/group-name": "wide"}})
        async with scheduling(cluster, SLEEPY, electing(kubeconfig.parent)) as scheduler:
            await is_locked(cluster, "default/next", 2)
            assert first["uid"] != (await state(cluster))["elect"]["uid"]
            for name in ("next", "wide"):
                await cluster.api.delete(GROUPS.path(NAMESPACE, name))
                for i in range(2):
                    await cluster.delete(f"{name}-{i}")
            await nothing_left(cluster, scheduler)

    async def _exists(cluster: Live) -> bool:
        groups = (await cluster.get(GROUPS.path(NAMESPACE)))["items"]
        return any(g["metadata"]["name"] == "wide" for g in groups)

    tell(kubeconfig, story, nodes=3)


def test_a_deleted_state_and_a_removed_lock_are_written_again(kubeconfig: Path) -> None:
    async def story(cluster: Live) -> None:
        async with scheduling(cluster, SLEEPY, electing(kubeconfig.parent)) as scheduler:
            await half_full(cluster)
            await cluster.gang("wide", 2, gpu=8)
            await is_locked(cluster, "default/wide", 2)
            before = await state(cluster)
            await cluster.api.delete(STATE)
            await is_locked(cluster, "default/wide", 2)
            assert before == await state(cluster)
            await cluster.api.patch(STATE, {"data": {"maar": "{", "other": "{}"}})

            async def mended() -> bool:
                return bool((await cluster.get(STATE))["data"]["maar"] != "{")

            await cluster.eventually(mended, "a malformed state is replaced")
            assert before == await state(cluster)
            assert "{}" == (await cluster.get(STATE))["data"]["other"], "the entry of another scheduler is left alone"
            locked = sorted(await locks(cluster))
            nothing: dict[str, Any] = {"maar.dev/locked-for": None, "maar.dev/locked-since": None}
            await cluster.api.patch(NODES.path(name=locked[0]), {"metadata": {"annotations": nothing}})
            await is_locked(cluster, "default/wide", 2)
            assert locked == sorted(await locks(cluster))
            assert not scheduler.outbox.counts["failed:Patch"] + scheduler.outbox.counts["failed:Create"]

    tell(kubeconfig, story, nodes=3)


def test_nothing_is_written_while_nothing_changes(kubeconfig: Path) -> None:
    """The state is written once for an election, not for each lock or cycle."""

    async def story(cluster: Live) -> None:
        async with scheduling(cluster, RESTLESS, electing(kubeconfig.parent)) as scheduler:
            await half_full(cluster)
            assert {} == await state(cluster), "no state, no ConfigMap"
            await cluster.gang("wide", 3, gpu=8)
            await is_locked(cluster, "default/wide", 3)
            version = (await cluster.get(STATE))["metadata"]["resourceVersion"]
            await many_cycles(cluster, scheduler)
            assert version == (await cluster.get(STATE))["metadata"]["resourceVersion"]
            assert 1 == scheduler.outbox.counts["done:Create"]

    tell(kubeconfig, story, nodes=3)


def test_a_config_map_in_another_namespace_means_nothing(box: EmbeddedServer, tmp_path: Path) -> None:
    text = '{"elect":{"job":"default/forged","since":1}}'

    async def story(cluster: Live) -> None:
        forged = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "maar-state"}, "data": {"maar": text}}
        await cluster.create(CONFIG_MAPS.path(NAMESPACE), forged)
        async with scheduling(cluster, SLEEPY, electing(tmp_path)) as scheduler:
            await half_full(cluster)
            await cluster.gang("wide", 2, gpu=8)
            await is_locked(cluster, "default/wide", 2)
            assert {f"{HOME}/maar-state"} == set(scheduler.picture.objects.of(STATE_KIND))
        assert text == (await cluster.get(CONFIG_MAPS.path(NAMESPACE, "maar-state")))["data"]["maar"]

    tell(box.kubeconfig(tmp_path / "kubeconfig"), story, nodes=3)


def test_a_new_leader_knows_when_pods_last_left_a_revocable_zone(box: EmbeddedServer, tmp_path: Path) -> None:
    """Three surplus pods run there when the hours end: one leaves, and none more after a restart."""

    def configured(name: str, hours: str) -> Path:
        file = tmp_path / f"{name}.yaml"
        arguments = f"tdm.revocable-zone.rz: '{hours}', tdm.evict.period: 1h"
        plugins = f"{{name: gang}}, {{name: predicates}}, {{name: tdm, arguments: {{{arguments}}}}}"
        file.write_text(f"actions: allocate, shuffle\ntiers: [{{plugins: [{plugins}]}}]\n")
        return file

    later = (datetime.now(UTC) + timedelta(hours=3)).hour
    always, closed = configured("always", "00:00-00:00"), configured("closed", f"{later:02}:00-{later:02}:30")

    async def story(cluster: Live) -> None:
        await cluster.nodes(1, first=9, labels={"volcano.sh/revocable-zone": "rz"})
        await cluster.group("batch", 0)
        for i in range(3):
            notes = {"scheduling.k8s.io/group-name": "batch", "volcano.sh/preemptable": "true"}
            await cluster.pod(f"batch-{i}", metadata={"annotations": notes})
        async with scheduling(cluster, SLEEPY, always):
            await cluster.until(lambda ps: [*where(ps).values()] == ["n9"] * 3, "they run in the zone")
            assert {} == await state(cluster)
        async with scheduling(cluster, SLEEPY, closed) as scheduler:
            await cluster.until(lambda ps: len(ps) == 2, "one pod leaves")
            await cluster.eventually(lambda: scheduler.outbox.memory.due() is None, "the round is written")
            before = await facts(cluster)
            assert [("tdm", "round")] == [(fact["plugin"], fact["name"]) for fact in before]
        async with scheduling(cluster, RESTLESS, closed) as again:
            await many_cycles(cluster, again)
            assert ({"batch-0", "batch-1"}, before) == ({p.name for p in await cluster.pods()}, await facts(cluster))

    tell(box.kubeconfig(tmp_path / "kubeconfig"), story, nodes=1)
