"""Resizes on the embedded and a real API server: written once, assumed at once, never over another client's change."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.crds import serve
from tests.support.live import EVENTS_PATH, NAMESPACE, Live, connected

from maar.controller.scheduler import Scheduler
from maar.controller.settings.config_file import ConfigFile
from maar.controller.settings.settings import Settings
from maar.embedded.server import EmbeddedServer
from maar.kube.kinds import batchjob, rayjob, volcanojob
from maar.kube.kinds.kubeflow import mpijob, pytorchjob
from maar.kube.wire.api_resources import Resource
from maar.model.elastic import Elastic, Past
from maar.model.plan import Plan, Reserve, Resize, Resume, Suspend, Target

PYTORCH = pytorchjob.KIND.resource
RAY = rayjob.KIND.resource
PAST = Past(first_start=1.0, last_resize=2.0, attained=3.5)
Story = Callable[[Live, Scheduler], Awaitable[None]]


@asynccontextmanager
async def watching(cluster: Live) -> AsyncIterator[Scheduler]:
    """Maar watches and writes, but the test decides."""
    scheduler = Scheduler(cluster.api, Settings(), ConfigFile(None))
    await scheduler.sync()
    try:
        yield scheduler
    finally:
        await scheduler.executor.drain(5.0)
        await scheduler.close()


def tell(kubeconfig: Path, story: Story, *resources: Resource[Any]) -> None:
    async def main() -> None:
        async with connected(kubeconfig) as cluster:
            await serve(cluster, *(resources or (PYTORCH,)))
            async with watching(cluster) as scheduler:
                await story(cluster, scheduler)

    asyncio.run(main())


def template() -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "c", "image": "i"}], "schedulerName": "maar", "restartPolicy": "Never"}}


def pytorch(size: int = 2, suspend: bool = False, **annotations: str) -> dict[str, Any]:
    return {
        "apiVersion": PYTORCH.api_version,
        "kind": PYTORCH.kind,
        "metadata": {"name": "t", "namespace": NAMESPACE, "annotations": annotations},
        "spec": {
            "elasticPolicy": {"minReplicas": 1, "maxReplicas": 8},
            "runPolicy": {"suspend": suspend},
            "pytorchReplicaSpecs": {"Worker": {"replicas": size, "template": template()}},
        },
    }


PATH = PYTORCH.path(NAMESPACE, "t")
KEY = f"{NAMESPACE}/t"


async def add(cluster: Live, scheduler: Scheduler, item: dict[str, Any], resource: Resource[Any] = PYTORCH) -> None:
    """Create a job and wait until Maar has seen it."""
    await cluster.api.create(resource.path(NAMESPACE), item)
    await cluster.eventually(lambda: elastic(scheduler) is not None, "the job is seen")


def elastic(scheduler: Scheduler) -> Elastic | None:
    """The job as the next decision sees it."""
    jobs = scheduler.cache.snapshot(time.time()).jobs
    return jobs.jobs[jobs.number[KEY]].elastic if KEY in jobs.number else None


def stands(scheduler: Scheduler) -> tuple[int, bool]:
    found = elastic(scheduler)
    assert found is not None
    return found.size, found.suspended


MOMENTS = itertools.count(1000.0, 10.0)
"""Times of plans, far enough apart for a note in each."""


def send(scheduler: Scheduler, **plan: Any) -> None:
    scheduler.cache.snapshot(time.time())
    scheduler.outbox.resizes.send(scheduler.cache.publish(1, Plan(**plan), next(MOMENTS)))


async def written(cluster: Live, scheduler: Scheduler) -> None:
    """Wait until everything is written and watches have shown it."""
    await cluster.eventually(lambda: scheduler.executor.pending == 0, "all is written")
    await cluster.eventually(lambda: not scheduler.picture.elastic.assumed, "all is seen")


async def spec(cluster: Live) -> tuple[int, bool, dict[str, str]]:
    found = await cluster.get(PATH)
    annotations: dict[str, str] = found["metadata"].get("annotations", {})
    policy = found["spec"]["runPolicy"]
    return found["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"], policy["suspend"], annotations


def test_a_resize_is_seen_at_once_and_written_with_all_that_belongs_to_it(kubeconfig: Path) -> None:
    async def story(cluster: Live, scheduler: Scheduler) -> None:
        await add(cluster, scheduler, pytorch(2, mine="kept"))
        send(
            scheduler,
            resize=(Resize(KEY, 2, 5, "room came", PAST),),
            reserve=(Reserve(KEY, "n0", 2), Reserve(KEY, "n1", 1)),
            targets=(Target(KEY, 5, 6, "one GPU short"),),
        )
        found = elastic(scheduler)
        assert found is not None
        assert (5, 2, PAST, (("n0", 2), ("n1", 1))) == (found.size, found.requested, found.past, found.reserved)
        await written(cluster, scheduler)
        size, suspended, annotations = await spec(cluster)
        assert (5, False) == (size, suspended)
        assert ("5", "6", "one GPU short", "kept") == tuple(
            annotations[key] for key in ("maar.dev/workers", "maar.dev/planned-workers", "maar.dev/why", "mine")
        )
        assert {"n0": 2, "n1": 1} == msgspec.json.decode(annotations["maar.dev/holds"])
        assert found == elastic(scheduler), "the watch shows what was assumed"
        assert {"done:ChangeJob": 1} == scheduler.outbox.counts, "one write"
        await cluster.eventually(lambda: _event(cluster, "Resized", "from 2 to 5 workers: room came"))

    tell(kubeconfig, story)


async def _event(cluster: Live, reason: str, message: str) -> bool:
    listed = (await cluster.get(EVENTS_PATH))["items"]
    return any((e["reason"], e["message"], e["involvedObject"]["name"]) == (reason, message, "t") for e in listed)


def test_a_job_is_suspended_and_resumed_with_another_size(kubeconfig: Path) -> None:
    async def story(cluster: Live, scheduler: Scheduler) -> None:
        await add(cluster, scheduler, pytorch(2))
        send(scheduler, suspend=(Suspend(KEY, "others go first", PAST),))
        assert (2, True) == stands(scheduler)
        await written(cluster, scheduler)
        assert (2, True) == (await spec(cluster))[:2]
        await cluster.eventually(lambda: _event(cluster, "Suspended", "suspended: others go first"))
        send(scheduler, resume=(Resume(KEY, 3, "", PAST),))
        await written(cluster, scheduler)
        assert (3, False) == (await spec(cluster))[:2]
        await cluster.eventually(lambda: _event(cluster, "Resumed", "resumed with 3 workers"))
        found = elastic(scheduler)
        assert found is not None
        assert 2 == found.requested, "the size that its owner requested"

    tell(kubeconfig, story)


def test_a_rigid_job_stays_ours_to_pause(kubeconfig: Path) -> None:
    async def story(cluster: Live, scheduler: Scheduler) -> None:
        rigid = pytorch(2, suspend=True)
        del rigid["spec"]["elasticPolicy"]
        await add(cluster, scheduler, rigid)
        send(scheduler, resume=(Resume(KEY, 2),))
        await written(cluster, scheduler)
        found = elastic(scheduler)
        assert found is not None
        assert (2, 2, 2, False) == (found.min, found.max, found.size, found.suspended)

    tell(kubeconfig, story)


def test_a_size_that_another_client_sets_meanwhile_is_not_overwritten(kubeconfig: Path) -> None:
    async def story(cluster: Live, scheduler: Scheduler) -> None:
        await add(cluster, scheduler, pytorch(2))
        scheduler.cache.snapshot(time.time())
        await cluster.api.patch(PATH, {"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 4}}}})
        plan = Plan(resize=(Resize(KEY, 2, 1),))
        if stands(scheduler)[0] == 2:  # usually the watch has not shown the change yet
            scheduler.outbox.resizes.send(scheduler.cache.publish(1, plan, next(MOMENTS)))
            await cluster.eventually(lambda: scheduler.executor.pending == 0)
            assert {"failed:ChangeJob": 1} == scheduler.outbox.counts
        await cluster.eventually(lambda: stands(scheduler) == (4, False), "the owner's size")
        assert 4 == (await spec(cluster))[0]

    tell(kubeconfig, story)


def test_what_others_write_beside_the_size_does_not_matter(kubeconfig: Path) -> None:
    async def story(cluster: Live, scheduler: Scheduler) -> None:
        await add(cluster, scheduler, pytorch(2))
        found = scheduler.picture.elastic_job(KEY)
        assert found is not None
        for i in range(3):
            status = {"conditions": [{"type": "Running", "status": "True", "reason": f"r{i}"}]}
            await cluster.api.patch(f"{PATH}/status", {"status": status})
        # As if no watch had shown it.
        scheduler.picture.objects.of(pytorchjob.KIND)[KEY] = found.item
        send(scheduler, resize=(Resize(KEY, 2, 3),))
        await written(cluster, scheduler)
        assert 3 == (await spec(cluster))[0]
        assert {"done:ChangeJob": 1} == scheduler.outbox.counts

    tell(kubeconfig, story)


def test_two_changes_in_a_row_are_both_made(kubeconfig: Path) -> None:
    async def story(cluster: Live, scheduler: Scheduler) -> None:
        await add(cluster, scheduler, pytorch(2))
        send(scheduler, resize=(Resize(KEY, 2, 6, past=PAST),))
        send(scheduler, resize=(Resize(KEY, 6, 4, past=PAST),), reserve=(Reserve(KEY, "n0", 1),))
        send(scheduler, reserve=())
        assert (4, False) == stands(scheduler)
        await written(cluster, scheduler)
        size, _, annotations = await spec(cluster)
        assert (4, False) == (size, "maar.dev/holds" in annotations)
        assert {"done:ChangeJob": 2, "done:AnnotateJob": 1} == scheduler.outbox.counts

    tell(kubeconfig, story)


def test_notes_are_written_when_they_change_and_not_again(kubeconfig: Path) -> None:
    async def story(cluster: Live, scheduler: Scheduler) -> None:
        await add(cluster, scheduler, pytorch(2))
        for why in ("a", "a", "b", "b"):
            send(scheduler, targets=(Target(KEY, 2, 2, why),))
            await written(cluster, scheduler)
        assert {"done:AnnotateJob": 2} == scheduler.outbox.counts
        assert "b" == (await spec(cluster))[2]["maar.dev/why"]

    tell(kubeconfig, story)


def test_notes_that_change_alone_are_written_one_a_second_of_all_jobs_in_turn(kubeconfig: Path) -> None:
    async def story(cluster: Live, scheduler: Scheduler) -> None:
        await add(cluster, scheduler, pytorch(2))
        resizes, now = scheduler.outbox.resizes, 500.0
        for i in range(20):
            resizes.send(scheduler.cache.publish(1, Plan(targets=(Target(KEY, 2, i),)), now + i / 10))
        assert pytest.approx(502.0) == resizes.due(now + 1.9)
        resizes.send(scheduler.cache.publish(1, Plan(targets=(Target(KEY, 2, 19),)), now + 2.0))
        await written(cluster, scheduler)
        assert {"done:AnnotateJob": 3} == scheduler.outbox.counts
        assert "19" == (await spec(cluster))[2]["maar.dev/planned-workers"]
        resizes.send(scheduler.cache.publish(1, Plan(targets=(Target(KEY, 2, 19),)), now + 2.1))
        assert resizes.due(now + 2.1) is None

    tell(kubeconfig, story)


def _notes(annotations: dict[str, str]) -> list[str | None]:
    return [annotations.get(f"maar.dev/{key}") for key in ("workers", "planned-workers", "why", "holds")]


def test_notes_are_true_after_the_owner_suspends_a_job(kubeconfig: Path) -> None:
    async def story(cluster: Live, scheduler: Scheduler) -> None:
        await add(cluster, scheduler, pytorch(2))
        target = Target(KEY, 3, 5, "room came")
        send(
            scheduler,
            resize=(Resize(KEY, 2, 3, "room came", PAST),),
            reserve=(Reserve(KEY, "n", 1),),
            targets=(target,),
        )
        await written(cluster, scheduler)
        assert ["3", "5", "room came", '{"n":1}'] == _notes((await spec(cluster))[2])
        await cluster.api.patch(PATH, {"spec": {"runPolicy": {"suspend": True}}})
        await cluster.eventually(lambda: elastic(scheduler) is None, "the job is its owner's")
        for _ in range(2):
            send(scheduler)
            await written(cluster, scheduler)
        why = "suspended by its owner: Maar leaves it alone until its owner resumes it"
        size, suspended, annotations = await spec(cluster)
        assert (3, True, ["0", "0", why, None]) == (size, suspended, _notes(annotations))
        await cluster.eventually(lambda: not scheduler.picture.elastic.untrue)
        assert 1 == scheduler.outbox.counts["done:AnnotateJob"], "written once"
        await cluster.api.patch(PATH, {"spec": {"runPolicy": {"suspend": False}}})
        await cluster.eventually(lambda: elastic(scheduler) is not None, "the job is back")
        send(scheduler, targets=(target,))
        await written(cluster, scheduler)
        assert ["3", "5", "room came", None] == _notes((await spec(cluster))[2])

    tell(kubeconfig, story)


def test_notes_are_removed_from_a_job_that_is_not_elastic_any_more(kubeconfig: Path) -> None:
    async def story(cluster: Live, scheduler: Scheduler) -> None:
        await add(cluster, scheduler, pytorch(2, mine="kept"))
        send(scheduler, targets=(Target(KEY, 2, 2, "all it may have"),))
        await written(cluster, scheduler)
        await cluster.api.patch(PATH, {"spec": {"elasticPolicy": None}})
        await cluster.eventually(lambda: elastic(scheduler) is None, "the job has no bounds")
        scheduler.outbox.resizes.send(scheduler.cache.publish(1, Plan(), time.time() + 5))
        await written(cluster, scheduler)
        annotations = (await spec(cluster))[2]
        assert ([None] * 4, "kept") == (_notes(annotations), annotations["mine"])

    tell(kubeconfig, story)


def test_a_job_of_fixed_size_keeps_the_reason_why_it_waits(kubeconfig: Path) -> None:
    async def story(cluster: Live, scheduler: Scheduler) -> None:
        job = pytorch(2)
        del job["spec"]["elasticPolicy"]
        job["metadata"]["annotations"] = {"maar.dev/why": "no room"}
        await cluster.create(PATH.rpartition("/")[0], job)
        await cluster.eventually(lambda: KEY in scheduler.picture.objects.of(pytorchjob.KIND), "it is seen")
        assert (None, {}) == (elastic(scheduler), scheduler.picture.elastic.untrue)
        scheduler.outbox.resizes.send(scheduler.cache.publish(1, Plan(), time.time() + 5))
        await written(cluster, scheduler)
        assert "no room" == (await spec(cluster))[2]["maar.dev/why"]

    tell(kubeconfig, story)


@pytest.mark.parametrize("bounds", [True, False], ids=["elastic", "fixed"])
def test_a_waiting_job_that_its_owner_suspends_before_it_ever_ran_stays_suspended_and_says_so(
    kubeconfig: Path, bounds: bool
) -> None:
    """Its operator has never said that it runs, and Maar has noted why it waits."""

    async def story(cluster: Live, scheduler: Scheduler) -> None:
        notes = {"maar.dev/workers": "2", "maar.dev/planned-workers": "2"} if bounds else {}
        job = pytorch(2)
        job["metadata"]["annotations"] = {**notes, "maar.dev/why": "no room"}
        if not bounds:
            del job["spec"]["elasticPolicy"]
        await cluster.create(PATH.rpartition("/")[0], job)
        jobs = scheduler.picture.objects.of(pytorchjob.KIND)
        await cluster.eventually(lambda: KEY in jobs, "it is seen")
        created = [{"type": "Created", "status": "True"}]
        await cluster.api.patch(f"{PATH}/status", {"status": {"conditions": created}})
        await cluster.api.patch(PATH, {"spec": {"runPolicy": {"suspend": True}}})
        await cluster.eventually(lambda: jobs[KEY].spec.run_policy.suspend, "the change is seen")
        why = "suspended by its owner: Maar leaves it alone until its owner resumes it"
        zero = "0" if bounds else None
        for _ in range(2):
            assert elastic(scheduler) is None, "Maar must not resume it"
            send(scheduler)
            await written(cluster, scheduler)
            assert [zero, zero, why, None] == _notes((await spec(cluster))[2])
            await cluster.eventually(lambda: jobs[KEY].metadata.annotations["maar.dev/why"] == why, "the note is seen")
        assert {"done:AnnotateJob": 1} == scheduler.outbox.counts
        await cluster.api.patch(PATH, {"spec": {"runPolicy": {"suspend": False}}})
        await cluster.eventually(lambda: not jobs[KEY].spec.run_policy.suspend, "the change is seen")
        assert bounds == (elastic(scheduler) is not None)
        if not bounds:
            send(scheduler)
            await written(cluster, scheduler)
            assert [None] * 4 == _notes((await spec(cluster))[2])

    tell(kubeconfig, story)


@pytest.mark.parametrize("evidence", ["noted", "status", ""])
def test_a_job_that_was_created_suspended_is_resumed_though_its_owner_has_edited_it(
    kubeconfig: Path, evidence: str
) -> None:
    """Once Maar has noted that it waits, or its operator has seen it: before, nobody can tell who suspended it."""

    async def story(cluster: Live, scheduler: Scheduler) -> None:
        await add(cluster, scheduler, pytorch(2, suspend=True))
        if evidence == "status":
            suspended = [{"type": t, "status": "True"} for t in ("Created", "Suspended")]
            await cluster.api.patch(f"{PATH}/status", {"status": {"conditions": suspended}})
        if evidence == "noted":
            send(scheduler, targets=(Target(KEY, 0, 2, "no room"),))
            await written(cluster, scheduler)
        await cluster.api.patch(PATH, {"spec": {"elasticPolicy": {"maxReplicas": 5}}})
        jobs = scheduler.picture.objects.of(pytorchjob.KIND)
        await cluster.eventually(lambda: jobs[KEY].metadata.generation == 2, "the change is seen")
        if evidence == "status":
            await cluster.eventually(lambda: jobs[KEY].status.conditions, "the status is seen")
        assert bool(evidence) == (elastic(scheduler) is not None)

    tell(kubeconfig, story)


@pytest.mark.parametrize("created_suspended", [True, False])
def test_a_job_that_its_owner_suspends_before_maar_has_written_it_stays_suspended(
    kubeconfig: Path, created_suspended: bool
) -> None:
    """A RayJob never says in its status whether it ran."""

    async def story(cluster: Live, scheduler: Scheduler) -> None:
        cluster_spec = {"headGroupSpec": {"template": template()}, "workerGroupSpecs": []}
        body = {"rayClusterSpec": cluster_spec, "shutdownAfterJobFinishes": True, "suspend": created_suspended}
        item = {"apiVersion": RAY.api_version, "kind": RAY.kind, "metadata": {"name": "t"}, "spec": body}
        await cluster.api.create(RAY.path(NAMESPACE), item)
        await cluster.eventually(lambda: KEY in scheduler.picture.objects.of(rayjob.KIND), "the job is seen")
        if created_suspended:
            await cluster.eventually(lambda: elastic(scheduler) is not None, "it starts when the plan says so")
            return
        await cluster.api.patch(RAY.path(NAMESPACE, "t"), {"spec": {"suspend": True}})
        seen = scheduler.picture.objects.of(rayjob.KIND)
        await cluster.eventually(lambda: seen[KEY].spec.suspend, "the change is seen")
        assert elastic(scheduler) is None, "Maar must not resume it"

    tell(kubeconfig, story, RAY)


def test_a_size_set_by_hand_is_changed_back_with_a_word(kubeconfig: Path) -> None:
    async def story(cluster: Live, scheduler: Scheduler) -> None:
        await add(cluster, scheduler, pytorch(2))
        send(scheduler, resize=(Resize(KEY, 2, 3, "room came", PAST),), targets=(Target(KEY, 3, 3, "room came"),))
        await written(cluster, scheduler)
        await cluster.api.patch(PATH, {"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 7}}}})
        await cluster.eventually(lambda: stands(scheduler) == (7, False), "the size set by hand")
        send(scheduler, resize=(Resize(KEY, 7, 3, "no more room", PAST),), targets=(Target(KEY, 3, 3, "no more room"),))
        await written(cluster, scheduler)
        why = "7 workers were set by hand, but Maar decides how many between 1 and 8: no more room"
        size, _, annotations = await spec(cluster)
        assert (3, why) == (size, annotations["maar.dev/why"])
        await cluster.eventually(lambda: _event(cluster, "Resized", f"from 7 to 3 workers: {why}"))
        send(scheduler, resize=(Resize(KEY, 3, 4, "room again", PAST),))
        await written(cluster, scheduler)
        await cluster.eventually(lambda: _event(cluster, "Resized", "from 3 to 4 workers: room again"))

    tell(kubeconfig, story)


def test_notes_that_are_still_on_their_way_are_known(kubeconfig: Path) -> None:
    async def story(cluster: Live, scheduler: Scheduler) -> None:
        await add(cluster, scheduler, pytorch(2, False, **{"maar.dev/workers": "2"}))
        for size in (8, 2):
            send(scheduler, targets=(Target(KEY, size, size),))
        await written(cluster, scheduler)
        annotations = (await spec(cluster))[2]
        assert ("2", "2") == (annotations["maar.dev/workers"], annotations["maar.dev/planned-workers"])

    tell(kubeconfig, story)


def test_another_maar_does_not_write_it_again(kubeconfig: Path) -> None:
    async def main() -> None:
        async with connected(kubeconfig) as cluster:
            await serve(cluster, PYTORCH)
            for expected in (1, 0):
                async with watching(cluster) as scheduler:
                    if expected:
                        await add(cluster, scheduler, pytorch(2))
                    await cluster.eventually(lambda s=scheduler: elastic(s) is not None)  # type: ignore[misc]
                    send(scheduler, reserve=(Reserve(KEY, "n0", 1),), targets=(Target(KEY, 2, 2, "why"),))
                    await written(cluster, scheduler)
                    assert expected == scheduler.outbox.counts["done:AnnotateJob"]

    asyncio.run(main())


def test_a_job_that_is_gone_is_forgotten(kubeconfig: Path) -> None:
    async def story(cluster: Live, scheduler: Scheduler) -> None:
        await add(cluster, scheduler, pytorch(2))
        await cluster.api.delete(PATH)
        send(scheduler, resize=(Resize(KEY, 2, 3),))
        await written(cluster, scheduler)
        await cluster.eventually(lambda: elastic(scheduler) is None)

    tell(kubeconfig, story)


def test_an_answer_that_is_lost_changes_nothing(box: EmbeddedServer, tmp_path: Path) -> None:
    async def story(cluster: Live, scheduler: Scheduler) -> None:
        await add(cluster, scheduler, pytorch(2))
        box.faults.drop_next = 2
        box.faults.drops = lambda method, path: method == "PATCH" and path.endswith("/pytorchjobs/t")
        send(scheduler, resize=(Resize(KEY, 2, 3, past=PAST),))
        await written(cluster, scheduler)
        assert 3 == (await spec(cluster))[0]
        assert {"done:ChangeJob": 1} == scheduler.outbox.counts

    tell(box.kubeconfig(tmp_path / "kubeconfig"), story)


def test_an_mpijob_is_written_in_the_version_that_is_served(box: EmbeddedServer, tmp_path: Path) -> None:
    path = mpijob.KIND_V2.resource.path(NAMESPACE, "t")
    item = {
        "metadata": {"name": "t", "namespace": NAMESPACE, "annotations": {"maar.dev/min-workers": "1"}},
        "spec": {"mpiReplicaSpecs": {"Worker": {"replicas": 2, "template": template()}}},
    }

    async def story(cluster: Live, scheduler: Scheduler) -> None:
        await add(cluster, scheduler, item, mpijob.KIND_V2.resource)
        send(scheduler, resize=(Resize(KEY, 2, 1),))
        await written(cluster, scheduler)
        assert 1 == (await cluster.get(path))["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"]

    tell(box.kubeconfig(tmp_path / "kubeconfig"), story, mpijob.KIND_V2.resource)


@pytest.mark.parametrize("indexed", [False, True])
def test_a_batch_job_is_resized_and_suspended(kubeconfig: Path, indexed: bool) -> None:
    mode = {"completionMode": "Indexed", "completions": 2} if indexed else {}
    bounds = {"maar.dev/min-workers": "1", "maar.dev/max-workers": "4"}
    item = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "t", "namespace": NAMESPACE, "annotations": bounds},
        "spec": {"parallelism": 2, "suspend": True, "template": template(), **mode},
    }

    async def story(cluster: Live, scheduler: Scheduler) -> None:
        await add(cluster, scheduler, item, batchjob.KIND.resource)
        send(scheduler, resume=(Resume(KEY, 3),))
        await written(cluster, scheduler)
        found = (await cluster.get(batchjob.KIND.resource.path(NAMESPACE, "t")))["spec"]
        assert (3, 3 if indexed else None, False) == (found["parallelism"], found.get("completions"), found["suspend"])
        send(scheduler, suspend=(Suspend(KEY),))
        await written(cluster, scheduler)
        assert (await cluster.get(batchjob.KIND.resource.path(NAMESPACE, "t")))["spec"]["suspend"]

    tell(kubeconfig, story)


def test_a_volcano_job_is_resized_and_paused(kubeconfig: Path) -> None:
    path = volcanojob.KIND.resource.path(NAMESPACE, "t")
    bounds = {"maar.dev/min-workers": "1", "maar.dev/max-workers": "4"}
    item = {
        "apiVersion": volcanojob.KIND.resource.api_version,
        "kind": "Job",
        "metadata": {"name": "t", "namespace": NAMESPACE, "annotations": bounds},
        "spec": {
            "schedulerName": "maar",
            "minAvailable": 3,
            "tasks": [{"name": "worker", "replicas": 3, "template": template()}],
        },
    }

    async def phase(cluster: Live, scheduler: Scheduler, name: str, suspended: bool) -> None:
        await cluster.api.patch(f"{path}/status", {"status": {"state": {"phase": name}}})
        await cluster.eventually(lambda: not scheduler.picture.elastic.assumed, "seen")
        assert suspended == stands(scheduler)[1]

    async def story(cluster: Live, scheduler: Scheduler) -> None:
        await add(cluster, scheduler, item, volcanojob.KIND.resource)
        send(scheduler, resize=(Resize(KEY, 3, 2, past=PAST),))
        await written(cluster, scheduler)
        found = (await cluster.get(path))["spec"]
        assert (2, 1, "worker") == (found["tasks"][0]["replicas"], found["minAvailable"], found["tasks"][0]["name"])
        send(scheduler, suspend=(Suspend(KEY, past=PAST),))
        await cluster.eventually(lambda: scheduler.executor.pending == 0)
        assert (2, True) == stands(scheduler), "assumed, though Volcano has not paused it yet"
        await phase(cluster, scheduler, "Aborted", True)
        send(scheduler, resume=(Resume(KEY, 4, past=PAST),))
        await cluster.eventually(lambda: scheduler.executor.pending == 0)
        await phase(cluster, scheduler, "Running", False)
        commands = (await cluster.get(volcanojob.COMMANDS.path(NAMESPACE)))["items"]
        assert ["AbortJob", "ResumeJob"] == sorted(c["action"] for c in commands)
        assert 4 == (await cluster.get(path))["spec"]["tasks"][0]["replicas"]

    tell(kubeconfig, story, volcanojob.KIND.resource, volcanojob.COMMANDS)
