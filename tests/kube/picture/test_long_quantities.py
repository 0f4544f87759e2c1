"""A quantity with thousands of digits, which the API server accepts, makes its own object invalid and stops nothing."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.objects import Json, decoded

from maar.kube.kinds import kind_named
from maar.kube.picture.picture import Picture

NOW = 1000.0
LONG = "9" * 5000
POD_SPEC = {"schedulerName": "maar", "containers": [{"name": "c", "resources": {"requests": {"cpu": LONG}}}]}


def thing(api: str, kind: str, **more: Any) -> Json:
    known = kind_named(api, kind)
    assert known is not None
    namespace = {"namespace": "ns"} if known.resource.namespaced else {}
    metadata = {"name": "bad", "uid": "bad", **namespace, **more.pop("metadata", {})}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **more}


BAD = [
    thing("v1", "Pod", spec=POD_SPEC),
    thing("v1", "Pod", spec={**POD_SPEC, "containers": [{"name": "c", "resources": {"limits": {"cpu": f"1e{LONG}"}}}]}),
    thing("v1", "Node", status={"allocatable": {"cpu": LONG}}),
    thing("v1", "ResourceQuota", spec={"hard": {"volcano.sh/namespace.weight": LONG}}),
    thing("policy/v1", "PodDisruptionBudget", spec={"minAvailable": f"{LONG}%", "selector": {}}),
    thing("scheduling.volcano.sh/v1beta1", "PodGroup", spec={"minMember": 1, "minResources": {"cpu": LONG}}),
    thing("scheduling.volcano.sh/v1beta1", "Queue", spec={"capability": {"cpu": LONG}}),
    thing("scheduling.x-k8s.io/v1alpha1", "PodGroup", spec={"minResources": {"cpu": f"0.{LONG}"}}),
    thing("v1", "PersistentVolumeClaim", spec={"resources": {"requests": {"storage": LONG}}}),
    thing("v1", "PersistentVolume", spec={"capacity": {"storage": LONG}}),
    thing(
        "kubeflow.org/v1",
        "PyTorchJob",
        spec={
            "elasticPolicy": {"minReplicas": 1, "maxReplicas": 2},
            "pytorchReplicaSpecs": {"Worker": {"replicas": 1, "template": {"spec": POD_SPEC}}},
        },
    ),
    thing("v1", "Pod", spec={"schedulerName": "maar"}, metadata={"annotations": {"maar.dev/max-runtime": f"{LONG}s"}}),
    thing("v1", "Pod", spec={"schedulerName": "maar"}, metadata={"annotations": {"volcano.sh/task-priority": LONG}}),
    thing(
        "v1",
        "Pod",
        spec={"schedulerName": "maar"},
        metadata={"annotations": {"pod_group": "g", "pod_group_size": LONG}},
    ),
]


@pytest.mark.parametrize("bad", BAD, ids=lambda item: str(item["kind"]))
def test_safety_one_object_stops_nothing(bad: Json) -> None:
    good = thing("v1", "Pod", spec={"schedulerName": "maar"}, metadata={"name": "good", "uid": "good"})
    node = thing("v1", "Node", status={"allocatable": {"cpu": "8"}}, metadata={"name": "n1"})
    picture = Picture(frozenset({"maar"}))
    for item in (node, bad, good):
        picture.put(*decoded(item))
    cluster = picture.cluster(picture.take(NOW).around)
    assert "ns/good" in {task.key for task in cluster.tasks}
    assert "n1" in {found.name for found in cluster.nodes}
    for job in cluster.jobs:
        assert bool(job.broken) == (job.key != "ns/good"), job
        assert len(job.broken) < 300, "a reason that people can read"
