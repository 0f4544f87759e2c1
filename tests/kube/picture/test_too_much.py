"""One pod with very many ports, labels, terms or expressions: only that pod waits, and it costs next to nothing."""

from __future__ import annotations

import gc
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest
from tests.kube.picture.test_invalid import Cluster, node, pod, thing
from tests.support.objects import Json

from maar.kube.kinds.cluster import PODS
from maar.kube.kinds.jobset import MOST_PARTS
from maar.kube.read.elastic import MOST_SHAPES
from maar.kube.read.limits import MOST
from maar.model.shapes import MOST_NEW, Shape

MANY = 20_000


def terms(count: int) -> list[Json]:
    return [{"topologyKey": f"k{i}", "labelSelector": {"matchLabels": {"a": str(i)}}} for i in range(count)]


def expressions(count: int) -> list[Json]:
    return [{"key": f"k{i}", "operator": "DoesNotExist"} for i in range(count)]


def node_affinity(term: Json) -> Json:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def near(count: int) -> Json:
    everywhere = {"topologyKey": "zone", "labelSelector": {"matchExpressions": expressions(count)}}
    wanted = [{"weight": 1, "podAffinityTerm": {**everywhere, "namespaceSelector": {}}}]
    return {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": wanted}}


def values(count: int) -> Json:
    one = {"key": "app", "operator": "NotIn", "values": [f"v{i}" for i in range(count)]}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart_from([one])]}}


def apart_from(expressions: list[Json]) -> Json:
    return {"topologyKey": "zone", "labelSelector": {"matchExpressions": expressions}}


def spread(count: int) -> list[Json]:
    return [
        {"maxSkew": 1, "topologyKey": f"k{i}", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
        for i in range(count)
    ]


def ports(count: int) -> list[Json]:
    return [{"name": "c", "ports": [{"containerPort": i + 1, "hostPort": i + 1} for i in range(count)]}]


def hostile(count: int) -> dict[str, tuple[Json, str]]:
    """The spec of a pod with this number of entries, and the field that the reason must name."""
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms(count)}}
    tolerations = [{"key": f"k{i}", "operator": "Exists"} for i in range(count)]
    claims = [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": f"c{i}"}} for i in range(count)]
    return {
        "ports": ({"containers": ports(count)}, "spec.containers.ports"),
        "host network": ({"containers": ports(count), "hostNetwork": True}, "spec.containers.ports"),
        "labels": ({"nodeSelector": {f"k{i}": "v" for i in range(count)}}, "spec.nodeSelector"),
        "tolerations": ({"tolerations": tolerations}, "spec.tolerations"),
        "volumes": ({"volumes": claims}, "spec.volumes"),
        "spread": ({"topologySpreadConstraints": spread(count)}, "spec.topologySpreadConstraints"),
        "pod terms": ({"affinity": apart}, "spec.affinity"),
        "label expressions": ({"affinity": near(count)}, "spec.affinity"),
        "label values": ({"affinity": values(count)}, "spec.affinity"),
        "node expressions": ({"affinity": node_affinity({"matchExpressions": expressions(count)})}, "spec.affinity"),
    }


@pytest.mark.parametrize("name", hostile(1))
def test_safety_a_pod_that_states_too_much_waits_with_the_reason_and_costs_no_time(name: str) -> None:
    spec, field = hostile(MANY)[name]
    cluster = Cluster(*(node(f"n{i}") for i in range(200)), pod("bad", spec=spec), pod("good"))
    begun = time.process_time()
    assert {"ns/good"} == set(cluster.binds())
    assert time.process_time() - begun < 0.7
    assert cluster.waits()["ns/bad"].startswith(f"pod `ns/bad`: {field}: expected at most {MOST} ")
    assert {"Pod": 1} == cluster.picture.problems.counts()


@pytest.mark.parametrize("name", ["ports", "labels", "tolerations"])
def test_a_pod_may_state_what_people_write(name: str) -> None:
    spec, _ = hostile(MOST)[name]
    cluster = Cluster(node("n1"), pod("large", spec=spec))
    assert {} == cluster.picture.problems.counts()
    assert "expected" not in cluster.waits().get("ns/large", "")


def test_safety_its_node_stays_open_and_keeps_its_room() -> None:
    """It may name its node itself when it is created: then no one else may lose the node by it."""
    spec = {"containers": [{**ports(MANY)[0], "resources": {"requests": {"cpu": "6"}}}]}
    cluster = Cluster(node("n1"), pod("bad", "n1", spec=spec), pod("good", cpu="2"), pod("large", cpu="3"))
    assert {"ns/good": "n1"} == cluster.binds()


def test_a_template_that_states_too_much_breaks_its_job_only() -> None:
    worker: Json = {"spec": {"schedulerName": "maar", **hostile(MANY)["labels"][0], "containers": [{"name": "c"}]}}
    job = thing(
        "kubeflow.org/v1",
        "PyTorchJob",
        "train",
        spec={
            "elasticPolicy": {"minReplicas": 1, "maxReplicas": 4},
            "pytorchReplicaSpecs": {"Worker": {"replicas": 2, "template": worker}},
        },
    )
    cluster = Cluster(node("n1"), job, pod("good"))
    assert {"ns/good": "n1"} == cluster.binds()
    assert {"PyTorchJob": 1} == cluster.picture.problems.counts()


def test_shapes_of_pods_that_are_gone_are_forgotten() -> None:
    """Every pod has another topology key, as if each were a job of its own that keeps its pods apart."""
    cluster = Cluster(node("n1"))
    before = _shapes()
    for i in range(2 * MOST_NEW):
        (term,) = terms(1)
        apart = {"requiredDuringSchedulingIgnoredDuringExecution": [{**term, "topologyKey": f"key-{i}"}]}
        cluster.put(pod("same", spec={"affinity": {"podAntiAffinity": apart}}, metadata={"uid": str(i)}))
        cluster.picture.take(1000.0)
    assert _shapes() - before < 1.5 * MOST_NEW


def test_a_new_selector_touches_only_the_pods_that_it_matches() -> None:
    """Anyone can create a pod with a selector of its own every second."""
    pods = [pod(f"p{i}", "n1", metadata={"labels": {"job": str(i // 2)}}) for i in range(40)]
    cluster = Cluster(node("n1"), *pods)
    cluster.picture.take(1000.0)
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms(1)}}
    apart["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]["labelSelector"] = {
        "matchLabels": {"job": "7"}
    }
    cluster.put(pod("new", spec={"affinity": apart}))
    changed = cluster.picture.take(1000.0).changed
    assert {"ns/new", "ns/p14", "ns/p15"} == set(changed)
    assert [1, 1] == [len(made[1][0].shape.matches) for key in ("ns/p14", "ns/p15") if (made := changed[key])]
    cluster.picture.drop(PODS, "ns/new")
    gone = cluster.picture.take(1000.0).changed
    assert {"ns/new": 0, "ns/p14": 1, "ns/p15": 1} == {key: 0 if made is None else 1 for key, made in gone.items()}
    assert [0, 0] == [len(made[1][0].shape.matches) for made in gone.values() if made]


def test_a_new_selector_touches_the_elastic_jobs_whose_future_workers_it_matches() -> None:
    cluster = Cluster(node("n1"), *(elastic(f"train{i}", {"job": str(i)}) for i in range(20)))
    cluster.picture.take(1000.0)
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart_from([IS_SEVEN])]}}
    cluster.put(pod("new", spec={"affinity": apart}))
    assert {"ns/new", "ns/train7"} == set(cluster.picture.take(1000.0).changed)


IS_SEVEN: Json = {"key": "job", "operator": "In", "values": ["7"]}


def elastic(name: str, labels: dict[str, str]) -> Json:
    worker = {"metadata": {"labels": labels}, "spec": {"schedulerName": "maar", "containers": [{"name": "c"}]}}
    return thing(
        "kubeflow.org/v1",
        "PyTorchJob",
        name,
        spec={
            "elasticPolicy": {"minReplicas": 1, "maxReplicas": 4},
            "pytorchReplicaSpecs": {"Worker": {"replicas": 2, "template": worker}},
        },
    )


def test_thousands_of_equal_pods_beside_the_workers_cost_as_much_as_one() -> None:
    cluster = Cluster(*(node(f"n{i}") for i in range(20)), pod("good"))
    with counted() as few:
        cluster.put(with_masters(1))
        cluster.plan()
    with counted() as many:
        cluster.put(with_masters(5000))
        assert "ns/train" in {wait.job for wait in cluster.plan().waiting}
    for work in ("place", "draft", "names_of", "role"):
        assert 0 < many[work] <= few[work] + 10, work


def with_masters(count: int) -> Json:
    job = elastic("train", {})
    template = {"spec": {"schedulerName": "maar", "containers": [{"name": "c"}]}}
    job["spec"]["pytorchReplicaSpecs"]["Master"] = {"replicas": count, "template": template}
    return job


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """How often each function is called, by name."""
    calls: Counter[str] = Counter()
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, _: calls.update([frame.f_code.co_name]) if event == "call" else None)
    try:
        yield calls
    finally:
        sys.setprofile(before)


def test_a_job_with_very_many_different_templates_waits_with_the_reason() -> None:
    """Each of them would be placed apart, in every cycle."""
    count = MOST_SHAPES + 1
    sizes = [{"name": "c", "resources": {"requests": {"cpu": f"{i + 1}m"}}} for i in range(count)]
    tasks = [{"name": f"t{i}", "template": {"spec": {"containers": [c]}}} for i, c in enumerate(sizes)]
    worker = {"name": "worker", "replicas": 2, "template": {"spec": {"containers": [{"name": "c"}]}}}
    bounds = {"annotations": {"maar.dev/min-workers": "1", "maar.dev/max-workers": "4"}}
    job = partial(thing, "batch.volcano.sh/v1alpha1", "Job", "train", metadata=bounds)
    cluster = Cluster(node("n1"), pod("good"), job(spec={"schedulerName": "maar", "tasks": [worker, *tasks]}))
    assert {"ns/good": "n1"} == cluster.binds()
    reason = f"pods beside its workers: expected at most {MOST_SHAPES} different templates, got {count}"
    assert reason in cluster.waits()["ns/train"]
    cluster.put(job(spec={"schedulerName": "maar", "tasks": [worker, *tasks[1:]]}))
    assert reason[:30] not in cluster.waits().get("ns/train", "")


def test_a_job_set_of_very_many_replicated_jobs_is_one_invalid_gang() -> None:
    """Each of them could be a gang of its own."""
    jobs = [{"name": f"a{i}", "template": {"spec": {}}} for i in range(MOST_PARTS + 1)]
    in_order = {"startupPolicy": {"startupPolicyOrder": "InOrder"}}
    labels = {"jobset.sigs.k8s.io/jobset-name": "set", "jobset.sigs.k8s.io/replicatedjob-name": "a7"}
    job_set = partial(thing, "jobset.x-k8s.io/v1alpha2", "JobSet", "set")
    member = pod("member", metadata={"labels": labels})
    cluster = Cluster(node("n1"), pod("good"), job_set(spec={**in_order, "replicatedJobs": jobs}), member)
    assert {"ns/good": "n1"} == cluster.binds()
    reason = f"spec.replicatedJobs: expected at most {MOST_PARTS}, got {MOST_PARTS + 1}"
    assert reason in cluster.waits()["ns/set"]
    assert {"JobSet": 1} == cluster.picture.problems.counts()
    cluster.put(job_set(spec={**in_order, "replicatedJobs": jobs[1:]}))
    assert {"ns/good", "ns/member"} == set(cluster.binds())


def test_a_budget_that_states_too_much_lets_no_pod_of_its_namespace_go() -> None:
    spec = {"minAvailable": 0, "selector": {"matchExpressions": expressions(MANY)}}
    cluster = Cluster(node("n1"), thing("policy/v1", "PodDisruptionBudget", "bad", spec=spec), pod("good"))
    assert {"ns/bad": 0} == {b.key: b.allowed for b in cluster.picture.take(1000.0).around.budgets}
    assert {"PodDisruptionBudget": 1} == cluster.picture.problems.counts()
    assert {"ns/good": "n1"} == cluster.binds()


def _shapes() -> int:
    """How many shapes the process keeps."""
    gc.collect()
    return sum(isinstance(found, Shape) for found in gc.get_objects())
