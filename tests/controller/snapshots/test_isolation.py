"""A decision that fails because of one job or object: it is set aside with the reason, and the rest is decided."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.confs import RECLAIM
from tests.support.facts import lost_of
from tests.support.objects import Json, decoded

from maar.config.config import Config, Registration
from maar.config.file import read_config
from maar.controller.loop import Loop
from maar.controller.settings.brakes import Brakes
from maar.controller.settings.settings import Settings
from maar.controller.snapshots.cache import SET_ASIDE, Cache
from maar.controller.snapshots.cycle import Cycle
from maar.controller.snapshots.isolation import MOST, Suspect, bare_around, bare_cluster, culprits
from maar.decide import decide
from maar.kube.picture.picture import Picture
from maar.kube.read.state import entry_of
from maar.model.plan import Plan
from maar.model.queues import Queue
from maar.model.reasons import Refusal
from maar.model.snapshot import Budget, Cluster, Snapshot
from maar.model.volumes import VolumeRoom
from maar.registry import catalog
from maar.session.register import Register
from maar.session.session import Session
from maar.testing import builders
from maar.testing.scenario import configured


@given(st.integers(1, 40), st.sets(st.integers(0, 39), max_size=5))
def test_safety_without_the_culprits_nothing_fails(count: int, bad: set[int]) -> None:
    suspects = [str(i) for i in range(count)]
    guilty = frozenset(str(i) for i in bad if i < count)
    assert guilty == culprits(lambda aside: bool(guilty - aside), suspects)


def test_if_it_fails_without_all_jobs_no_job_is_to_blame() -> None:
    assert culprits(lambda aside: True, ["a", "b"]) is None


class Fragile:
    """A plugin with a bug: it fails for jobs with one label value, whatever their state."""

    def __init__(self, arguments: object = None) -> None:
        pass

    def open(self, session: Session, on: Register) -> None:
        for task in session.snapshot.tasks.tasks:
            if any(r.values == ("fatal",) for r in task.shape.node_selector):
                raise ZeroDivisionError("a bug")


class Picky:
    """A plugin with many bugs: it fails for one value of each kind of object."""

    def __init__(self, arguments: object = None) -> None:
        pass

    def open(self, session: Session, on: Register) -> None:
        around = session.snapshot.cluster
        bugs = (
            any("fatal" in node.labels for node in around.nodes),
            any(queue.weight == 13 for queue in around.queues),
            any(budget.allowed == 13 for budget in around.budgets),
            any(hypernode.tier == 13 for hypernode in around.hypernodes),
            any(image.size == 13 for image in around.images),
            any(room.nodes.get("n1") == 13 for room in around.rooms),
            13 in around.namespace_weights.values(),
            any(13 in quota.hard.values() for quota in around.quotas),
            13 in around.resized.values(),
            around.elect is not None and around.elect.since == 13,
            any(lock.since == 13 for lock in around.locks),
            any(expired.at == 13 for expired in lost_of(around)),
            any(load.at == 13 for load in around.loads),
        )
        if any(bugs):
            raise ZeroDivisionError("a bug")


class Trap:
    """A plugin with a bug that any waiting job meets: it fails for a node when a pod is to be placed."""

    def __init__(self, arguments: object = None) -> None:
        pass

    def open(self, session: Session, on: Register) -> None:
        def refuse(shape: int) -> Iterable[Refusal]:
            if any("fatal" in node.labels for node in session.snapshot.nodes.nodes):
                raise ZeroDivisionError("a bug")
            return ()

        on.predicate(refuse)


def config(name: str, make: Callable[[object], Any]) -> Config:
    known = catalog()
    known = msgspec.structs.replace(known, plugins={**known.plugins, name: Registration(name, make)})
    text = f"actions: allocate\ntiers:\n- plugins: [{{name: {name}}}, {{name: gang}}, {{name: predicates}}]\n"
    return read_config(text, "test", known).config


def pod(name: str, on: str = "", **spec: Any) -> Json:
    container = {"name": "c", "image": "train:1", "resources": {"requests": {"cpu": "1"}}}
    metadata = {"name": name, "namespace": "ns", "uid": f"u-{name}", "labels": {"app": name}}
    of = {"schedulerName": "maar", "nodeName": on, "containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": of}


def node(name: str, cpu: int, labels: Json | None = None, annotations: Json | None = None, **status: Any) -> Json:
    metadata = {"name": name, "labels": labels or {}, "annotations": annotations or {}}
    status = {"allocatable": {"cpu": str(cpu)}, **status}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}


def thing(version: str, kind: str, name: str, namespace: str = "ns", **fields: Any) -> Json:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": namespace}, **fields}


def queue(name: str, weight: int) -> Json:
    return thing("scheduling.volcano.sh/v1beta1", "Queue", name, "", spec={"weight": weight})


def memory(**state: Any) -> Json:
    return thing("v1", "ConfigMap", "maar-state", "maar", data={entry_of(frozenset({"maar"})): json.dumps(state)})


DRIVER: Json = {"name": "disks", "nodeID": "n1", "allocatable": {"count": 13}}
FATAL: dict[str, Any] = {"nodeSelector": {"x": "fatal"}}


class Scene:
    """A loop without a server."""

    def __init__(self, *items: Json, config: Config | None = None) -> None:
        self.picture = Picture(frozenset({"maar"}))
        self.cache, self.now = Cache(self.picture), 1000.0
        chosen = (config or CONFIG, None)
        self.loop = Loop(self.cache, lambda: chosen, Settings(), Brakes(), clock=lambda: self.now)
        self.plans: list[Plan] = []
        self.loop.on_cycle.append(self._seen)
        self.put(*items)

    def _seen(self, cycle: Cycle) -> None:
        self.plans.append(cycle.plan)

    def put(self, *items: Json) -> None:
        for item in items:
            self.picture.put(*decoded(item))

    def cycle(self) -> Plan:
        self.cache.wake_all()
        asyncio.run(self.loop.once())
        return self.plans[-1]


CONFIG, PICKY, TRAP = config("fragile", Fragile), config("picky", Picky), config("trap", Trap)


def binds(plan: Plan) -> list[str]:
    return sorted(bind.task for bind in plan.bind)


def waits(plan: Plan) -> dict[str, str]:
    return {wait.job: wait.reasons[0].message for wait in plan.waiting}


def many(count: int) -> Iterable[Json]:
    return (pod(f"good-{i:02}") for i in range(count))


@pytest.mark.parametrize("count", [3, 30], ids=["in the loop", "in a thread"])
def test_safety_one_job_does_not_stop_the_decisions_about_others(count: int, caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene(node("n1", 100), *many(count), pod("bad", **FATAL))
    plan = scene.cycle()
    assert count == len(binds(plan))
    why = "left out for 10 minutes: cannot be read because of a bug: ZeroDivisionError: a bug"
    assert {"ns/bad": why} == waits(plan)
    assert {"job": 1} == scene.picture.problems.counts()
    looked = [r for r in caplog.records if "looking for the cause" in r.getMessage()]
    for _ in range(3):
        scene.now += 1
        scene.cycle()
    assert 1 == len(looked) == len([r for r in caplog.records if "looking for the cause" in r.getMessage()])


def test_safety_a_running_job_that_is_set_aside_keeps_its_room() -> None:
    scene = Scene(node("n1", 3), *many(5), pod("bad", "n1", **FATAL))
    assert 2 == len(binds(scene.cycle())), "its room counts"
    assert "ns/bad" in waits(scene.plans[-1])


def test_liveness_a_job_is_tried_again_after_a_while_and_forgotten_when_it_is_gone() -> None:
    scene = Scene(node("n1", 9), pod("bad", **FATAL))
    assert ["ns/bad"] == list(waits(scene.cycle()))
    scene.put(pod("bad"))
    scene.now += 1
    assert [] == binds(scene.cycle()), "a job that changes often does not cost a search each time"
    scene.now += SET_ASIDE
    assert ["ns/bad"] == binds(scene.cycle())
    assert {} == scene.picture.problems.counts()
    scene.put(pod("worse", **FATAL))
    scene.cycle()
    assert {"job": 1} == scene.picture.problems.counts()
    kind, item = decoded(pod("worse"))
    scene.picture.drop(kind, kind.key_of(item))
    scene.cycle()
    assert {} == scene.picture.problems.counts()


BUDGET = thing("policy/v1", "PodDisruptionBudget", "b", spec={"selector": {}}, status={"disruptionsAllowed": 13})
HYPERNODE = thing("topology.volcano.sh/v1alpha1", "HyperNode", "h", "", spec={"tier": 13, "members": []})
QUOTA = thing("v1", "ResourceQuota", "q", spec={"hard": {"volcano.sh/namespace.weight": "13"}})
POD_QUOTA = thing("v1", "ResourceQuota", "q", spec={"hard": {"pods": "13"}}, status={"hard": {"pods": "13"}})
CSI_NODE = thing("storage.k8s.io/v1", "CSINode", "n1", "", spec={"drivers": [DRIVER]})
ELECTED = {"job": "ns/x", "since": 13}
LOCK = {"maar.dev/locked-for": "ns/x", "maar.dev/locked-since": "1970-01-01T00:00:13Z"}
NODE_GROUPS: list[tuple[str, Json | None]] = [("cpu", None), ("gpu", {"fatal": ""})]
METRICS = thing("metrics.k8s.io/v1beta1", "NodeMetrics", "n1", "", timestamp="1970-01-01T00:00:13Z", usage={"cpu": 1})
LOST = {"job": "ns/x", "at": 13}


@pytest.mark.parametrize(
    ("item", "kind", "key"),
    [
        (queue("q", 13), "Queue", "q"),
        (node("n0", 100, {"fatal": ""}), "Node", "n0"),
        (BUDGET, "PodDisruptionBudget", "ns/b"),
        (HYPERNODE, "HyperNode", "h"),
        (QUOTA, "namespace weight", "ns"),
        (POD_QUOTA, "ResourceQuota", "ns/q"),
        (CSI_NODE, "volumes", "disks"),
        (node("n0", 0, images=[{"names": ["train:1"], "sizeBytes": 13}]), "image", "train:1"),
        (memory(elect=ELECTED), "election", "ns/x"),
        (memory(expired=[LOST]), "fact", "elect/lost ns/x"),
        (node("n0", 0, annotations=LOCK), "election", "ns/x"),
        (memory(resized={"p": 13}), "pool", "p"),
        (METRICS, "NodeMetrics", "n1"),
    ],
)
def test_safety_one_object_does_not_stop_the_decisions(
    item: Json, kind: str, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    scene = Scene(node("n1", 100), node("n2", 100), queue("r", 1), *many(3), item, config=PICKY)
    for _ in range(3):
        assert 3 == len(binds(scene.cycle()))
        scene.now += 1
    assert {kind: 1} == scene.picture.problems.counts()
    assert {
        (kind, key): "cannot be read because of a bug: ZeroDivisionError: a bug"
    } == scene.picture.problems.reasons()
    assert 1 == scene.picture.problems.bugs
    assert 1 == len([r for r in caplog.records if "looking for the cause" in r.getMessage()])
    dropped, decoded_item = decoded(item)
    scene.picture.drop(dropped, dropped.key_of(decoded_item))
    assert 3 == len(binds(scene.cycle()))
    assert {} == scene.picture.problems.counts(), "it is forgotten when it is gone"


def test_safety_what_is_set_aside_protects_what_depends_on_it() -> None:
    queues = (Queue("a", capability={"cpu": 1}), Queue("b", parent="a", weight=13), Queue("c"))
    rooms = (VolumeRoom("disks", "NodeVolumeLimits", "full", {"n1": 13}),)
    cluster = Cluster(queues=queues, budgets=(Budget("ns/b", 13), Budget("ns/c", 1)), rooms=rooms)
    suspects = (Suspect("Queue", "b"), Suspect("PodDisruptionBudget", "ns/b"), Suspect("volumes", "disks"))
    bare = bare_around(cluster, dict.fromkeys(suspects, "why"))
    assert (queues[0], Queue("b", parent="a", broken="why", reclaimable=False), queues[2]) == bare.queues
    assert (Budget("ns/b", 0), Budget("ns/c", 1)) == bare.budgets
    assert [({}, 0, 0)] == [(room.nodes, room.others, room.total) for room in bare.rooms]


def test_liveness_jobs_of_a_queue_that_is_set_aside_wait_with_the_reason_and_the_queue_is_tried_again() -> None:
    inside = pod("inside")
    inside["metadata"]["annotations"] = {"scheduling.volcano.sh/queue-name": "q"}
    scene = Scene(node("n1", 9), queue("q", 13), pod("a"), inside, config=PICKY)
    plan = scene.cycle()
    assert ["ns/a"] == binds(plan)
    why = "queue `q`: left out for 10 minutes: cannot be read because of a bug: ZeroDivisionError: a bug"
    assert {"ns/inside": why} == waits(plan)
    scene.put(queue("q", 1))
    scene.now += 1
    assert ["ns/a"] == binds(scene.cycle())
    scene.now += SET_ASIDE
    assert ["ns/a", "ns/inside"] == binds(scene.cycle())
    assert {} == scene.picture.problems.counts()


def test_liveness_a_node_that_is_set_aside_is_used_again_although_nothing_else_changes() -> None:
    scene = Scene(node("n1", 1, {"fatal": ""}), pod("a"), config=PICKY)
    assert [] == binds(scene.cycle())
    scene.put(node("n1", 1))
    scene.cycle()
    scene.now += SET_ASIDE
    asyncio.run(scene.loop.once())
    assert ["ns/a"] == binds(scene.plans[-1])


def test_safety_several_objects_are_found_among_many_with_a_job() -> None:
    nodes = [node(f"n{i:03}", 1, {"fatal": ""} if i in (3, 40, 41) else None) for i in range(60)]
    both = [config("fragile", Fragile), PICKY]
    plugins = {option.name: option for one in both for tier in one.tiers for option in tier}
    tried = msgspec.structs.replace(PICKY, tiers=((*PICKY.tiers[0], plugins["fragile"]),))
    scene = Scene(*nodes, queue("q", 13), *many(5), pod("bad", **FATAL), config=tried)
    assert 5 == len(binds(scene.cycle()))
    found = {("Node", "n003"), ("Node", "n040"), ("Node", "n041"), ("Queue", "q"), ("job", "ns/bad")}
    assert found == scene.picture.problems.reasons().keys()


@pytest.mark.parametrize("count", [1, 3, MOST + 4])
def test_safety_a_node_on_which_the_decision_about_each_job_fails_is_to_blame_instead_of_the_jobs(count: int) -> None:
    scene = Scene(node("n1", 100), node("n2", 100, {"fatal": ""}), *many(count), config=TRAP)
    assert count == len(binds(scene.cycle()))
    assert {"Node": 1} == scene.picture.problems.counts()


def test_safety_many_neighbours_with_the_same_fault_are_set_aside_with_few_others() -> None:
    good, bad = ([node(f"{name}-{i:03}", 1, labels) for i in range(50)] for name, labels in NODE_GROUPS)
    scene = Scene(*good, *bad, *many(3), config=PICKY)
    assert 3 == len(binds(scene.cycle()))
    assert 50 <= scene.picture.problems.counts()["Node"] <= 56


def test_safety_many_jobs_with_the_same_fault_do_not_stop_all_others() -> None:
    bad = [pod(f"bad-{i:02}", **FATAL) for i in range(MOST + 4)]
    scene = Scene(node("n1", 200), *many(30), *bad)
    assert 28 <= len(binds(scene.cycle())) <= 30


def test_too_many_objects_everywhere_end_the_loop() -> None:
    nodes = [node(f"n{i:03}", 1, None if i % 4 else {"fatal": ""}) for i in range(400)]
    with pytest.raises(ZeroDivisionError, match="a bug"):
        Scene(*nodes, pod("a"), config=PICKY).cycle()


def test_if_no_job_is_to_blame_the_error_ends_the_loop() -> None:
    scene = Scene(node("n1", 9), pod("a"))

    def broken() -> tuple[Config, None]:
        raise ZeroDivisionError("not a job")

    loop = Loop(scene.cache, broken, Settings(), Brakes())
    with pytest.raises(ZeroDivisionError, match="not a job"):
        asyncio.run(loop.once())


def test_a_listener_that_fails_does_not_stop_the_cycle_or_the_next_listener() -> None:
    scene = Scene(node("n1", 9), pod("a"))

    def fails(cycle: Cycle) -> None:
        raise KeyError("a bug")

    scene.loop.on_cycle.insert(0, fails)
    assert ["ns/a"] == binds(scene.cycle())
    assert 1 == scene.picture.problems.bugs


def test_safety_no_pod_of_a_job_that_is_set_aside_is_evicted_also_if_tenants_are_not_trusted() -> None:
    queues = (Queue("a"), Queue("b"))
    runs = builders.gang("b", 8, gpu=1, on=["n1"] * 8, queue="b")
    all_of_it = builders.cluster(builders.node("n1", gpu=8), *queues, runs, builders.gang("a", 1, gpu=2, queue="a"))
    aside = bare_cluster(all_of_it, {Suspect("job", "ns/b"): "a bug"})
    plan = decide(Snapshot(aside), configured(RECLAIM + "tenants: untrusted\n"), 1000.0)
    assert () == plan.evict
