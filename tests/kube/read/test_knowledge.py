"""Knowledge about elastic jobs is added to them, and read again when it may have changed."""

from __future__ import annotations

import math
from typing import Any

import pytest
from tests.support.objects import decoded

from maar.kube.kinds.kind import COMPLETED, DELETED, FAILED, End, JobKind
from maar.kube.kinds.kubeflow import pytorchjob
from maar.kube.picture.picture import Picture
from maar.kube.read.knowledge import Knowledge, Learnt, Who
from maar.lengths.runtimes import Traits
from maar.model.elastic import Elastic
from maar.model.lengths import Estimate

GPU = "nvidia.com/gpu"


class Oracle:
    """A source of knowledge that returns `says`."""

    def __init__(self) -> None:
        self.says = Learnt()
        self.asked: list[Who] = []

    def __call__(self, who: Who) -> Learnt:
        self.asked.append(who)
        return self.says


def pytorch(
    annotations: dict[str, str] | None = None, labels: dict[str, str] | None = None, gpus: int = 1, **spec: Any
) -> dict[str, Any]:
    resources = {"requests": {"cpu": "1"}, "limits": {GPU: str(gpus)} if gpus else {}}
    template = {"spec": {"schedulerName": "maar", "containers": [{"name": "c", "resources": resources}], **spec}}
    metadata = {"name": "t-1", "namespace": "ns", "uid": "u", "annotations": annotations or {}, "labels": labels or {}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": metadata,
        "spec": {
            "elasticPolicy": {"minReplicas": 1, "maxReplicas": 4},
            "pytorchReplicaSpecs": {"Worker": {"replicas": 2, "template": template}},
        },
    }


def picture(oracle: Knowledge | None, item: dict[str, Any]) -> Picture:
    made = Picture(frozenset({"maar"}), knowledge=oracle)
    made.put(*decoded(item))
    return made


def taken(of: Picture) -> Elastic | None:
    """The job if it has changed, else `None`."""
    changed = of.take(1000.0).changed.get("ns/t-1")
    return None if changed is None else changed[0].elastic


def test_knowledge_is_added_to_a_job() -> None:
    oracle = Oracle()
    oracle.says = Learnt(((1, 1.0), (2, 1.5)), 60.0, 9.0)
    found = taken(picture(oracle, pytorch()))
    assert found is not None
    assert oracle.says == Learnt(found.speedup, found.remaining, found.restart)


def test_a_job_is_compared_by_its_name_and_the_size_that_its_owner_requested() -> None:
    oracle = Oracle()
    oracle.says = Learnt(length=Estimate(60.0, 90.0, 10), kind="ns/t")
    found = taken(picture(oracle, pytorch({"maar.dev/max-runtime": "1h"}, gpus=8)))
    assert found is not None
    assert (oracle.says.length, "ns/t") == (found.length, found.kind)
    assert [Who("ns", "t-1", "", GPU, None, Traits("ns", "t", 16), 2, 4)] == oracle.asked, "without what it promises"


def test_without_a_source_nothing_is_known() -> None:
    found = taken(picture(None, pytorch()))
    assert found is not None
    assert ((), math.inf, None) == (found.speedup, found.remaining, found.restart)


def test_the_annotation_of_a_job_overrides_the_known_restart_time() -> None:
    oracle = Oracle()
    oracle.says = Learnt(restart=9.0)
    found = taken(picture(oracle, pytorch({"maar.dev/restart-seconds": "4"})))
    assert found is not None
    assert 4.0 == found.restart


def test_only_new_knowledge_changes_a_job() -> None:
    oracle = Oracle()
    of = picture(oracle, pytorch())
    assert taken(of) is not None
    assert not of.learn()
    assert taken(of) is None
    oracle.says = Learnt(remaining=5.0)
    assert of.learn()
    found = taken(of)
    assert found is not None
    assert 5.0 == found.remaining
    assert not of.learn(), "it is no longer new"


def test_removed_jobs_are_not_read_again() -> None:
    oracle = Oracle()
    of = picture(oracle, pytorch())
    of.take(1000.0)
    of.drop(pytorchjob.KIND, "ns/t-1")
    of.take(1001.0)
    oracle.says = Learnt(remaining=5.0)
    assert not of.learn()


def affinity(key: str, *values: str) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


@pytest.mark.parametrize(
    ("job", "accelerator"),
    [
        (pytorch(), GPU),
        (pytorch(gpus=0), ""),
        (pytorch(nodeSelector={"nvidia.com/gpu.product": "A100", "zone": "x"}), "A100"),
        (pytorch(affinity=affinity("nvidia.com/gpu.product", "A100")), "A100"),
        (pytorch(affinity=affinity("nvidia.com/gpu.product", "A100", "H100")), GPU),
        (pytorch({"maar.dev/pool": "fast"}, nodeSelector={"nvidia.com/gpu.product": "A100"}), "fast"),
        (pytorch({"maar.dev/accelerator": "fast"}), "fast"),
    ],
)
def test_the_accelerator_of_a_job(job: dict[str, Any], accelerator: str) -> None:
    oracle = Oracle()
    picture(oracle, job).take(1000.0)
    assert [accelerator] == [who.accelerator for who in oracle.asked]


def test_the_category_of_a_job_is_an_annotation_or_label() -> None:
    asked = []
    for job in (
        pytorch({"maar.dev/category": "vision", "maar.dev/epochs": "90"}, {"maar.dev/category": "words"}),
        pytorch(labels={"maar.dev/category": "words"}),
    ):
        oracle = Oracle()
        picture(oracle, job).take(1000.0)
        asked += [(who.category, who.epochs) for who in oracle.asked]
    assert [("vision", 90), ("words", None)] == asked


def volcano(phase: str) -> dict[str, Any]:
    task = {"name": "worker", "replicas": 2, "template": {"spec": {"containers": []}}}
    head = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "t", "namespace": "ns"}}
    return {**head, "spec": {"tasks": [task]}, "status": {"state": {"phase": phase}}}


def batch(*types: str, **more: Any) -> dict[str, Any]:
    head = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "t", "namespace": "ns"}}
    conditions = [{"type": kind, "status": "True"} for kind in types]
    return {**head, "spec": more.pop("spec", {}), "status": {"conditions": conditions, **more}}


@pytest.mark.parametrize(
    ("item", "end"),
    [
        (batch("Complete", completionTime="2026-11-01T10:00:00Z"), End(COMPLETED, 1793527200.0)),
        (batch("Failed"), End(FAILED)),
        (batch("SuccessCriteriaMet"), None),
        (batch(), None),
        ({**pytorch(), "status": {"conditions": [{"type": "Succeeded", "status": "True"}]}}, End(COMPLETED)),
        ({**pytorch(), "status": {"conditions": [{"type": "Failed", "status": "True"}]}}, End(FAILED)),
        ({**pytorch(), "status": {"conditions": [{"type": "Failed", "status": "False"}]}}, None),
        (volcano("Completed"), End(COMPLETED)),
        (volcano("Terminated"), End(FAILED)),
        (volcano("Aborted"), None),
        ({**volcano(""), "metadata": {"name": "t", "deletionTimestamp": "2026-11-01T10:00:00Z"}}, End(DELETED)),
    ],
)
def test_how_jobs_end(item: dict[str, Any], end: End | None) -> None:
    kind, made = decoded(item)
    assert isinstance(kind, JobKind)
    assert end == kind.end_of(made)


@pytest.mark.parametrize(
    ("item", "paused"),
    [(volcano("Aborted"), True), (volcano("Running"), False), (batch(spec={"suspend": True}), True)],
)
def test_suspended_jobs(item: dict[str, Any], paused: bool) -> None:
    kind, made = decoded(item)
    assert isinstance(kind, JobKind)
    assert paused == kind.is_suspended(made)
