"""Elastic jobs among the gangs: read at once and live, with and without a PodGroup, and with what was assumed."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from tests.support.objects import decoded, from_scratch

from maar.kube.kinds import AnyKind, Identity
from maar.kube.kinds.elastic import Kept
from maar.kube.kinds.kubeflow import pytorchjob
from maar.kube.picture.picture import Picture
from maar.kube.read.elastic import AssumedJob
from maar.model.jobs import Job
from maar.model.shapes import Shape
from maar.model.snapshot import Cluster, Snapshot

NOW = 1000.0
MAAR = frozenset({"maar"})
JOB_NAME = "training.kubeflow.org/job-name"


def role(replicas: int, gpu: int = 1, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": {"nvidia.com/gpu": str(gpu)}}}
    return {
        "replicas": replicas,
        "template": {"spec": {"containers": [container], "schedulerName": "maar", **spec}},
    }


def train(name: str = "t", size: int = 2, version: str = "1", **more: Any) -> dict[str, Any]:
    annotations = more.pop("annotations", {})
    worker = more.pop("worker", {})
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {
            **{"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": version},
            **{"annotations": annotations, "creationTimestamp": "2030-01-01T00:00:00Z"},
        },
        "spec": {
            "elasticPolicy": {"minReplicas": 1, "maxReplicas": 4},
            "pytorchReplicaSpecs": {"Master": role(1, 0), "Worker": role(size, **worker)},
            "runPolicy": more.pop("policy", {}),
        },
        "status": more,
    }


def pod_group(name: str = "t", minimum: int = 3) -> dict[str, Any]:
    owner = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": name, "controller": True}
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {
            **{"name": name, "namespace": "ns", "uid": f"pg-{name}", "ownerReferences": [owner]},
            "creationTimestamp": "2031-01-01T00:00:00Z",
        },
        "spec": {"minMember": minimum, "minTaskMember": {"worker": 2}, "minResources": {"nvidia.com/gpu": "2"}},
        "status": {"phase": "Inqueue"},
    }


def pod(index: int, name: str = "t", grouped: bool = False, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": {"nvidia.com/gpu": "1"}}}
    labels = {JOB_NAME: name, "training.kubeflow.org/replica-type": "worker"}
    annotations = {"scheduling.k8s.io/group-name": name} if grouped else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **{"name": f"{name}-worker-{index}", "namespace": "ns", "uid": f"uid-{name}-{index}"},
            **{"labels": labels, "annotations": annotations},
        },
        "spec": {"containers": [container], "schedulerName": "maar", **spec},
    }


def whole(*items: dict[str, Any], names: frozenset[str] | None = MAAR) -> Cluster:
    return from_scratch(items, names, NOW)


def live(*items: dict[str, Any]) -> Picture:
    picture = Picture(MAAR)
    for item in items:
        picture.put(*decoded(item))
    return picture


def jobs(picture: Picture) -> dict[str, Job]:
    return {job.key: job for job in picture.cluster(picture.take(NOW).around).jobs}


def only(cluster: Cluster) -> Job:
    (job,) = cluster.jobs
    return job


def gpus(shape: Shape) -> int:
    return dict(shape.requests).get("nvidia.com/gpu", 0)


def test_a_job_without_a_podgroup_is_its_own_gang() -> None:
    job = only(whole(train(), pod(0), pod(1)))
    assert ("ns/t", 2) == (job.key, job.min_member)
    assert job.elastic is not None
    assert (1, 4, 2, "worker") == (job.elastic.min, job.elastic.max, job.elastic.size, job.elastic.role)
    assert (1, [0]) == (gpus(job.elastic.shape), [gpus(s) for s in job.elastic.beside])


def test_a_podgroup_stands_for_the_job_that_it_belongs_to() -> None:
    cluster = whole(train(), pod_group(), pod(0, grouped=True), pod(1, grouped=True))
    job = only(cluster)
    assert ("ns/t", "pg-t", 2, {"worker": 1, "master": 1}) == (job.key, job.uid, job.min_member, job.role_min)
    assert job.min_resources is None
    assert job.elastic is not None
    assert 1893456000.0 == job.created, "as old as the job, not as its PodGroup"
    assert {"ns/t"} == {task.job for task in cluster.tasks}


def test_pods_whose_podgroup_is_gone_belong_to_the_job() -> None:
    cluster = whole(train(policy={"suspend": True}), pod(0, grouped=True, nodeName="n0"))
    job = only(cluster)
    assert ("ns/t", "") == (job.key, job.broken)
    assert job.elastic is not None
    assert job.elastic.suspended


def test_a_suspended_job_stands_without_pods_and_one_that_ended_does_not() -> None:
    assert only(whole(train(policy={"suspend": True}))).declared
    ended = train(policy={"suspend": True}, conditions=[{"type": "Failed", "status": "True"}])
    assert () == whole(ended).jobs


def test_a_broken_job_says_why_and_others_go_on() -> None:
    broken = train("b", annotations={"maar.dev/min-workers": "x"})
    found = {job.key: job for job in whole(broken, train()).jobs}
    assert "`maar.dev/min-workers`: expected a whole number of at least 1, got `x`" == found["ns/b"].broken
    assert found["ns/b"].elastic is None
    assert found["ns/t"].elastic is not None
    template = train(worker={"gpu": "many"})
    assert only(whole(template)).broken.startswith("template of its workers: spec.containers[0].resources")


def test_jobs_of_other_schedulers_stay_what_they_were() -> None:
    other = train(worker={"schedulerName": "other"})
    assert () == whole(other).jobs
    assert 1 == len(whole(other, names=None).jobs)


def test_priority_and_queue_of_a_job_without_pods() -> None:
    high = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "high"},
        "value": 9,
        "globalDefault": True,
        "preemptionPolicy": "Never",
    }
    policy = {"schedulingPolicy": {"queue": "team"}}
    job = only(whole(high, train(policy=policy)))
    assert (9, False, "team") == (job.priority, job.preempts, job.queue)
    named = only(whole(high, train(worker={"priorityClassName": "nobody"})))
    assert "priority class `nobody` does not exist" == named.broken


def test_a_batch_job_with_bounds_is_a_gang() -> None:
    item: dict[str, Any] = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "ns", "annotations": {"maar.dev/min-workers": "1"}},
        "spec": {"parallelism": 2, "template": role(1)["template"]},
    }
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "controller": True}
    pods = [pod(i) for i in range(2)]
    for one in pods:
        one["metadata"].update(labels={}, ownerReferences=[owner])
    cluster = whole(item, *pods)
    assert (("ns/j", 1),) == tuple((job.key, job.min_member) for job in cluster.jobs)
    picture = live(*pods)
    assert {"ns/t-worker-0", "ns/t-worker-1"} == jobs(picture).keys()
    picture.put(*decoded(item))
    assert {"ns/j"} == jobs(picture).keys()
    plain = {**item, "metadata": {**item["metadata"], "annotations": {}}}
    picture.put(*decoded(plain))
    assert {"ns/t-worker-0", "ns/t-worker-1"} == jobs(picture).keys()


APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {JOB_NAME: "t"}}, "topologyKey": "kubernetes.io/hostname"}
        ]
    }
}


def test_workers_to_come_match_the_selectors_of_their_own() -> None:
    job = only(whole(train(worker={"affinity": APART})))
    assert job.elastic is not None
    assert 1 == len(job.elastic.shape.matches)
    two = {job.key: job.elastic for job in whole(train("o"), train(worker={"affinity": APART})).jobs}
    assert two["ns/o"] is not None
    assert () == two["ns/o"].shape.matches


STATES: list[list[dict[str, Any]]] = [
    [train(), train("u", policy={"suspend": True})],
    [train(), pod(0), pod(1), train("u", 3, worker={"affinity": APART})],
    [train(), pod_group(), pod(0, grouped=True), pod(1, grouped=True)],
    [train(size=4), pod_group(), *(pod(i, grouped=True, nodeName="n0") for i in range(4))],
    [train(policy={"suspend": True}), pod(0, grouped=True, nodeName="n0")],
    [pod_group(), pod(0, grouped=True)],
    [train(conditions=[{"type": "Succeeded", "status": "True"}])],
    [],
]


@pytest.mark.parametrize("seed", range(20))
def test_live_is_what_one_reading_is_whatever_the_order(seed: int) -> None:
    dice = random.Random(seed)
    picture, there = Picture(MAAR), dict[tuple[AnyKind, str], dict[str, Any]]()
    for state in dice.sample(STATES, len(STATES)):
        wanted = {(decoded(item)[0], decoded(item)[1].key): item for item in state}
        moves = [*wanted.items(), *((key, None) for key in there if key not in wanted)]
        dice.shuffle(moves)
        for (kind, key), item in moves:
            if item is None:
                picture.drop(kind, key)
            else:
                picture.put(*decoded(item))
            if dice.random() < 0.3:
                picture.take(NOW)
        there = wanted
        expected = whole(*state)
        picture.read_short()
        found = picture.cluster(picture.take(NOW).around)
        assert sorted(expected.tasks, key=lambda t: t.key) == sorted(found.tasks, key=lambda t: t.key)
        bare = [msgspec.structs.replace(job, settles=None) for job in found.jobs]
        assert sorted(expected.jobs, key=lambda j: j.key) == sorted(bare, key=lambda j: j.key)
        Snapshot(found)


# -- what was assumed

T = Identity.of(pytorchjob.KIND, "ns", "t")


def assumed(size: int, suspended: bool = False, **kept: Any) -> AssumedJob:
    return AssumedJob("uid-t", size, suspended, Kept(**kept), (("n0", 1),))


def elastic(picture: Picture) -> tuple[int, bool, float, tuple[tuple[str, int], ...]]:
    of = jobs(picture)["ns/t"].elastic
    assert of is not None
    return of.size, of.suspended, of.past.attained, of.reserved


KEPT = {"maar.dev/elastic": '{"attained":5.0,"requested":2}', "maar.dev/holds": '{"n0":1}'}


@pytest.mark.parametrize("grouped", [False, True])
def test_what_is_assumed_counts_until_it_is_seen(grouped: bool) -> None:
    picture = live(train(), *([pod_group()] if grouped else []))
    assert (2, False, 0.0, ()) == elastic(picture)
    job = picture.elastic_job("ns/t")
    assert job is not None
    picture.elastic.assumed.assume(job.identity, assumed(4, attained=5.0, requested=2))
    assert (4, False, 5.0, (("n0", 1),)) == elastic(picture)
    assert picture.put(*decoded(train(version="2", conditions=[{"type": "Running", "status": "True"}]))) is False
    assert (4, False, 5.0, (("n0", 1),)) == elastic(picture)
    assert picture.put(*decoded(train(size=4, version="3", annotations=KEPT))) is False, "it is as it was assumed"
    assert {} == picture.elastic.assumed
    assert (4, False, 5.0, (("n0", 1),)) == elastic(picture)


def test_what_failed_is_forgotten() -> None:
    picture = live(train())
    jobs(picture)
    picture.elastic.assumed.assume(T, assumed(4))
    picture.take(NOW)
    picture.elastic.assumed.forget(T)
    assert (2, False, 0.0, ()) == elastic(picture)


def test_what_was_written_counts_although_a_later_change_failed() -> None:
    picture = live(train())
    jobs(picture)
    picture.elastic.assumed.assume(T, assumed(4))
    picture.elastic.wrote(T, assumed(4), "5")
    picture.elastic.assumed.assume(T, assumed(6))
    assert 6 == elastic(picture)[0]
    picture.elastic.assumed.forget(T)
    assert 4 == elastic(picture)[0], "no watch has shown it yet"
    picture.elastic.assumed.assume(T, assumed(6))
    picture.put(*decoded(train(size=4, version="5", annotations=KEPT)))
    picture.elastic.assumed.forget(T)
    assert {} == picture.elastic.assumed
    assert 4 == elastic(picture)[0]
    picture.elastic.assumed.assume(T, assumed(6))
    picture.elastic.assumed.forget(T)
    assert 4 == elastic(picture)[0], "what was seen is the past"


def test_what_was_written_counts_although_an_earlier_change_failed() -> None:
    picture = live(train())
    jobs(picture)
    picture.elastic.assumed.assume(T, assumed(6))
    picture.elastic.assumed.forget(T)
    picture.elastic.wrote(T, assumed(6), "5")
    assert 6 == elastic(picture)[0]


def test_a_later_change_of_the_owner_counts() -> None:
    picture = live(train())
    jobs(picture)
    picture.elastic.assumed.assume(T, assumed(4))
    picture.elastic.wrote(T, assumed(4), "5")
    picture.put(*decoded(train(size=2, version="4", annotations={"a": "b"})))
    assert 4 == elastic(picture)[0], "an older version"
    picture.put(*decoded(train(size=3, version="6")))
    assert (3, False, 0.0, ()) == elastic(picture)


def test_what_is_assumed_of_a_job_that_is_gone_goes() -> None:
    picture = live(train())
    jobs(picture)
    picture.elastic.assumed.assume(T, assumed(4))
    picture.drop(pytorchjob.KIND, "ns/t")
    assert {} == picture.elastic.assumed
    assert {} == jobs(picture)


def test_notes_for_the_owner_change_nothing() -> None:
    picture = live(train())
    jobs(picture)
    notes = {"maar.dev/workers": "2", "maar.dev/planned-workers": "4", "maar.dev/why": "waits"}
    assert picture.put(*decoded(train(version="2", annotations=notes))) is False
    assert {} == picture.take(NOW).changed
