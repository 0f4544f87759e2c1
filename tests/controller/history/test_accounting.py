"""Accounts and runs of jobs, cycle by cycle, from what watches show to what the history is told."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

import msgspec

from maar.controller.history.accounting import Accounting
from maar.controller.history.lives import Lives
from maar.controller.history.runs import Runs
from maar.controller.snapshots.cache import Cache
from maar.history.history import History
from maar.history.records import Event, EventKind, FinishedRun
from maar.kube.kinds import cluster as kinds
from maar.kube.kinds import volcano_podgroup
from maar.kube.kinds.kubeflow import pytorchjob
from maar.kube.picture.picture import Picture
from maar.kube.wire import cluster as wire
from maar.kube.wire.pods import Pod
from maar.model.plan import Plan

START = 1.793e9
GROUP, JOB = volcano_podgroup.KIND, pytorchjob.KIND
LABELS = "training.kubeflow.org"


class Kept:
    """What a history is told."""

    problem = ""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.runs: list[FinishedRun] = []
        self._last: dict[str, Event] = {}
        self.nodes: dict[str, list[str]] = {}

    def record(self, event: Event) -> None:
        self.events.append(event)
        self._last[event.job] = event

    def finished(self, run: FinishedRun) -> None:
        self.runs.append(run)

    def last(self, job: str) -> Event | None:
        return next((event for event in self.unfinished() if event.job == job), None)

    def unfinished(self) -> list[Event]:
        return [event for event in self._last.values() if event.kind is not EventKind.ENDED]

    def runs_on(self, job: str, nodes: list[str]) -> None:
        self.nodes[job] = nodes


class Scene:
    """A cluster of one node, and a Maar that follows it and decides nothing."""

    def __init__(self) -> None:
        self.kept = Kept()
        self._objects: dict[tuple[str, str], tuple[Any, Any]] = {}
        self.begin()
        status = {"allocatable": {"cpu": "64", "pods": "64", "nvidia.com/gpu": "64"}}
        status["conditions"] = [{"type": "Ready", "status": "True"}]  # type: ignore[assignment]
        self._put(kinds.NODES, {"metadata": {"name": "n0"}, "status": status}, wire.Node)

    def begin(self) -> None:
        """Another Maar."""
        self.picture, history = Picture(), cast(History, self.kept)
        for kind, item in self._objects.values():
            self.picture.put(kind, item)
        self._cache = Cache(self.picture)
        lives = Lives(self.picture)
        accounting, runs = Accounting(lives, self.picture, history), Runs(self.picture, history)
        lives.listeners += accounting.on_moment, runs.on_moment
        self._listeners = lives.on_cycle, accounting.on_cycle

    def cycle(self, now: float) -> list[tuple[str, float, int, int, float | None]]:
        """What the history is told of one cycle: kind, time, workers before and after, GPU seconds."""
        before = len(self.kept.events)
        self._cache.snapshot(START + now)
        cycle = self._cache.publish(1, Plan(), START + now)
        for listener in self._listeners:
            listener(cycle)
        assert 0 == self.picture.problems.bugs
        return [(e.kind, e.at - START, e.before, e.after, e.attained) for e in self.kept.events[before:]]

    def _put(self, kind: Any, body: dict[str, Any], struct: Any) -> None:
        item = msgspec.convert(body, struct)
        self._objects[str(kind), item.metadata.name] = kind, item
        self.picture.put(kind, item)

    def drop(self, kind: Any, name: str) -> None:
        del self._objects[str(kind), name]
        self.picture.drop(kind, f"ns/{name}")

    def group(self, name: str, minimum: int) -> None:
        metadata = {"namespace": "ns", "name": name, "uid": f"{name}-uid", "creationTimestamp": _time(0)}
        self._put(GROUP, {"metadata": metadata, "spec": {"minMember": minimum}}, GROUP.resource.struct)

    def job(self, name: str, size: int, *conditions: str) -> None:
        metadata = {"namespace": "ns", "name": name, "uid": f"{name}-uid", "creationTimestamp": _time(0)}
        container = {"name": "pytorch", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
        worker = {"replicas": size, "template": {"spec": {"schedulerName": "maar", "containers": [container]}}}
        spec = {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 4}, "pytorchReplicaSpecs": {"Worker": worker}}
        seen = [{"type": name, "status": "True", "lastTransitionTime": _time(0)} for name in conditions]
        self._put(JOB, {"metadata": metadata, "spec": spec, "status": {"conditions": seen}}, JOB.resource.struct)

    def pod(self, job: str, number: int, phase: str = "Pending", started: float | None = None, **more: Any) -> None:
        """A pod of a gang, or of an elastic job."""
        name = f"{job}-{number}"
        metadata: dict[str, Any] = {
            "namespace": "ns",
            "name": name,
            "uid": f"{name}-uid",
            "creationTimestamp": _time(0),
        }
        if (str(JOB), job) in self._objects:
            labels = {"job-name": job, "replica-type": "worker", "replica-index": str(number)}
            metadata["labels"] = {f"{LABELS}/{key}": value for key, value in labels.items()}
        else:
            metadata["annotations"] = {"scheduling.k8s.io/group-name": job}
        resources = {"limits": {"nvidia.com/gpu": "1"}, "requests": {"cpu": "1"}}
        spec: dict[str, Any] = {"schedulerName": "maar", "containers": [{"name": "c", "resources": resources}]}
        status = {"phase": phase}
        if started is not None:
            spec["nodeName"], status["startTime"] = "n0", _time(started)
        self._put(kinds.PODS, {"metadata": {**metadata, **more}, "spec": spec, "status": status}, Pod)


def _time(at: float) -> str:
    return datetime.fromtimestamp(START + at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def test_a_gang_that_runs_when_maar_first_sees_it() -> None:
    """It has used no GPU before its pods started."""
    scene = Scene()
    scene.group("g", 2)
    for i in range(2):
        scene.pod("g", i, "Running", 100.0)
    assert [("submitted", 0.0, 0, 0, 0.0), ("started", 100.0, 0, 2, 0.0)] == scene.cycle(150.0)
    for i in range(2):
        scene.pod("g", i, "Succeeded", 100.0)
    assert [("ended", 160.0, 2, 0, 120.0)] == scene.cycle(160.0)
    assert [("completed", 60.0)] == [(run.how, run.seconds) for run in scene.kept.runs]
    scene.pod("g", 0, "Succeeded", 100.0, deletionTimestamp=_time(170))
    assert [] == scene.cycle(170.0)
    assert 1 == len(scene.kept.runs), "a later change of an ended job is no second run"


def test_a_gang_that_stopped_while_no_maar_ran() -> None:
    """It has stopped when the next Maar sees that it waits; until then its pods may still be going."""
    scene = Scene()
    scene.group("g", 1)
    scene.pod("g", 0, "Running", 100.0)
    scene.cycle(100.0)
    scene.pod("g", 0, "Running", 100.0, deletionTimestamp=_time(140))
    scene.begin()
    assert [] == scene.cycle(150.0)
    scene.drop(kinds.PODS, "g-0")
    scene.pod("g", 1)
    assert [("stopped", 160.0, 1, 0, 50.0)] == scene.cycle(160.0)


def test_a_later_gang_with_the_name_of_one_that_ended_while_no_maar_ran() -> None:
    scene = Scene()
    scene.group("g", 1)
    scene.pod("g", 0, "Running", 100.0)
    scene.cycle(100.0)
    scene.drop(GROUP, "g")
    scene.drop(kinds.PODS, "g-0")
    for i in range(2):
        scene.pod("g", i)  # of no group: another gang
    scene.begin()
    assert ["ended", "submitted"] == [kind for kind, *_ in scene.cycle(150.0)]


def test_pods_that_are_left_of_an_elastic_job_are_no_job() -> None:
    scene = Scene()
    scene.job("j", 2)
    for i in range(2):
        scene.pod("j", i, "Running", 10.0)
    assert [("submitted", 0.0, 0, 0, 0.0), ("started", 10.0, 0, 2, 0.0)] == scene.cycle(20.0)
    assert ["n0", "n0"] == scene.kept.nodes["ns/j"]
    scene.drop(JOB, "j")
    assert [("ended", 30.0, 2, 0, 40.0)] == scene.cycle(30.0)
    assert [("deleted", "j-uid")] == [(run.how, run.uid) for run in scene.kept.runs]
    for i in range(2):
        scene.drop(kinds.PODS, f"j-{i}")
    assert [] == scene.cycle(40.0)
    assert [] == scene.kept.nodes["ns/j"]


def test_an_elastic_job_ends_when_its_object_says_so() -> None:
    scene = Scene()
    scene.job("j", 1)
    scene.pod("j", 0, "Running", 10.0)
    scene.cycle(10.0)
    scene.pod("j", 0, "Succeeded", 10.0)
    assert [] == scene.cycle(30.0), "its operator may start it again"
    scene.job("j", 1, "Succeeded")
    assert ["ended"] == [kind for kind, *_ in scene.cycle(40.0)]
    assert [("completed", 20.0)] == [(run.how, run.seconds) for run in scene.kept.runs]
