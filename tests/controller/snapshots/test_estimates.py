"""Estimates of run times in snapshots: new while a job waits, kept once it runs, of the very job."""

from __future__ import annotations

from typing import Any

import msgspec

from maar.controller.snapshots.cache import Cache
from maar.kube.kinds import cluster as kinds
from maar.kube.picture.picture import Picture
from maar.kube.wire.cluster import Node
from maar.kube.wire.pods import Pod
from maar.model.jobs import Job
from maar.model.lengths import Estimate
from maar.model.tasks import Task


class Scene:
    """One pod on one node, and what is known of its length."""

    def __init__(self) -> None:
        self.known: Estimate | None = None
        self.picture = Picture(frozenset({"maar"}))
        self.cache = Cache(self.picture, self._length)
        node = {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "8", "pods": "110"}}}
        self.picture.put(kinds.NODES, msgspec.convert(node, Node))

    def _length(self, job: Job, tasks: tuple[Task, ...]) -> Estimate | None:
        return self.known

    def pod(self, uid: str = "u", **spec: Any) -> None:
        metadata = {"name": "train-1", "namespace": "team", "uid": uid}
        base = {"containers": [{"name": "c"}], "schedulerName": "maar"}
        manifest = {"metadata": metadata, "spec": base | spec, "status": {"phase": "Pending"}}
        self.picture.put(kinds.PODS, msgspec.convert(manifest, Pod))

    def told(self) -> Estimate | None:
        (job,) = self.cache.snapshot(1.0).jobs.jobs
        return job.estimate


def test_a_waiting_job_gets_the_newest_estimate_and_a_running_one_keeps_its_own() -> None:
    scene, first, second = Scene(), Estimate(10.0, 20.0, 10), Estimate(30.0, 40.0, 11)
    scene.pod()
    assert scene.told() is None
    scene.known = first
    assert scene.cache.learn()
    assert first == scene.told()
    assert not scene.cache.learn(), "nothing is new"
    scene.pod(nodeName="n1")
    assert first == scene.told()
    scene.known = second
    scene.cache.learn()
    scene.pod(nodeName="n1")
    assert first == scene.told()
    assert (first,) == tuple(job.estimate for job in scene.cache.cluster().jobs), "recordings have it"


def test_a_new_job_of_the_same_name_has_its_own_estimate() -> None:
    scene = Scene()
    scene.known = Estimate(10.0, 20.0, 10)
    scene.pod(nodeName="n1")
    assert scene.known == scene.told()
    scene.known = Estimate(30.0, 40.0, 11)
    scene.pod("v", nodeName="n1")
    assert scene.known == scene.told()
