"""Leading with a lease, on the embedded server and a real one: take-over, a lost lease, changed pods, foreign binds."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.support.live import NAMESPACE, Live, bound, scheduling, tell, where

from maar.controller.main import Options, elections, has_ended, identity, lead_all, lease_name
from maar.controller.scheduler import Scheduler
from maar.controller.settings.config_file import ConfigFile
from maar.controller.settings.settings import Settings
from maar.embedded.http.faults import all_binds
from maar.embedded.server import EmbeddedServer
from maar.kube.client.errors import Conflict, Invalid
from maar.kube.kinds import batchjob
from maar.kube.kinds.cluster import PODS as PODS_KIND
from maar.kube.kinds.elastic import Kept
from maar.kube.kinds.kind import WantedState, json_patch, merge
from maar.kube.wire.api_resources import LEASES, PODS
from maar.kube.wire.decoding import decode_json
from maar.kube.wire.pods import Pod
from maar.kube.write.executor import Bind as WriteBind
from maar.kube.write.executor import Delete, Evict
from maar.kube.write.fence import CONDITION, fence
from maar.kube.write.intents import Intents
from maar.model.plan import Bind, Plan
from maar.web.actor_metrics import metrics_of

LEASE = LEASES.path(NAMESPACE, "maar")


@asynccontextmanager
async def leading(
    cluster: Live, names: frozenset[str] = frozenset({"maar"})
) -> AsyncIterator[tuple[Scheduler, asyncio.Task[None]]]:
    """A scheduler that leads by its leases, as `maar run` starts it."""
    options = Options(settings=Settings(scheduler_names=names), lease_namespace=NAMESPACE, lease_seconds=3)
    intents = Intents()
    scheduler = Scheduler(cluster.api, options.settings, ConfigFile(None), intents=intents)
    await scheduler.sync()
    task = asyncio.create_task(lead_all(elections(cluster.api, intents, options), scheduler.lead))
    try:
        yield scheduler, task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await scheduler.close()


async def notes(cluster: Live, path: str = LEASE) -> dict[str, str]:
    found: dict[str, str] = (await cluster.get(path))["metadata"].get("annotations", {})
    return found


async def fences(cluster: Live, pod: str) -> list[str]:
    """The messages of the fences of a pod."""
    conditions = (await cluster.get(PODS.path(NAMESPACE, pod)))["status"].get("conditions") or []
    return [c["message"] for c in conditions if c["type"] == CONDITION]


async def put_lease(cluster: Live, holder: str, *, seconds: int = 1, **annotations: str) -> None:
    named = {f"maar.dev/{key}": value for key, value in annotations.items()}
    head = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
    body = {"metadata": {"name": "maar", "namespace": NAMESPACE, "annotations": named}}
    spec = {"spec": {"holderIdentity": holder, "leaseDurationSeconds": seconds}}
    await cluster.api.create(LEASES.path(NAMESPACE), head | body | spec)


def test_a_new_leader_fences_what_the_lease_names_before_it_decides(kubeconfig: Path) -> None:
    async def story(cluster: Live) -> None:
        for name in ("a", "b"):
            await cluster.pod(name, gpu=100)
        pods = json.dumps({PODS.path(NAMESPACE): ["a", "gone"]})
        await put_lease(cluster, "dead_0_0", epoch="4", intents=pods)
        async with leading(cluster) as (scheduler, _):
            await cluster.eventually(lambda: scheduler.loop.cycles > 0, "it decides")
            (message,) = await fences(cluster, "a")
            assert message.startswith("epoch 5, 20")
            assert [] == await fences(cluster, "b")
            await cluster.eventually(lambda: _has_no_intents(cluster), "what is fenced is dropped")
            assert "5" == (await notes(cluster))["maar.dev/epoch"]
            assert 2 == scheduler.informers[PODS].counts.lists, "the pods are listed after the fences"
            await cluster.gang("runs", 2, gpu=8)
            await cluster.until(bound("runs", 2))
            await cluster.eventually(lambda: _has_no_intents(cluster), "what is settled is dropped")

    tell(kubeconfig, story)


def test_a_new_leader_lists_elastic_jobs_as_well_as_pods(box: EmbeddedServer, tmp_path: Path) -> None:
    """How many workers count for the limit of a queue depends on the size, and watches of two kinds are not ordered."""

    async def story(cluster: Live) -> None:
        jobs = batchjob.KIND.resource
        template = {"spec": {"containers": [{"name": "c"}], "restartPolicy": "Never", "schedulerName": "maar"}}
        metadata = {"name": "grows", "annotations": {"maar.dev/max-workers": "4"}}
        spec = {"parallelism": 1, "suspend": True, "template": template}
        head = {"apiVersion": "batch/v1", "kind": "Job"}
        await cluster.create(jobs.path(NAMESPACE), head | {"metadata": metadata, "spec": spec})
        await put_lease(cluster, "dead_0_0", epoch="4")
        async with leading(cluster) as (scheduler, _):
            await cluster.eventually(lambda: scheduler.loop.cycles > 0, "it decides")
            lists = {str(resource): informer.counts.lists for resource, informer in scheduler.informers.items()}
            assert {"pods", "jobs.batch"} == {resource for resource, count in lists.items() if count == 2}

    tell(box.kubeconfig(tmp_path / "kubeconfig"), story)


def test_intents_that_cannot_be_read_mean_that_everything_gets_a_fence(box: EmbeddedServer, tmp_path: Path) -> None:
    """Somebody has changed the annotation: any pod or elastic job of Maar's may have been in it."""

    async def story(cluster: Live) -> None:
        await cluster.pod("a", gpu=100)
        await cluster.pod("b", gpu=1)
        await cluster.api.bind(NAMESPACE, "b", (await cluster.get(PODS.path(NAMESPACE, "b")))["metadata"]["uid"], "n0")
        await cluster.pod("other", gpu=1, schedulerName="other")
        jobs = batchjob.KIND.resource.path(NAMESPACE)
        template = {"spec": {"containers": [{"name": "c"}], "restartPolicy": "Never", "schedulerName": "maar"}}
        for name, elastic in (("grows", {"maar.dev/max-workers": "4"}), ("rigid", {})):
            metadata = {"name": name, "annotations": elastic}
            spec = {"parallelism": 1, "template": template}
            head = {"apiVersion": "batch/v1", "kind": "Job"}
            await cluster.create(jobs, head | {"metadata": metadata, "spec": spec})
        await put_lease(cluster, "dead_0_0", epoch="4", intents='{"/api/v1')
        async with leading(cluster) as (scheduler, _):
            await cluster.eventually(lambda: scheduler.loop.cycles > 0, "it decides")
            assert await _are_fenced(cluster, "a", "b")
            assert [] == await fences(cluster, "other")
            assert "epoch 5" == (await notes(cluster, f"{jobs}/grows"))["maar.dev/fenced"].partition(",")[0]
            assert "maar.dev/fenced" not in await notes(cluster, f"{jobs}/rigid")
            await cluster.eventually(lambda: _has_no_intents(cluster), "the annotation is Maar's again")

    tell(box.kubeconfig(tmp_path / "kubeconfig"), story)


async def _has_no_intents(cluster: Live) -> bool:
    return "maar.dev/intents" not in await notes(cluster)


def test_a_first_leader_lists_once(box: EmbeddedServer, tmp_path: Path) -> None:
    async def story(cluster: Live) -> None:
        async with leading(cluster) as (scheduler, _):
            await cluster.eventually(lambda: scheduler.loop.cycles > 0, "it decides")
            assert 1 == scheduler.informers[PODS].counts.lists

    tell(box.kubeconfig(tmp_path / "kubeconfig"), story)


def test_every_bind_is_announced_before_it_is_sent(box: EmbeddedServer, tmp_path: Path) -> None:
    """The server fails every bind, so that all intents stand."""

    async def story(cluster: Live) -> None:
        box.faults.fails, box.faults.fail_share, box.faults.fail_codes = all_binds, 1.0, (429,)
        async with leading(cluster) as (scheduler, _):
            await cluster.gang("a", 2, gpu=8)
            await cluster.eventually(lambda: scheduler.executor.counts.retries > 1, "binds were sent")
            assert {PODS.path(NAMESPACE): ["a-0", "a-1"]} == json.loads((await notes(cluster))["maar.dev/intents"])
            box.faults.clear()
            await cluster.until(bound("a", 2))

    tell(box.kubeconfig(tmp_path / "kubeconfig"), story)


def test_a_bind_without_an_answer_is_settled_by_a_fence(box: EmbeddedServer, tmp_path: Path) -> None:
    async def story(cluster: Live) -> None:
        box.faults.drops, box.faults.drop_next = all_binds, 2
        async with leading(cluster):
            await cluster.gang("a", 2, gpu=8)
            await cluster.until(bound("a", 2))
            await cluster.eventually(lambda: _are_fenced(cluster, "a-0", "a-1"), "both have a fence")

    tell(box.kubeconfig(tmp_path / "kubeconfig"), story)


async def _are_fenced(cluster: Live, *names: str) -> bool:
    return all([await fences(cluster, name) for name in names])


def test_nothing_is_written_after_the_lease_is_lost(kubeconfig: Path) -> None:
    async def story(cluster: Live) -> None:
        async with leading(cluster) as (scheduler, task):
            await cluster.gang("a", 1, gpu=8)
            await cluster.until(bound("a", 1))
            await cluster.eventually(lambda: scheduler.executor.pending == 0)
            await cluster.api.patch(LEASE, {"spec": {"holderIdentity": "another"}})
            await asyncio.wait_for(task, 30)
            before = await cluster.versions()
            scheduler.cache.snapshot(time.time())
            await cluster.gang("b", 1, gpu=8)
            scheduler.loop.trigger()
        written = {name for name, version in (await cluster.versions()).items() if before.get(name) != version}
        assert {"b", "b-0"} == {name.rpartition("/")[2] for name in written}, "only what the test created"

    tell(kubeconfig, story)


def test_a_gang_of_which_one_pod_has_changed_is_decided_again_as_a_whole(kubeconfig: Path) -> None:
    """After the decision, one pod says that it needs a share of a GPU: it cannot run, so none of its gang may start."""

    async def story(cluster: Live) -> None:
        await cluster.gang("a", 4, gpu=4)
        async with watching(cluster, Settings(in_flight=1)) as scheduler:
            await cluster.eventually(lambda: _sees(scheduler, 4), "all pods are seen")
            change = {"metadata": {"annotations": {"gpu-fraction": "0.5"}}}
            await cluster.api.patch(PODS.path(NAMESPACE, "a-0"), change)
            plan = Plan(bind=tuple(Bind(f"{NAMESPACE}/a-{i}", f"n{i // 2}") for i in range(4)))
            scheduler.cache.assume(plan)
            scheduler.outbox.send(scheduler.cache.publish(1, plan, time.time()))
            await cluster.eventually(lambda: scheduler.executor.pending == 0)
            assert 4 == scheduler.outbox.counts["failed:Bind"]
            assert {} == scheduler.picture.assumed
        assert {""} == set(where(await cluster.pods()).values())

    tell(kubeconfig, story)


def test_a_gang_whose_pods_a_foreign_client_has_changed_is_bound_without_another_decision(kubeconfig: Path) -> None:
    """The server refuses each bind with 409, because it names the version that was decided on."""

    async def story(cluster: Live) -> None:
        await cluster.gang("a", 4, gpu=4)
        async with watching(cluster, Settings()) as scheduler:
            await cluster.eventually(lambda: _sees(scheduler, 4), "all pods are seen")
            names = [f"a-{i}" for i in range(4)]
            decided_on = [scheduler.picture.objects.of(PODS_KIND)[f"{NAMESPACE}/{name}"] for name in names]
            for name in names:
                note = {"metadata": {"annotations": {"example.com/number": "1"}}}
                await cluster.api.patch(PODS.path(NAMESPACE, name), note)
            for pod in decided_on:  # if watches were fast
                scheduler.picture.put(PODS_KIND, pod)
            plan = Plan(bind=tuple(Bind(f"{NAMESPACE}/{name}", f"n{i // 2}") for i, name in enumerate(names)))
            scheduler.cache.assume(plan)
            scheduler.outbox.send(scheduler.cache.publish(1, plan, time.time()))
            await cluster.eventually(lambda: scheduler.executor.pending == 0)
            assert (4, 0) == tuple(scheduler.outbox.counts[f"{how}:Bind"] for how in ("done", "failed"))
        assert {"n0", "n1"} == set(where(await cluster.pods()).values())

    tell(kubeconfig, story)


def _sees(scheduler: Scheduler, pods: int) -> bool:
    return len(scheduler.cache.snapshot(time.time()).tasks.tasks) == pods


@asynccontextmanager
async def watching(cluster: Live, settings: Settings) -> AsyncIterator[Scheduler]:
    """Maar watches and writes, but the test decides."""
    scheduler = Scheduler(cluster.api, settings, ConfigFile(None))
    await scheduler.sync()
    try:
        yield scheduler
    finally:
        await scheduler.close()


def test_binds_by_another_scheduler_are_counted_and_logged(kubeconfig: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def story(cluster: Live) -> None:
        async with scheduling(cluster) as scheduler:
            metrics = metrics_of(scheduler, scheduler)
            await cluster.gang("ours", 2, gpu=8)
            await cluster.until(bound("ours", 2))
            for name in ("a", "b"):
                await cluster.pod(name, gpu=8)
            await cluster.until(lambda ps: all(p.message for p in ps if not p.group), "they wait")
            for name in ("a", "b"):
                uid = (await cluster.get(PODS.path(NAMESPACE, name)))["metadata"]["uid"]
                await cluster.api.bind(NAMESPACE, name, uid, "n0")
            await cluster.eventually(lambda: scheduler.foreign.count == 2, "both are noticed")
            assert b"\nmaar_foreign_binds_total 2.0\n" in metrics.text()
            assert b"\nmaar_foreign_binds_total 2.0\n" in metrics.text()
        (warning,) = [r.getMessage() for r in caplog.records if "another scheduler" in r.getMessage()]
        assert "another scheduler bound 1 pods with schedulerName `maar`, the last was `default/a` to `n0`" in warning

    tell(kubeconfig, story)


def test_a_late_condition_of_an_earlier_leader_is_corrected(kubeconfig: Path) -> None:
    """Conditions are not announced: one that takes effect after a take-over must not stay, nor a promise in it."""
    late = {"type": "PodScheduled", "status": "False", "reason": "Nominated", "message": "late"}
    body = {"status": {"nominatedNodeName": "n0", "conditions": [late]}}

    async def story(cluster: Live) -> None:
        async with leading(cluster) as (scheduler, _):
            await cluster.gang("a", 2, gpu=100)
            await cluster.until(lambda ps: all(p.message for p in ps), "they wait")
            await cluster.eventually(lambda: scheduler.executor.pending == 0)
            for wrong in ("a-0", "a-1"):
                status = PODS.path(NAMESPACE, wrong, "status")
                right = _waits(await cluster.get(status))
                await cluster.api.patch(status, body, "strategic")
                await cluster.eventually(partial(_shows, cluster, status, right), "it is corrected")

    tell(kubeconfig, story)


def _waits(pod: dict[str, Any]) -> tuple[str, str, str]:
    status = pod["status"]
    (condition,) = (c for c in status["conditions"] if c["type"] == "PodScheduled")
    return condition["reason"], condition["message"], status.get("nominatedNodeName", "")


async def _shows(cluster: Live, path: str, right: tuple[str, str, str]) -> bool:
    return _waits(await cluster.get(path)) == right


@pytest.mark.parametrize("patch", ["merge", "json"])
def test_a_firm_size_is_written_to_any_version_of_the_same_job_and_to_no_other(kubeconfig: Path, patch: str) -> None:
    """Its owner changed the job again and again, so that it names the uid only."""

    async def story(cluster: Live) -> None:
        api, jobs = cluster.api, batchjob.KIND.resource
        template = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
        head = {"apiVersion": jobs.api_version, "kind": jobs.kind, "metadata": {"name": "j"}}
        made = head | {"spec": {"parallelism": 5, "template": template}}
        await cluster.create(jobs.path(NAMESPACE), made)
        job = decode_json(await api.get(jobs.path(NAMESPACE, "j")), jobs.struct)
        await api.patch(jobs.path(NAMESPACE, "j"), {"metadata": {"annotations": {"example.com/number": "1"}}})
        for firm, size in ((False, 5), (True, 2)):
            wanted = WantedState(2, False, Kept(), {}, firm)
            merged, listed = merge(job, jobs, {"parallelism": 2}, wanted), {"/spec/parallelism": 2}
            request = merged if patch == "merge" else json_patch(job, jobs, listed, wanted)
            with contextlib.suppress(Conflict, Invalid):
                await api.patch(request.path, request.body, request.patch)
            assert size == (await cluster.get(request.path))["spec"]["parallelism"]
        other = jobs.path(NAMESPACE, "other")
        await cluster.create(jobs.path(NAMESPACE), made | {"metadata": {"name": "other"}})
        with pytest.raises((Conflict, Invalid)):
            await api.patch(other, request.body, request.patch)

    tell(kubeconfig, story)


def test_after_a_fence_no_write_for_the_version_before_it_takes_effect(kubeconfig: Path) -> None:
    """Every kind of dangerous write: bind, eviction, deletion, and resizes by both kinds of patches."""

    async def story(cluster: Live) -> None:
        api, jobs = cluster.api, batchjob.KIND.resource
        template = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
        head = {"apiVersion": jobs.api_version, "kind": jobs.kind, "metadata": {"name": "j"}}
        await cluster.create(jobs.path(NAMESPACE), head | {"spec": {"parallelism": 1, "template": template}})
        await cluster.pod("p", gpu=1)
        pod = decode_json(await api.get(PODS.path(NAMESPACE, "p")), Pod)
        job = decode_json(await api.get(jobs.path(NAMESPACE, "j")), jobs.struct)
        wanted = WantedState(5, False, Kept(), {})
        resizes = [
            merge(job, jobs, {"parallelism": 5}, wanted),
            json_patch(job, jobs, {"/spec/parallelism": 5}, wanted),
        ]
        for path in (PODS.path(NAMESPACE, "p"), jobs.path(NAMESPACE, "j")):
            assert await fence(api, path, 7) is not None
        for late in (WriteBind(pod, "n0"), Evict(pod), Delete(pod)):
            with pytest.raises(Conflict):
                await late.send(api, pod)
        for request in resizes:
            with pytest.raises((Conflict, Invalid)):
                await api.patch(request.path, request.body, request.patch)
        now = await cluster.get(PODS.path(NAMESPACE, "p"))
        assert ("", None) == (now["spec"].get("nodeName", ""), now["metadata"].get("deletionTimestamp"))
        assert 1 == (await cluster.get(jobs.path(NAMESPACE, "j")))["spec"]["parallelism"]

    tell(kubeconfig, story)


def test_each_scheduler_name_has_a_lease_and_all_are_needed(box: EmbeddedServer, tmp_path: Path) -> None:
    async def story(cluster: Live) -> None:
        other = LEASES.path(NAMESPACE, "maar-volcano")
        async with leading(cluster, frozenset({"maar", "volcano"})) as (scheduler, task):
            await cluster.eventually(lambda: scheduler.leading, "it leads")
            me = (await cluster.get(LEASE))["spec"]["holderIdentity"]
            assert me == (await cluster.get(other))["spec"]["holderIdentity"]
            await cluster.gang("a", 2, gpu=8)
            await cluster.until(bound("a", 2))
            await cluster.api.patch(other, {"spec": {"holderIdentity": "another"}})
            await asyncio.wait_for(task, 30)
        assert "" == (await cluster.get(LEASE))["spec"]["holderIdentity"], "the other one is given back"

    tell(box.kubeconfig(tmp_path / "kubeconfig"), story)


def test_names_that_share_a_lease_need_it_once(box: EmbeddedServer, tmp_path: Path) -> None:
    async def story(cluster: Live) -> None:
        async with leading(cluster, frozenset({"My_Scheduler", "my-scheduler"})) as (scheduler, task):
            await cluster.eventually(lambda: scheduler.leading, "it leads")
            await cluster.pod("a", gpu=1, schedulerName="My_Scheduler")
            await cluster.until(lambda ps: all(p.node for p in ps))
            assert not task.done()

    tell(box.kubeconfig(tmp_path / "kubeconfig"), story)


@pytest.mark.parametrize(
    ("scheduler", "lease"),
    [("maar", "maar"), ("volcano", "maar-volcano"), ("My_Scheduler.", "maar-my-scheduler"), ("_", "maar-x")],
)
def test_the_name_of_the_lease(scheduler: str, lease: str) -> None:
    assert lease == lease_name(scheduler)


def test_a_holder_has_ended_only_if_that_is_certain() -> None:
    me = identity()
    host = me.rsplit("_", 2)[0]
    assert has_ended(me), "this process does not hold it: an earlier one with this process id did"
    assert has_ended(f"{host}_x_{2**22 + 1}"), "no process has this id"
    for other in (f"{host}_x_1", f"elsewhere_x_{2**22 + 1}", "", host, f"{host}_x_y", f"{host}_x_{10**30}"):
        assert not has_ended(other)
