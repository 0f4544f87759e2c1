"""One pod with very many ports, labels, terms or expressions: only that pod waits, and it costs next to nothing."""

from __future__ import annotations

import gc
import time

import pytest
from tests.kube.picture.test_invalid import Cluster, node, pod, thing
from tests.support.objects import Json

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


def spread(count: int) -> list[Json]:
    return [
        {"maxSkew": 1, "topologyKey": f"k{i}", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
        for i in range(count)
    ]


def ports(count: int) -> list[Json]:
    return [{"name": "c", "ports": [{"containerPort": i + 1, "hostPort": i + 1} for i in range(count)]}]


def hostile(count: int) -> dict[str, tuple[Json, str]]:
    """The spec of a pod with so many entries, and the field that the reason names."""
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


def _shapes() -> int:
    """How many shapes the process keeps."""
    gc.collect()
    return sum(isinstance(found, Shape) for found in gc.get_objects())
