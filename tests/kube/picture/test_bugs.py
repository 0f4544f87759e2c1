"""An unexpected error while one object is read, a bug of ours, makes that object invalid; everything else continues."""

from __future__ import annotations

import pytest
from tests.support.objects import Json, decoded

from maar.kube.picture.picture import Picture
from maar.kube.read.knowledge import Learnt, Who
from maar.kube.wire.cluster import Node

NOW = 1000.0


def node(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": {"cpu": "8"}}}


def pod(name: str, on: str = "") -> Json:
    metadata = {"name": name, "namespace": "ns", "uid": name, "labels": {"training.kubeflow.org/job-name": name}}
    spec = {"schedulerName": "maar", "nodeName": on, "containers": [{"name": "c"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def elastic(name: str) -> Json:
    template = {"spec": {"schedulerName": "maar", "containers": [{"name": "c"}]}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name, "namespace": "ns", "uid": name},
        "spec": {
            "elasticPolicy": {"minReplicas": 1, "maxReplicas": 4},
            "pytorchReplicaSpecs": {"Worker": {"replicas": 1, "template": template}},
        },
    }


class Oracle:
    """Fails for one job."""

    def __call__(self, who: Who) -> Learnt:
        if who.name == "bad":
            raise ZeroDivisionError("no such speed")
        return Learnt()


def test_safety_a_gang_that_cannot_be_made_waits_with_the_reason_and_keeps_its_room(
    caplog: pytest.LogCaptureFixture,
) -> None:
    picture = Picture(frozenset({"maar"}), knowledge=Oracle())
    for item in (node("n1"), elastic("bad"), elastic("good"), pod("bad", "n1"), pod("good")):
        picture.put(*decoded(item))
    for _ in range(3):
        cluster = picture.cluster(picture.take(NOW).around)
        picture.put(*decoded(elastic("bad") | {"status": {"conditions": [{"type": "Running"}]}}))
    broken = {job.key: job.broken for job in cluster.jobs}
    assert {"ns/bad": "cannot be read because of a bug: ZeroDivisionError: no such speed", "ns/good": ""} == broken
    assert {"ns/bad": "n1", "ns/good": ""} == {task.key: task.node for task in cluster.tasks}
    assert picture.problems.bugs >= 1
    assert 1 == caplog.text.count("because of a bug"), "logged once"


def test_safety_an_object_that_cannot_be_taken_in_is_left_out() -> None:
    def ours(item: Node) -> bool:
        if item.name == "bad" and item.metadata.labels:
            raise KeyError("label")
        return True

    picture = Picture(ours=ours)
    for item in (node("bad"), node("good")):
        picture.put(*decoded(item))
    assert ["bad", "good"] == [found.name for found in picture.take(NOW).around.nodes]
    labelled = node("bad")
    labelled["metadata"]["labels"] = {"x": "y"}
    assert picture.put(*decoded(labelled))
    update = picture.take(NOW)
    assert (["good"], True) == ([found.name for found in update.around.nodes], update.rebuild)
    assert 1 == picture.problems.bugs
