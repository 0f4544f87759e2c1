"""Objects that cannot be read in full, by kind: what they still take and protect, and who waits because of them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.support.no_cycles import NoCycles
from tests.support.objects import Json

from maar.config.config import Config
from maar.config.file import default_config, read_config
from maar.controller.watching import Sink
from maar.decide import decide
from maar.kube.client.informer import Changed, Replaced
from maar.kube.client.streams import Broken, page
from maar.kube.kinds import KINDS, kind_named
from maar.kube.picture.picture import Picture
from maar.model.plan import Plan
from maar.model.snapshot import Snapshot
from maar.registry import catalog

NOW = 1000.0
OURS = frozenset({"maar"})
LONG = "9" * 5000


OVERCOMMIT = read_config(
    "actions: enqueue, allocate\ntiers:\n- plugins: [{name: overcommit}, {name: gang}]\n", "test", catalog()
).config


class Cluster:
    """A picture that is fed with bytes, as watches feed it."""

    def __init__(self, *items: Json) -> None:
        self.picture = Picture(OURS, settling=None)
        self.sinks = {kind: Sink(self.picture, kind, NoCycles()) for kind in KINDS}
        for item in items:
            self.put(item)

    def put(self, item: Json) -> None:
        kind = kind_named(item["apiVersion"], item["kind"])
        assert kind is not None
        (found,) = page(msgspec.json.encode({"items": [item]}), kind.resource).items
        self.sinks[kind](Changed(found))

    def plan(self, config: Config | None = None) -> Plan:
        self.picture.read_short()
        return decide(self.snapshot(), config or default_config(catalog()), NOW)

    def snapshot(self) -> Snapshot:
        return Snapshot(self.picture.cluster(self.picture.take(NOW).around))

    def binds(self) -> dict[str, str]:
        return {bind.task: bind.node for bind in self.plan().bind}

    def waits(self) -> dict[str, str]:
        return {wait.job: wait.reasons[0].message for wait in self.plan().waiting}


def thing(api: str, kind: str, name: str, namespace: str = "ns", **more: Any) -> Json:
    known = kind_named(api, kind)
    assert known is not None
    metadata = {"name": name, "uid": f"u-{name}", **more.pop("metadata", {})}
    if known.resource.namespaced:
        metadata["namespace"] = namespace
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **more}


def node(name: str, cpu: Any = "8") -> Json:
    return thing("v1", "Node", name, status={"allocatable": {"cpu": cpu, "pods": "110"}})


def pod(name: str, on: str = "", cpu: Any = "1", scheduler: str = "maar", **more: Any) -> Json:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    spec = {"schedulerName": scheduler, "nodeName": on, "containers": [container], **more.pop("spec", {})}
    return thing("v1", "Pod", name, spec=spec, **more)


UNREADABLE = [
    pytest.param({"cpu": LONG}, id="quantity"),
    pytest.param({"spec": {"priority": "high"}}, id="type"),
    pytest.param({"spec": {"priority": int(LONG[:4000])}}, id="number"),
]


@pytest.mark.parametrize("bad", UNREADABLE)
@pytest.mark.parametrize("scheduler", ["maar", "another"])
def test_safety_a_node_with_a_pod_that_cannot_be_read_takes_no_other_pod(bad: Json, scheduler: str) -> None:
    cluster = Cluster(node("n1"), node("n2"), pod("bad", "n1", scheduler=scheduler, **bad))
    for i in range(3):
        cluster.put(pod(f"good-{i}"))
    assert {f"ns/good-{i}": "n2" for i in range(3)} == cluster.binds()
    assert 1 == cluster.picture.problems.counts()["Pod"]


@pytest.mark.parametrize("scheduler", ["maar", "another"])
def test_safety_a_pod_that_fills_its_node_fills_it_also_after_it_has_grown(scheduler: str) -> None:
    cluster = Cluster(node("n1", cpu="1"), pod("bad", "n1", scheduler=scheduler, cpu=LONG))
    cluster.put(pod("good"))
    assert {} == cluster.binds()
    cluster.put(node("n1", cpu="8"))
    assert {} == cluster.binds()
    cluster.put(pod("bad", "n1", scheduler=scheduler))
    assert {"ns/good": "n1"} == cluster.binds()


@pytest.mark.parametrize("bad", UNREADABLE)
def test_liveness_the_node_opens_once_the_pod_has_gone_or_can_be_read(bad: Json) -> None:
    cluster = Cluster(node("n1"), pod("bad", "n1", **bad), pod("good"))
    assert {} == cluster.binds()
    for better in (pod("bad", "n1"), pod("bad", "n1", status={"phase": "Failed"}, **bad)):
        cluster.put(better)
        assert {"ns/good": "n1"} == cluster.binds()
        cluster.put(pod("bad", "n1", **bad))
        assert {} == cluster.binds()
    kind = kind_named("v1", "Pod")
    assert kind is not None
    cluster.sinks[kind](Replaced([]))
    cluster.put(pod("good"))
    assert {"ns/good": "n1"} == cluster.binds()
    assert {} == cluster.picture.problems.counts()


@pytest.mark.parametrize("bad", UNREADABLE)
def test_a_waiting_pod_that_cannot_be_read_makes_its_gang_wait(bad: Json) -> None:
    group: Json = {"metadata": {"annotations": {"pod_group": "g", "pod_group_size": "2"}}}
    cluster = Cluster(node("n1"), pod("g-0", **group), pod("g-1", **group, **bad), pod("alone"))
    assert {"ns/alone": "n1"} == cluster.binds()
    assert cluster.waits()["ns/g"].startswith("pod `ns/g-1`: spec.")
    cluster.put(pod("g-1", **group))
    assert 3 == len(cluster.binds())


def test_safety_sums_over_pods_with_absurd_requests_do_not_overflow() -> None:
    """Anyone may set `nodeName` on such pods; if the sum wrapped around, the node would look empty."""
    cluster = Cluster(node("n1"), *(pod(f"huge-{i}", "n1", cpu="1e30") for i in range(8)), pod("good"))
    assert {} == cluster.binds()
    assert cluster.snapshot().used.min() >= 0


def test_safety_a_pod_with_an_absurd_request_stops_no_admission() -> None:
    group = thing("scheduling.volcano.sh/v1beta1", "PodGroup", "g", spec={"minMember": 1, "minResources": {"cpu": "1"}})
    group["status"] = {"phase": "Pending"}
    cluster = Cluster(node("n1"), node("n2"), group, pod("huge", "n1", cpu="1e30", scheduler="another"))
    assert ["ns/g"] == [admit.job for admit in cluster.plan(OVERCOMMIT).admit], "n2 is empty"


@pytest.mark.parametrize("cpu", [LONG, ["8"]], ids=["quantity", "type"])
def test_a_node_that_cannot_be_read_takes_no_pods_and_its_pods_stay(cpu: Any) -> None:
    cluster = Cluster(node("n1", cpu), node("n2"), pod("runs", "n1"), pod("new"))
    plan = cluster.plan()
    assert ([("ns/new", "n2")], ()) == ([(b.task, b.node) for b in plan.bind], plan.evict)
    assert {"Node": 1} == cluster.picture.problems.counts()
    assert "ns/runs" in {task.key for task in cluster.snapshot().tasks.tasks}


def queue(name: str, **spec: Any) -> Json:
    return thing("scheduling.volcano.sh/v1beta1", "Queue", name, spec=spec)


def in_queue(name: str, of: str, **more: Any) -> Json:
    return pod(name, metadata={"annotations": {"scheduling.volcano.sh/queue-name": of}}, **more)


@pytest.mark.parametrize("bad", [{"capability": {"cpu": LONG}}, {"capability": {"cpu": []}}, {"weight": "heavy"}])
def test_jobs_of_a_queue_that_cannot_be_read_and_of_queues_below_it_wait(bad: Json) -> None:
    cluster = Cluster(node("n1"), queue("bad", **bad), queue("child", parent="bad"), queue("good"))
    for of in ("bad", "child", "good"):
        cluster.put(in_queue(f"in-{of}", of))
    assert {"ns/in-good": "n1"} == cluster.binds()
    waits = cluster.waits()
    assert waits["ns/in-bad"].startswith("queue `bad`: spec.")
    assert waits["ns/in-child"].startswith("queue `child`: parent queue `bad` is invalid: spec.")
    assert {"Queue": 1} == cluster.picture.problems.counts()
    cluster.put(queue("bad"))
    assert 3 == len(cluster.binds())


def test_safety_nothing_is_taken_back_from_a_queue_that_cannot_be_read() -> None:
    cluster = Cluster(node("n1"), queue("bad", deserved={"cpu": LONG}), queue("good", weight=9))
    for i in range(8):
        cluster.put(in_queue(f"runs-{i}", "bad", on="n1"))
        cluster.put(in_queue(f"new-{i}", "good"))
    assert () == cluster.plan().evict
    cluster.put(queue("bad"))
    assert () != cluster.plan().evict, "as soon as it can be read"


@pytest.mark.parametrize("bad", [{"minAvailable": "x%"}, {"minAvailable": []}, {"selector": {"matchLabels": 1}}])
def test_safety_a_budget_that_cannot_be_read_lets_no_pod_of_its_namespace_go(bad: Json) -> None:
    budget = thing("policy/v1", "PodDisruptionBudget", "b", spec={"selector": {}, "minAvailable": 0, **bad})
    priority = thing("scheduling.k8s.io/v1", "PriorityClass", "high", value=10)
    cluster = Cluster(node("n1"), priority, pod("runs", "n1", cpu="8"), pod("new", spec={"priorityClassName": "high"}))
    assert ["ns/runs"] == [evict.task for evict in cluster.plan().evict]
    cluster.put(budget)
    assert () == cluster.plan().evict
    assert {"PodDisruptionBudget": 1} == cluster.picture.problems.counts()


def test_a_quota_that_cannot_be_read_gives_no_weight() -> None:
    quota = thing("v1", "ResourceQuota", "q", spec={"hard": {"volcano.sh/namespace.weight": LONG}})
    cluster = Cluster(node("n1"), quota, pod("new"))
    assert {"ns/new": "n1"} == cluster.binds()
    assert {"ResourceQuota": 1} == cluster.picture.problems.counts()


def elastic(least: Any) -> Json:
    template = {"spec": {"schedulerName": "maar", "containers": [{"name": "c"}]}}
    return thing(
        "kubeflow.org/v1",
        "PyTorchJob",
        "train",
        spec={
            "elasticPolicy": {"minReplicas": least, "maxReplicas": 4},
            "pytorchReplicaSpecs": {"Worker": {"replicas": 2, "template": template}},
        },
    )


def test_pods_of_a_job_that_does_not_decode_wait_with_the_reason_and_running_ones_stay() -> None:
    labels: Json = {"metadata": {"labels": {"training.kubeflow.org/job-name": "train"}}}
    cluster = Cluster(node("n1"), elastic("one"), pod("train-0", "n1", **labels), pod("train-1", **labels), pod("a"))
    plan = cluster.plan()
    assert (["ns/a"], ()) == ([b.task for b in plan.bind], plan.evict)
    assert {"ns/train": "spec.elasticPolicy.minReplicas: expected a whole number, got `one`"} == cluster.waits()
    assert {"PyTorchJob": 1} == cluster.picture.problems.counts()
    cluster.put(elastic(1))
    assert "ns/train-1" in cluster.binds()


def test_each_reason_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster()
    for version in range(5):
        cluster.put(pod("bad", cpu=LONG, metadata={"resourceVersion": str(version)}))
        cluster.plan()
    (record,) = caplog.records
    assert record.getMessage().startswith("Pod `ns/bad`: spec.containers[0].resources.requests.cpu: not a quantity: ")


def test_an_item_of_a_list_without_a_name_is_left_out() -> None:
    kind = kind_named("v1", "Pod")
    assert kind is not None
    cluster = Cluster(node("n1"))
    items = page(
        msgspec.json.encode({"items": [None, {"metadata": {}}, {"spec": 1}, pod("good")]}), kind.resource
    ).items
    assert 2 == sum(isinstance(item, Broken) for item in items)
    cluster.sinks[kind](Replaced(list(items)))
    assert {"ns/good": "n1"} == cluster.binds()
