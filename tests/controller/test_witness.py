"""The witness of fault tests notices everything that can go wrong, and nothing else."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.faults.gangs import PODGROUPS
from tests.support.faults.quantities import amount, requests
from tests.support.faults.witness import Witness, Wrong
from tests.support.faults.writes import Write

GPU = "nvidia.com/gpu"
EVICTED = [{"type": "DisruptionTarget", "status": "True"}]


class Scene:
    """A witness with a node of 4 GPUs, and short ways to write."""

    def __init__(self) -> None:
        self.witness = Witness()
        self._revision = itertools.count(1)
        self.write("nodes", "n0", self.node())

    def write(self, resource: str, key: str, after: Any) -> None:
        self.witness.take(Write(next(self._revision), resource, key, after))

    @staticmethod
    def node(**notes: str) -> dict[str, Any]:
        return {"metadata": {"uid": "n0", "annotations": notes}, "status": {"allocatable": {GPU: "4", "pods": "3"}}}

    def group(self, name: str, minimum: int) -> None:
        self.write(PODGROUPS, f"default/{name}", {"metadata": {"uid": name}, "spec": {"minMember": minimum}})

    def pod(self, name: str, on: str = "", gpus: str = "2", group: str = "", **status: Any) -> None:
        notes = {"scheduling.k8s.io/group-name": group} if group else {}
        meta = {"uid": name, "namespace": "default", "annotations": notes}
        spec: dict[str, Any] = {"containers": [{"resources": {"limits": {GPU: gpus}}}]}
        spec |= {"nodeName": on} if on else {}
        self.write("pods", f"default/{name}", {"metadata": meta, "spec": spec, "status": status})

    def bind(self, name: str, on: str = "n0", **more: Any) -> None:
        self.pod(name, **more)
        self.pod(name, on, **more)

    def gone(self, name: str) -> None:
        self.write("pods", f"default/{name}", None)

    def wrong(self) -> list[Wrong]:
        return [finding.wrong for finding in self.witness.findings]


def full(scene: Scene) -> None:
    scene.bind("a")
    scene.bind("b")


def too_many(scene: Scene) -> None:
    full(scene)
    scene.bind("c", gpus="1")


def too_many_pods(scene: Scene) -> None:
    for name in "abcd":
        scene.bind(name, gpus="0")


def bound_while_a_victim_leaves(scene: Scene) -> None:
    full(scene)
    scene.pod("b", "n0", conditions=EVICTED)
    scene.bind("c")


def bound_after_a_victim_left(scene: Scene) -> None:
    full(scene)
    scene.pod("b", "n0", conditions=EVICTED)
    scene.gone("b")
    scene.bind("c")


def bound_after_a_pod_ended(scene: Scene) -> None:
    full(scene)
    scene.pod("b", "n0", phase="Succeeded")
    scene.bind("c")


def created_on_a_full_node(scene: Scene) -> None:
    full(scene)
    scene.pod("tenant", "n0")


def moved(scene: Scene) -> None:
    scene.bind("a")
    scene.pod("a", "n1")


def vanished(scene: Scene) -> None:
    scene.bind("a")
    scene.gone("a")


def deleted_by_its_user(scene: Scene) -> None:
    scene.bind("a")
    scene.witness.expected.add("pods/default/a")
    scene.gone("a")


def evicted_before_it_ran(scene: Scene) -> None:
    scene.bind("a")
    scene.witness.evictions = {"a"}
    scene.gone("a")


@pytest.mark.parametrize(
    ("story", "wrong"),
    [
        (full, []),
        (too_many, [Wrong.OVER_COMMIT]),
        (too_many_pods, [Wrong.OVER_COMMIT]),
        (bound_while_a_victim_leaves, [Wrong.OVER_COMMIT]),
        (bound_after_a_victim_left, []),
        (bound_after_a_pod_ended, []),
        (created_on_a_full_node, []),
        (moved, [Wrong.BOUND_TWICE]),
        (vanished, [Wrong.LOST]),
        (deleted_by_its_user, []),
        (evicted_before_it_ran, []),
    ],
)
def test_findings(story: Callable[[Scene], None], wrong: list[Wrong]) -> None:
    scene = Scene()
    story(scene)
    assert wrong == scene.wrong()


def test_a_gang_is_in_part_between_none_and_its_minimum() -> None:
    scene = Scene()
    scene.group("g", 2)
    gangs = scene.witness.gangs
    scene.pod("a", group="g")
    assert ([], set()) == (gangs.in_part(), gangs.ran)
    scene.bind("a", group="g")
    assert ([f"{PODGROUPS}/default/g: 1 of 2"], set()) == (gangs.in_part(), gangs.ran)
    scene.bind("b", group="g")
    assert ([], {"g"}) == (gangs.in_part(), gangs.ran)


def test_what_is_left_over() -> None:
    scene = Scene()
    scene.pod("a", nominatedNodeName="n0")
    scene.bind("b")
    scene.pod("b", "n0", nominatedNodeName="n0")
    scene.write("nodes", "n0", scene.node(**{"maar.dev/locked-for": "default/g"}))
    notes = {"maar.dev/intents": '{"/api/v1/namespaces/default/pods":["a"]}', "maar.dev/epoch": "3"}
    scene.write("leases", "kube-system/maar", {"metadata": {"uid": "l", "annotations": notes}})
    state = {"maar": '{"elect":{"job":"default/g","since":1}}', "other": '{"resized":{"default":1}}'}
    scene.write("configmaps", "kube-system/maar-state", {"metadata": {"uid": "s"}, "data": state})
    job = {"metadata": {"uid": "j", "annotations": {"maar.dev/holds": '{"n0":1}'}}, "spec": {"parallelism": 1}}
    scene.write("jobs", "default/j", job)
    assert [
        "election of maar: {'job': 'default/g', 'since': 1}",
        'hold on jobs default/j: {"n0":1}',
        'intents on lease kube-system/maar: {"/api/v1/namespaces/default/pods":["a"]}',
        "lock on nodes n0: default/g",
        "nomination of default/a: n0",
    ] == scene.witness.left_over()


def test_quantities_and_requests() -> None:
    assert [1, 1500, 2048] == [amount("1000m"), amount("1.5k"), amount("2Ki")]
    container = {"resources": {"requests": {"cpu": "500m"}, "limits": {GPU: "2"}}}
    first = {"resources": {"requests": {"cpu": "2"}}}
    spec = {"containers": [container, container], "initContainers": [first], "overhead": {"cpu": "1"}}
    assert {"cpu": 3, GPU: 4, "pods": 1} == requests(spec)
