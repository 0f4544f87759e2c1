"""A live picture makes of the same objects what one reading of them makes, whatever order they come and go in."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.support.facts import lost_of
from tests.support.objects import decoded, from_scratch

from maar.kube.kinds import volcano_podgroup
from maar.kube.kinds.cluster import PODS
from maar.kube.picture.assumed import Assumed
from maar.kube.picture.picture import Picture
from maar.kube.wire.pods import Pod
from maar.model.jobs import Phase
from maar.model.snapshot import Cluster, Snapshot
from maar.model.tasks import Status

NOW = 1000.0


def pod(name: str, **more: Any) -> dict[str, Any]:
    """A pod's JSON."""
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}", **more.pop("metadata", {})}
    status = more.pop("status", {})
    container = {"name": "c", "resources": {"requests": {"cpu": more.pop("cpu", "1")}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container], "schedulerName": "maar", **more},
        "status": status,
    }


def group(name: str, minimum: int, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "ns", **metadata},
        "spec": {"minMember": minimum},
        "status": {"phase": "Inqueue"},
    }


def named(kind: str, name: str, api: str = "v1", **more: Any) -> dict[str, Any]:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name}, **more}


def sorted_cluster(cluster: Cluster) -> dict[str, Any]:
    return {
        "nodes": sorted(cluster.nodes, key=lambda n: n.name),
        "tasks": sorted(cluster.tasks, key=lambda t: t.key),
        "jobs": sorted(cluster.jobs, key=lambda j: j.key),
        "queues": sorted(cluster.queues, key=lambda q: q.name),
        "budgets": sorted(cluster.budgets, key=lambda b: b.key),
        "elect": (cluster.elect, lost_of(cluster), cluster.resized),
        "locks": sorted(cluster.locks, key=lambda k: k.node),
    }


def whole(items: list[dict[str, Any]]) -> dict[str, Any]:
    return sorted_cluster(from_scratch(items, frozenset({"maar"}), NOW))


GROUPED = {"annotations": {"scheduling.k8s.io/group-name": "g"}}
APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "zone"}
        ]
    }
}
ITEMS: list[dict[str, Any]] = [
    named("Node", "n1", status={"allocatable": {"cpu": "8"}}),
    {
        **named("Node", "n2", status={"allocatable": {"cpu": "4"}}),
        "metadata": {"name": "n2", "annotations": {"maar.dev/locked-for": "ns/g"}},
    },
    named("PriorityClass", "high", "scheduling.k8s.io/v1", value=10),
    named("Queue", "q", "scheduling.volcano.sh/v1beta1", spec={"weight": 2}),
    group("g", 2),
    named("ConfigMap", "maar-state", data={"maar": '{"elect":{"job":"ns/g","since":5},"resized":{"default":7}}'}),
    group("empty", 3),
    pod("g-0", metadata=GROUPED, priorityClassName="high"),
    pod("g-1", metadata=GROUPED, nodeName="n1", status={"phase": "Running"}),
    pod("alone", metadata={"labels": {"app": "x"}}),
    pod("apart", affinity=APART),
    pod("foreign", schedulerName="other", nodeName="n2"),
    pod("stranger", schedulerName="other"),
    pod("leaving", nodeName="n1", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
    pod("plain-0", metadata={"annotations": {"pod_group": "p", "pod_group_size": "2"}}),
    {
        **named("PodDisruptionBudget", "b", "policy/v1"),
        "metadata": {"name": "b", "namespace": "ns"},
        "spec": {"minAvailable": 0, "selector": {"matchLabels": {"app": "x"}}},
    },
]


@pytest.mark.parametrize("seed", range(20))
def test_any_order_gives_what_one_reading_gives(seed: int) -> None:
    rng = random.Random(seed)
    items = rng.sample(ITEMS, len(ITEMS))
    picture = Picture(frozenset({"maar"}))
    there: list[dict[str, Any]] = []
    snapshot: Snapshot | None = None
    for step in range(60):
        item = rng.choice(items)
        kind, made = decoded(item)
        if item in there and rng.random() < 0.5:
            there.remove(item)
            picture.drop(kind, kind.key_of(made))
        else:
            if item not in there:
                there.append(item)
            picture.put(kind, made)
        if step % 3 == 0:
            picture.read_short()
            update = picture.take(NOW)
            cluster = picture.cluster(update.around)
            assert whole(there) == sorted_cluster(cluster)
            following = None if snapshot is None or update.rebuild else snapshot.after(update.around, update.changed)
            snapshot = following or Snapshot(cluster)
            assert [t.key for t in Snapshot(cluster).tasks.tasks] == [t.key for t in snapshot.tasks.tasks]


def test_what_is_assumed_holds_until_it_is_seen() -> None:
    picture = Picture()
    picture.put(*decoded(pod("a")))
    picture.put(*decoded(named("Node", "n1", status={"allocatable": {"cpu": "8"}})))
    picture.take(NOW)
    picture.assumed.assume("ns/a", Assumed("uid-a", Status.BOUND, "n1"))
    changed = picture.take(NOW).changed["ns/a"]
    assert changed is not None
    assert (Status.BOUND, "n1") == (changed[1][0].status, changed[1][0].node)
    picture.put(*decoded(pod("a", metadata={"labels": {"x": "y"}})))
    assert Status.BOUND is picture.cluster(picture.take(NOW).around).tasks[0].status
    picture.put(*decoded(pod("a", nodeName="n1")))
    picture.take(NOW)
    assert {} == picture.assumed


def tasks_of(picture: Picture) -> list[str]:
    return sorted(t.key for t in picture.cluster(picture.take(NOW).around).tasks)


def test_pods_of_a_gang_that_lacks_others_are_read_together() -> None:
    picture = Picture()
    picture.put(*decoded(group("g", 3)))
    picture.take(NOW)
    for i in range(2):
        kind, item = decoded(pod(f"g-{i}", metadata=GROUPED))
        picture.put(kind, item)
        assert picture.can_wait(kind, None, item)
    assert [] == tasks_of(picture)
    kind, item = decoded(pod("g-2", metadata=GROUPED))
    picture.put(kind, item)
    assert not picture.can_wait(kind, None, item)
    assert ["ns/g-0", "ns/g-1", "ns/g-2"] == tasks_of(picture)
    # One that is made anew completes it again.
    picture.drop(PODS, "ns/g-1")
    kind, item = decoded(pod("g-1", metadata={**GROUPED, "uid": "another"}))
    tasks_of(picture)
    picture.put(kind, item)
    assert not picture.can_wait(kind, None, item)
    assert ["ns/g-0", "ns/g-1", "ns/g-2"] == tasks_of(picture)


def test_pods_of_a_gang_that_lacks_others_are_read_in_the_end() -> None:
    picture = Picture()
    picture.put(*decoded(group("g", 3)))
    picture.take(NOW)
    picture.put(*decoded(pod("g-0", metadata=GROUPED)))
    assert [] == tasks_of(picture)
    picture.read_short()
    assert ["ns/g-0"] == tasks_of(picture)
    picture.put(*decoded(pod("g-1", metadata=GROUPED)))
    picture.put(*decoded(group("g", 2)))
    assert ["ns/g-0", "ns/g-1"] == tasks_of(picture), "its group asks for fewer now"
    picture.put(*decoded(group("g", 9)))
    picture.put(*decoded(pod("g-2", metadata=GROUPED)))
    picture.drop(volcano_podgroup.KIND, "ns/g")
    assert ["ns/g-0", "ns/g-1", "ns/g-2"] == tasks_of(picture), "there is no group any more"


def test_a_bind_that_is_seen_changes_no_job() -> None:
    picture = Picture()
    picture.put(*decoded(pod("a")))
    picture.put(*decoded(named("Node", "n1", status={"allocatable": {"cpu": "8"}})))
    picture.take(NOW)
    picture.assumed.assume("ns/a", Assumed("uid-a", Status.BOUND, "n1"))
    picture.take(NOW)
    others = pod("a", nodeName="n2"), pod("a", nodeName="n1", metadata={"labels": {"x": "y"}})
    for other in (*others, pod("a", nodeName="n1", metadata={"uid": "another"})):
        seen = decoded(other)[1]
        assert isinstance(seen, Pod)
        assert not picture.pods.confirm(seen)
    seen = decoded(pod("a", nodeName="n1"))[1]
    assert isinstance(seen, Pod)
    assert picture.pods.confirm(seen)
    assert {} == picture.assumed
    update = picture.take(NOW)
    assert {} == update.changed
    assert [(Status.BOUND, "n1")] == [(t.status, t.node) for t in picture.cluster(update.around).tasks]
    assert not picture.put(PODS, seen)


def test_an_admission_holds_until_it_is_seen() -> None:
    picture = Picture()
    waits = group("g", 3, uid="1") | {"status": {"phase": "Pending"}}

    def phase() -> Phase:
        return picture.cluster(picture.take(NOW).around).jobs[0].phase

    picture.put(*decoded(waits))
    assert Phase.PENDING is phase()
    picture.admit("ns/g")
    assert Phase.INQUEUE is phase()
    assert picture.put(*decoded(waits | {"spec": {"minMember": 4}}))
    assert Phase.INQUEUE is phase(), "another change does not take it back"
    assert not picture.put(*decoded(group("g", 4, uid="1"))), "nothing new"
    assert Phase.INQUEUE is phase()
    picture.put(*decoded(waits))
    assert Phase.PENDING is phase(), "it was seen, and somebody took it back"
    picture.admit("ns/g")
    picture.put(*decoded(group("g", 3, uid="2") | {"status": {"phase": "Pending"}}))
    assert Phase.PENDING is phase(), "another group of the same name"


def test_a_successor_of_the_same_name_is_not_assumed_bound() -> None:
    picture = Picture()
    picture.put(*decoded(pod("a")))
    picture.assumed.assume("ns/a", Assumed("uid-a", Status.BOUND, "n1"))
    picture.put(*decoded(pod("a", metadata={"uid": "another"})))
    assert Status.PENDING is picture.cluster(picture.take(NOW).around).tasks[0].status


def test_what_did_not_come_true_is_forgotten() -> None:
    picture = Picture()
    picture.put(*decoded(pod("a")))
    picture.assumed.assume("ns/a", Assumed("uid-a", Status.BOUND, "n1"))
    picture.take(NOW)
    picture.assumed.forget("ns/a")
    assert Status.PENDING is picture.cluster(picture.take(NOW).around).tasks[0].status


def test_a_bind_that_was_accepted_counts_until_it_is_seen() -> None:
    """Also if an eviction was decided in the meantime, and fails."""
    picture = Picture()
    picture.put(*decoded(named("Node", "n1", status={"allocatable": {"cpu": "8"}})))
    picture.put(*decoded(pod("a")))
    bind, leaves = Assumed("uid-a", Status.BOUND, "n1"), Assumed("uid-a", Status.RELEASING, "n1")

    def task() -> tuple[Status, str]:
        (found,) = picture.cluster(picture.take(NOW).around).tasks
        return found.status, found.node

    picture.assumed.assume("ns/a", bind)
    picture.assumed.assume("ns/a", leaves)
    picture.assumed.forget("ns/a")
    assert (Status.PENDING, "") == task(), "the bind was not accepted"
    picture.assumed.assume("ns/a", bind)
    picture.pods.accept("ns/a", "uid-a", "n1")
    picture.assumed.assume("ns/a", leaves)
    assert (Status.RELEASING, "n1") == task()
    for _ in range(2):
        picture.assumed.forget("ns/a")
        assert (Status.BOUND, "n1") == task(), "the bind was accepted"
    picture.assumed.assume("ns/a", leaves)
    picture.put(*decoded(pod("a", nodeName="n1")))
    assert (Status.RELEASING, "n1") == task()
    picture.assumed.forget("ns/a")
    assert (Status.BOUND, "n1") == task()
    assert {} == picture.assumed, "its object shows it"


def test_an_accepted_bind_goes_with_its_pod() -> None:
    picture = Picture()
    picture.put(*decoded(pod("a")))
    picture.pods.accept("ns/a", "another", "n1")
    assert {} == picture.assumed, "a pod of the same name"
    picture.pods.accept("ns/a", "uid-a", "n1")
    assert ["ns/a"] == list(picture.assumed), "also if nobody assumes it any more"
    picture.drop(PODS, "ns/a")
    assert [] == tasks_of(picture)
    picture.put(*decoded(pod("a", metadata={"uid": "another"})))
    picture.assumed.assume("ns/a", Assumed("another", Status.BOUND, "n2"))
    picture.assumed.forget("ns/a")
    assert [Status.PENDING] == [task.status for task in picture.cluster(picture.take(NOW).around).tasks]


def test_an_object_that_does_not_decode_waits_with_a_reason_until_it_does() -> None:
    picture = Picture()
    picture.broken(PODS, "ns", "a", "spec: expected an object")
    changed = picture.take(NOW).changed["ns/a"]
    assert changed is not None
    assert "pod `ns/a`: spec: expected an object" == changed[0].broken
    picture.put(*decoded(pod("a")))
    again = picture.take(NOW).changed["ns/a"]
    assert again is not None
    assert "" == again[0].broken


def test_a_pod_that_has_a_node_keeps_its_room_when_it_does_not_decode() -> None:
    picture = Picture()
    picture.put(*decoded(named("Node", "n1", status={"allocatable": {"cpu": "8"}})))
    picture.put(*decoded(pod("a", nodeName="n1", status={"phase": "Running"})))
    picture.take(NOW)
    picture.broken(PODS, "ns", "a", "spec: expected an object")
    assert [("ns/a", Status.BOUND)] == [(t.key, t.status) for t in picture.cluster(picture.take(NOW).around).tasks]
    picture.drop(PODS, "ns/a")
    assert [] == tasks_of(picture)


def test_surroundings_that_make_no_sense_stop_nobody(caplog: pytest.LogCaptureFixture) -> None:
    picture = Picture()
    budget = named("PodDisruptionBudget", "b", "policy/v1", spec={"minAvailable": "x%", "selector": {}})
    quota = named("ResourceQuota", "q", spec={"hard": {"volcano.sh/namespace.weight": "bad"}})
    for item in (budget, quota):
        item["metadata"]["namespace"] = "ns"
        picture.put(*decoded(item))
    picture.put(*decoded(named("Node", "bad", status={"allocatable": {"cpu": "much"}})))
    picture.put(*decoded(pod("a", nodeName="n1")))
    for _ in range(3):
        cluster = picture.cluster(picture.take(NOW).around)
    assert ([], {}, ["ns/a"]) == (list(cluster.nodes), cluster.namespace_weights, [t.key for t in cluster.tasks])
    assert [("ns/b", 0)] == [(b.key, b.allowed) for b in cluster.budgets], "it lets nobody go"
    assert ("ns/b",) == cluster.tasks[0].budgets
    told = [r.getMessage().partition(":")[0] for r in caplog.records]
    assert ["Node `bad`", "PodDisruptionBudget `ns/b`", "ResourceQuota `ns/q`"] == sorted(told)


def test_a_record_has_the_pods_that_could_not_be_read_when_it_was_decided() -> None:
    picture = Picture()
    picture.broken(PODS, "ns", "a", "spec: expected an object")
    rest = picture.take(NOW).around
    picture.broken(PODS, "ns", "b", "spec: expected an object")
    assert ["ns/a"] == [job.key for job in picture.cluster(rest).jobs]
