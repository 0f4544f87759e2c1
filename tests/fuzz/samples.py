"""Valid objects of every kind, and one of each main kind with every annotation that Maar reads: what is mutated.

All are in the namespace `evil`, in queues and on nodes of their own. The healthy part of the cluster shares nothing
with them but the scheduler.
"""

from __future__ import annotations

import copy

from tests.kube.picture.test_one_reader import VERSIONS, batch, kubeflow, node, pod, template, thing, volcano_group
from tests.support.objects import Json

from maar.kube.kinds import JOB_KINDS, kind_named
from maar.kube.wire import annotations as known

EVIL = "evil"
SELECTOR = {"matchLabels": {"app": "x"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}]}
TERM = {"matchExpressions": [{"key": "gen", "operator": "Gt", "values": ["3"]}]}
NAMED = {"key": "metadata.name", "operator": "In", "values": ["n"]}
NEAR = {"topologyKey": "zone", "labelSelector": SELECTOR, "namespaces": [EVIL], "matchLabelKeys": ["app"]}
CONTAINER = {
    "name": "c",
    "image": "train:1",
    "ports": [{"containerPort": 80, "hostPort": 8080, "protocol": "TCP", "hostIP": "10.0.0.1"}],
    "resources": {"requests": {"cpu": "100m", "memory": "2Gi", "nvidia.com/gpu": 1}, "limits": {"cpu": 1.5}},
}
RICH: Json = {
    "schedulerName": "maar",
    "priority": 5,
    "priorityClassName": "high",
    "preemptionPolicy": "Never",
    "containers": [CONTAINER],
    "initContainers": [{**CONTAINER, "name": "i", "restartPolicy": "Always"}],
    "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "3"}},
    "overhead": {"cpu": "10m"},
    "nodeSelector": {"pool": "a"},
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {**TERM, "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
                ]
            },
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "preference": TERM}],
        },
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [NEAR],
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": NEAR}],
        },
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": NEAR}],
        },
    },
    "tolerations": [{"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}],
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": SELECTOR,
            "minDomains": 2,
            "nodeAffinityPolicy": "Honor",
            "nodeTaintsPolicy": "Ignore",
            "matchLabelKeys": ["app"],
        }
    ],
    "hostNetwork": True,
    "resourceClaims": [{"name": "claim"}],
    "volumes": [
        {"name": "v", "persistentVolumeClaim": {"claimName": "c"}},
        {"name": "e", "ephemeral": {"volumeClaimTemplate": {}}},
    ],
    "schedulingGroup": {"podGroupName": "g"},
    "activeDeadlineSeconds": 60,
}
STATUS: Json = {
    "phase": "Running",
    "nominatedNodeName": "n1",
    "startTime": "2026-01-01T00:00:00Z",
    "containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "1"}, "resources": {"requests": {"cpu": "2"}}}],
    "allocatedResources": {"cpu": "2"},
    "resources": {"requests": {"cpu": "2"}},
}
VALUES = {
    "group-name": "g",
    "group-min-member": "2",
    "task-priority": "3",
    "preemptable": "true",
    "cooldown-time": "10m",
    "sla-waiting-time": "10m",
    "broken-grace-period": "-1",
    "max-runtime": "10m",
    "restart-seconds": "30",
    "last-checkpoint-time": "2026-01-01T00:00:00Z",
    "locked-since": "2026-01-01T00:00:00Z",
    "gang": "true",
    "min-workers": "1",
    "max-workers": "4",
    "epochs": "4",
    "pod_group_size": "2",
    "elastic": '{"last_resize":1.0,"attained":2.5,"running":true}',
    "holds": "n1=2",
    "hierarchy": "root/a/b",
    "hierarchy-weights": "1/2/3",
}
"""Valid values of annotations, by the last part of their names; any other is plain text."""


def annotation_keys() -> list[str]:
    """Every annotation and label that `maar.kube.wire.annotations` names."""
    found = [v for name, v in vars(known).items() if name.isupper() and isinstance(v, str | tuple)]
    return sorted({key for value in found for key in ((value,) if isinstance(value, str) else value)})


ANNOTATIONS = {key: VALUES.get(key.rpartition("/")[2], "x") for key in annotation_keys()}


def _annotated(item: Json, leave_out: str = "") -> Json:
    notes = {key: value for key, value in ANNOTATIONS.items() if key != leave_out}
    return {**item, "metadata": {**item["metadata"], "annotations": notes, "labels": notes}}


def _rich() -> list[Json]:
    elastic = {"minReplicas": 1, "maxReplicas": 3}
    jobs = [
        kubeflow(kind.resource.kind, f"{kind.resource.kind.removesuffix('Job').lower()}ReplicaSpecs", "k", 2)
        for kind in JOB_KINDS
        if kind.resource.group == "kubeflow.org" and kind.resource.kind != "PyTorchJob"
    ]
    pytorch = kubeflow("PyTorchJob", "pytorchReplicaSpecs", "rich", 2, suspend=False)
    pytorch["spec"]["elasticPolicy"] = elastic
    pytorch["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"] = RICH
    pytorch["spec"]["runPolicy"] = {"suspend": False, "schedulingPolicy": {"minAvailable": 2, "queue": "q"}}
    group = volcano_group("rich", 2)
    group["spec"] |= {
        "minTaskMember": {"worker": 1},
        "queue": "evil",
        "priorityClassName": "high",
        "minResources": {"cpu": "2", "nvidia.com/gpu": "1"},
        "networkTopology": {"mode": "hard", "highestTierAllowed": 2},
    }
    queue = {"weight": 2, "capability": {"cpu": "8"}, "deserved": {"cpu": "4"}, "guarantee": {"resource": {"cpu": "1"}}}
    named = {"annotations": {"scheduling.k8s.io/group-name": "rich"}}
    return [
        pod("rich", spec=RICH, metadata={"labels": {"app": "x"}}, status={"phase": "Pending"}),
        pod("bound", spec={**RICH, "nodeName": "evil-n1"}, status=STATUS),
        pod("rich-0", metadata=named),
        _annotated(pod("notes")),
        _annotated(pod("plain"), known.GROUP_NAME[0]),
        _annotated(volcano_group("notes", 2)),
        _annotated(pytorch | {"metadata": {**pytorch["metadata"], "name": "notes"}}),
        _annotated(batch("notes")),
        _annotated(node("notes")),
        _annotated(thing("scheduling.volcano.sh/v1beta1", "Queue", "notes", spec={})),
        pytorch,
        group,
        node("rich", "train:1", spec={"taints": [{"key": "k", "effect": "NoSchedule", "value": "v"}]}),
        thing("scheduling.volcano.sh/v1beta1", "Queue", "evil", spec={**queue, "parent": "root", "priority": 1}),
        thing(
            "scheduling.x-k8s.io/v1alpha1",
            "PodGroup",
            "rich",
            spec={"minMember": 2, "scheduleTimeoutSeconds": 5, "minResources": {"cpu": "1"}},
        ),
        *jobs,
        thing("batch/v1", "Job", "rich", spec={"parallelism": 2, "completions": 4, "template": template(**RICH)}),
    ]


def moved(item: Json) -> Json:
    """The object in the namespace `evil`, or with a name of its own."""
    item = copy.deepcopy(item)
    kind = kind_named(item["apiVersion"], item["kind"])
    assert kind is not None
    if kind.resource.namespaced:
        item["metadata"]["namespace"] = EVIL
    elif not item["metadata"]["name"].startswith(EVIL):
        item["metadata"]["name"] = f"{EVIL}-{item['metadata']['name']}"
    return item


WORLD: list[Json] = [moved(versions[0]) for versions in VERSIONS]
"""A small valid cluster in which the mutated object stands."""
SAMPLES: list[Json] = [*(moved(version) for versions in VERSIONS for version in versions), *map(moved, _rich())]
"""What is mutated."""
