"""The witness of fault tests notices everything that can go wrong, and nothing else."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from tests.support.faults.gangs import PODGROUPS, PYTORCHJOBS
from tests.support.faults.holders import SHARD_MAPS, SHARDS
from tests.support.faults.limits import QUEUES
from tests.support.faults.quantities import amount, requests
from tests.support.faults.shard_stage import undone
from tests.support.faults.witness import FINISH_S, MOST_S, Witness, Wrong
from tests.support.faults.writes import Write

from maar.config.file import default_config
from maar.decide import decide
from maar.model.snapshot import Snapshot
from maar.registry import catalog
from maar.shards.map import ShardMap
from maar.shards.slots import even
from maar.testing.builders import cluster, gang, node

GPU = "nvidia.com/gpu"
EVICTED = [{"type": "DisruptionTarget", "status": "True"}]


LONGEST = 10.0
"""How long a gang may be in part, in seconds."""


class Scene:
    """A witness with a node of 4 GPUs, and short ways to write."""

    def __init__(self) -> None:
        self.witness = Witness(LONGEST)
        self.now = 0.0
        self._revision = itertools.count(1)
        self.write("nodes", "n0", self.node())

    def write(self, resource: str, key: str, after: Any) -> None:
        self.witness.take(Write(next(self._revision), resource, key, after), self.now)

    def wait(self, seconds: float) -> None:
        """Time passes, and somebody writes something."""
        self.now += seconds
        self.write("events", "default/e", {"metadata": {"uid": "e"}})

    def queue(self, name: str, limit: int, parent: str = "root") -> None:
        spec = {"capability": {GPU: str(limit)}, "parent": parent}
        self.write(QUEUES, name, {"metadata": {"uid": name}, "spec": spec})

    def lease(self, name: str, holder: str, intents: str = "", epoch: int = 0) -> None:
        notes = {"maar.dev/epoch": str(epoch)} | ({"maar.dev/intents": intents} if intents else {})
        spec = {"holderIdentity": holder, "renewTime": self.now}
        self.write("leases", f"kube-system/{name}", {"metadata": {"uid": name, "annotations": notes}, "spec": spec})

    def shard(self, number: int, epoch: int) -> None:
        self.write(SHARDS, f"shard-{number}", {"metadata": {"uid": "s"}, "status": {"epoch": epoch}})

    def shards(self, number: int, **queues: int) -> None:
        spec = {"shards": number, "slots": [0] * 256, "queues": queues}
        self.write(SHARD_MAPS, "maar", {"metadata": {"uid": "m"}, "spec": spec})

    @staticmethod
    def node(**notes: str) -> dict[str, Any]:
        return {"metadata": {"uid": "n0", "annotations": notes}, "status": {"allocatable": {GPU: "4", "pods": "3"}}}

    def group(self, name: str, minimum: int, queue: str = "") -> None:
        spec = {"minMember": minimum, "queue": queue}
        self.write(PODGROUPS, f"default/{name}", {"metadata": {"uid": name}, "spec": spec})

    def pod(self, name: str, on: str = "", gpus: str = "2", group: str = "", **status: Any) -> None:
        notes = {"scheduling.k8s.io/group-name": group} if group else {}
        meta = {"uid": name, "namespace": "default", "annotations": notes}
        spec: dict[str, Any] = {"containers": [{"resources": {"limits": {GPU: gpus}}}]}
        spec |= {"nodeName": on} if on else {}
        self.write("pods", f"default/{name}", {"metadata": meta, "spec": spec, "status": status})

    def bind(self, name: str, on: str = "n0", **more: Any) -> None:
        self.pod(name, **more)
        self.pod(name, on, **more)

    def leaving(self, name: str, **more: Any) -> None:
        """A pod that runs is terminating."""
        self.pod(name, "n0", **more)
        pod = self.witness.objects["pods"][f"default/{name}"]
        self.write("pods", f"default/{name}", {**pod, "metadata": {**pod["metadata"], "deletionTimestamp": "now"}})

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


def freed_and_bound_again(scene: Scene) -> None:
    scene.bind("a")
    scene.pod("a")
    scene.pod("a", "n1")


def in_part_for_long(scene: Scene) -> None:
    scene.group("g", 2)
    scene.bind("a", group="g")
    scene.wait(LONGEST + 1)
    scene.wait(LONGEST + 1)


def whole_in_time(scene: Scene) -> None:
    scene.group("g", 2)
    scene.bind("a", group="g")
    scene.wait(LONGEST - 1)
    scene.bind("b", group="g")
    scene.wait(LONGEST)


def in_part_after_it_was_whole(scene: Scene) -> None:
    whole_in_time(scene)
    scene.pod("b", "n0", group="g", conditions=EVICTED)
    scene.gone("b")
    scene.wait(LONGEST + 1)


def deleted_in_part(scene: Scene) -> None:
    scene.group("g", 2)
    scene.bind("a", group="g")
    scene.witness.gangs.ending.add(f"{PODGROUPS}/default/g")
    scene.wait(LONGEST + 1)


def in_part_since_a_fault(scene: Scene) -> None:
    scene.shards(2, q=1)
    scene.group("g", 2, "q")
    scene.bind("a", group="g")
    scene.wait(LONGEST - 1)
    scene.witness.shards.disturb(scene.now, [1])
    scene.wait(LONGEST - 4)


def in_part_long_after_a_fault(scene: Scene) -> None:
    in_part_since_a_fault(scene)
    scene.wait(5)


def in_part_since_the_holder_changed(scene: Scene) -> None:
    scene.shards(2, q=1)
    scene.lease("maar-shard-1", "host_7")
    scene.group("g", 2, "q")
    scene.bind("a", group="g")
    scene.wait(LONGEST - 1)
    scene.lease("maar-shard-1", "host_8")
    scene.shard(1, 0)
    scene.wait(LONGEST - 4)
    scene.lease("maar-shard-1", "host_8", "{}")


def in_part_while_the_holder_stays(scene: Scene) -> None:
    in_part_since_the_holder_changed(scene)
    scene.wait(LONGEST - 1 + FINISH_S)


def in_part_while_another_shard_fails(scene: Scene) -> None:
    scene.shards(2, q=1)
    scene.group("g", 2, "q")
    scene.bind("a", group="g")
    scene.wait(LONGEST - 1)
    scene.witness.shards.disturb(scene.now, [0])
    scene.wait(2)


def empty(scene: Scene) -> None:
    scene.queue("q", 2)
    scene.group("g", 1, "q")


def at_its_limit(scene: Scene) -> None:
    empty(scene)
    scene.bind("a", group="g", gpus="2")


def above_its_limit(scene: Scene) -> None:
    at_its_limit(scene)
    scene.bind("b", group="g", gpus="1")


def above_the_limit_of_the_parent(scene: Scene) -> None:
    scene.queue("above", 2)
    for name in ("one", "two"):
        scene.queue(name, 4, "above")
        scene.group(name, 1, name)
        scene.bind(f"{name}-0", group=name, gpus="1" if name == "one" else "2")


def another_queue(scene: Scene) -> None:
    at_its_limit(scene)
    scene.queue("other", 4)
    scene.group("h", 1, "other")
    scene.bind("b", group="h")


def within_after_a_pod_left(scene: Scene) -> None:
    at_its_limit(scene)
    scene.pod("a", "n0", group="g", phase="Succeeded")
    scene.bind("b", group="g")


def above_while_an_eviction_is_announced(scene: Scene) -> None:
    at_its_limit(scene)
    scene.lease("maar-shard-1", "host_7", '{"/api/v1/namespaces/default/pods":["a"]}')
    scene.bind("b", group="g")


def above_until_a_pod_is_evicted(scene: Scene) -> None:
    above_its_limit(scene)
    scene.pod("a", "n0", group="g", conditions=EVICTED)
    scene.witness.evictions = {"a"}
    scene.gone("a")


def above_when_the_holder_died_before_it_evicted(scene: Scene) -> None:
    scene.witness.shards.disturb(scene.now, [0])
    above_its_limit(scene)
    scene.witness.shards.disturb(scene.now, [0])


def within_after_an_eviction_was_accepted(scene: Scene) -> None:
    at_its_limit(scene)
    scene.leaving("a", group="g")
    scene.bind("b", group="g")


def workers(scene: Scene, size: int, suspended: bool = False) -> None:
    """An elastic job of 1 to 3 workers in a queue for 2 GPUs, with 2 workers on n0."""
    resized(scene, size, suspended)
    for name in ("e-0", "e-1"):
        meta = {"uid": name, "namespace": "default", "labels": {"training.kubeflow.org/job-name": "e"}}
        pod: dict[str, Any] = {"metadata": meta, "spec": {"containers": [{"resources": {"limits": {GPU: "1"}}}]}}
        scene.write("pods", f"default/{name}", pod)
        scene.write("pods", f"default/{name}", {**pod, "spec": {**pod["spec"], "nodeName": "n0"}})


def resized(scene: Scene, size: int, suspended: bool = False) -> None:
    spec: dict[str, Any] = {"pytorchReplicaSpecs": {"Worker": {"replicas": size}}, "elasticPolicy": {"minReplicas": 1}}
    spec["runPolicy"] = {"schedulingPolicy": {"queue": "q"}, "suspend": suspended}
    scene.write(PYTORCHJOBS, "default/e", {"metadata": {"uid": "e"}, "spec": spec})


def above_while_a_job_is_too_large(scene: Scene) -> None:
    empty(scene)
    workers(scene, 2)
    scene.bind("b", group="g", gpus="1")


def within_while_a_job_shrinks(scene: Scene) -> None:
    empty(scene)
    workers(scene, 2)
    resized(scene, 1)
    scene.bind("b", group="g", gpus="1")


def within_while_a_job_stops(scene: Scene) -> None:
    empty(scene)
    workers(scene, 2)
    resized(scene, 2, suspended=True)
    scene.bind("b", group="g")


def above_while_a_smaller_size_is_announced(scene: Scene) -> None:
    empty(scene)
    workers(scene, 2)
    scene.lease("maar", "host_7", '{"/apis/kubeflow.org/v1/namespaces/default/pytorchjobs":["e"]}')
    scene.bind("b", group="g", gpus="1")


def above_when_a_job_grows_again(scene: Scene) -> None:
    within_while_a_job_shrinks(scene)
    resized(scene, 2)


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
        (freed_and_bound_again, [Wrong.BOUND_TWICE, Wrong.BOUND_TWICE]),
        (in_part_for_long, [Wrong.IN_PART]),
        (whole_in_time, []),
        (in_part_after_it_was_whole, [Wrong.IN_PART]),
        (deleted_in_part, []),
        (in_part_since_a_fault, []),
        (in_part_long_after_a_fault, [Wrong.IN_PART]),
        (in_part_since_the_holder_changed, []),
        (in_part_while_the_holder_stays, [Wrong.IN_PART]),
        (in_part_while_another_shard_fails, [Wrong.IN_PART]),
        (at_its_limit, []),
        (above_its_limit, [Wrong.ABOVE_LIMIT]),
        (above_the_limit_of_the_parent, [Wrong.ABOVE_LIMIT]),
        (another_queue, []),
        (within_after_a_pod_left, []),
        (above_while_an_eviction_is_announced, [Wrong.ABOVE_LIMIT]),
        (above_until_a_pod_is_evicted, [Wrong.ABOVE_LIMIT]),
        (above_when_the_holder_died_before_it_evicted, [Wrong.ABOVE_LIMIT]),
        (within_after_an_eviction_was_accepted, []),
        (above_while_a_job_is_too_large, [Wrong.ABOVE_LIMIT]),
        (within_while_a_job_shrinks, []),
        (within_while_a_job_stops, []),
        (above_while_a_smaller_size_is_announced, [Wrong.ABOVE_LIMIT]),
        (above_when_a_job_grows_again, [Wrong.ABOVE_LIMIT]),
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


def test_holders_of_shards() -> None:
    scene = Scene()
    shards = scene.witness.shards
    assert (1, [0], 0) == (shards.wanted(), shards.members(), shards.shard_of("q"))
    scene.lease("maar", "host_a_7")
    scene.lease("maar-shard-1", "host_b_8")
    scene.lease("maar-shard-2", "host_a_7")
    scene.lease("apiserver-x", "host_a_7")
    scene.shards(2, q=2)
    assert {0: "host_a_7", 1: "host_b_8", 2: "host_a_7"} == shards.by_shard()
    assert ([0, 2], [1]) == (shards.of_process(7), shards.of_process(8))
    assert (2, [0, 1, 2], 2, 0) == (shards.wanted(), shards.members(), shards.shard_of("q"), shards.shard_of("p"))
    scene.shards(2, p=1)
    assert 2 == scene.witness.counts["moves"]


def test_how_long_a_take_over_lasts() -> None:
    scene = Scene()
    shards, lease = scene.witness.shards, partial(scene.lease, "maar-shard-1")
    lease("host_7", epoch=1)
    scene.shard(1, 1)
    assert [] == shards.take_overs, "the first holder took over from nobody"
    scene.wait(1)
    lease("host_7", "{}", epoch=1)
    scene.wait(4)
    lease("host_8", epoch=2)
    scene.shard(1, 1)
    assert (4.0, LONGEST) == (shards.longest_take_over(scene.now), scene.witness.allowed_part(scene.now))
    scene.wait(4)
    lease("host_9", epoch=3)
    scene.shard(1, 2)
    scene.wait(1)
    assert 9.0 == shards.longest_take_over(scene.now), "the second one has not decided"
    scene.shard(1, 3)
    scene.wait(100)
    assert [9.0] == shards.take_overs
    assert 9.0 + FINISH_S == scene.witness.allowed_part(scene.now)
    lease("host_7", epoch=4)
    scene.wait(100)
    assert MOST_S + FINISH_S == scene.witness.allowed_part(scene.now), "such a take-over has failed"


def test_what_is_left_over() -> None:
    scene = Scene()
    scene.pod("a", nominatedNodeName="n0")
    scene.bind("b")
    scene.pod("b", "n0", nominatedNodeName="n0")
    scene.write("nodes", "n0", scene.node(**{"maar.dev/locked-for": "default/g"}))
    notes = {"maar.dev/intents": '{"/api/v1/namespaces/default/pods":["a"]}', "maar.dev/epoch": "3"}
    scene.write("leases", "kube-system/maar", {"metadata": {"uid": "l", "annotations": notes}})
    state = {
        "maar": '{"elect":{"job":"default/g","since":1}}',
        "other": '{"resized":{"default":1}}',
        "maar..facts": '[{"plugin":"sla"}]',
    }
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


def test_what_one_maar_would_still_do() -> None:
    config = default_config(catalog())
    idle = decide(Snapshot(cluster(node("n0", gpu=4), gang("g", 2, gpu=2, on=["n0", "n0"]))), config, 1.0)
    waits = decide(Snapshot(cluster(node("n0", gpu=4), gang("g", 2, gpu=2))), config, 1.0)
    assert ([], 2) == (undone(idle), len(undone(waits)))


def test_the_shard_of_a_queue_is_the_one_that_maar_sees() -> None:
    scene, slots = Scene(), even(3)
    spec = {"shards": 3, "slots": list(slots)}
    scene.write(SHARD_MAPS, "maar", {"metadata": {"uid": "m"}, "spec": spec})
    for name in ("red", "blue", "white", "green-a"):
        assert ShardMap(3, slots).shard_of(name) == scene.witness.shards.shard_of(name)


def test_quantities_and_requests() -> None:
    assert [1, 1500, 2048] == [amount("1000m"), amount("1.5k"), amount("2Ki")]
    container = {"resources": {"requests": {"cpu": "500m"}, "limits": {GPU: "2"}}}
    first = {"resources": {"requests": {"cpu": "2"}}}
    spec = {"containers": [container, container], "initContainers": [first], "overhead": {"cpu": "1"}}
    assert {"cpu": 3, GPU: 4, "pods": 1} == requests(spec)
