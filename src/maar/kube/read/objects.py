"""All objects of one picture of the cluster, by kind, and the one table of the kinds that Maar reads.

A reader of files or a set of watches fills an `Objects`; `maar.kube.read.cluster` makes the model of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from maar.kube.wire import cluster as wire
from maar.kube.wire import groups as wire_groups
from maar.kube.wire import pods as wire_pods
from maar.kube.wire import volumes as wire_volumes
from maar.kube.wire.base import Object


@dataclass(slots=True)
class Objects:
    """What there is, in any order."""

    nodes: list[wire.Node] = field(default_factory=list)
    pods: list[wire_pods.Pod] = field(default_factory=list)
    priority_classes: list[wire.PriorityClass] = field(default_factory=list)
    upstream_groups: list[wire_groups.UpstreamGroup] = field(default_factory=list)
    volcano_groups: list[wire_groups.VolcanoGroup] = field(default_factory=list)
    plugins_groups: list[wire_groups.PluginsGroup] = field(default_factory=list)
    queues: list[wire.Queue] = field(default_factory=list)
    budgets: list[wire.PodDisruptionBudget] = field(default_factory=list)
    hypernodes: list[wire.HyperNode] = field(default_factory=list)
    namespaces: list[wire.Namespace] = field(default_factory=list)
    quotas: list[wire.ResourceQuota] = field(default_factory=list)
    kubeflow_jobs: list[wire_groups.KubeflowJob] = field(default_factory=list)
    volcano_jobs: list[wire_groups.VolcanoJob] = field(default_factory=list)
    job_sets: list[wire_groups.JobSet] = field(default_factory=list)
    batch_jobs: list[wire_groups.BatchJob] = field(default_factory=list)
    claims: list[wire_volumes.PersistentVolumeClaim] = field(default_factory=list)
    volumes: list[wire_volumes.PersistentVolume] = field(default_factory=list)
    storage_classes: list[wire_volumes.StorageClass] = field(default_factory=list)
    csi_nodes: list[wire_volumes.CsiNode] = field(default_factory=list)


class Kind(NamedTuple):
    """How a kind is decoded, and where it goes in `Objects`."""

    struct: type[Object]
    home: str
    namespaced: bool = True


KUBEFLOW = ("PyTorchJob", "TFJob", "MPIJob", "XGBoostJob", "PaddleJob", "JAXJob")

KINDS: dict[tuple[str, str], Kind] = {
    ("", "Node"): Kind(wire.Node, "nodes", namespaced=False),
    ("", "Pod"): Kind(wire_pods.Pod, "pods"),
    ("", "Namespace"): Kind(wire.Namespace, "namespaces", namespaced=False),
    ("", "ResourceQuota"): Kind(wire.ResourceQuota, "quotas"),
    ("", "PersistentVolumeClaim"): Kind(wire_volumes.PersistentVolumeClaim, "claims"),
    ("", "PersistentVolume"): Kind(wire_volumes.PersistentVolume, "volumes", namespaced=False),
    ("storage.k8s.io", "StorageClass"): Kind(wire_volumes.StorageClass, "storage_classes", namespaced=False),
    ("storage.k8s.io", "CSINode"): Kind(wire_volumes.CsiNode, "csi_nodes", namespaced=False),
    ("scheduling.k8s.io", "PriorityClass"): Kind(wire.PriorityClass, "priority_classes", namespaced=False),
    ("scheduling.k8s.io", "PodGroup"): Kind(wire_groups.UpstreamGroup, "upstream_groups"),
    ("scheduling.volcano.sh", "PodGroup"): Kind(wire_groups.VolcanoGroup, "volcano_groups"),
    ("scheduling.x-k8s.io", "PodGroup"): Kind(wire_groups.PluginsGroup, "plugins_groups"),
    ("scheduling.volcano.sh", "Queue"): Kind(wire.Queue, "queues", namespaced=False),
    ("policy", "PodDisruptionBudget"): Kind(wire.PodDisruptionBudget, "budgets"),
    ("topology.volcano.sh", "HyperNode"): Kind(wire.HyperNode, "hypernodes", namespaced=False),
    ("batch.volcano.sh", "Job"): Kind(wire_groups.VolcanoJob, "volcano_jobs"),
    ("jobset.x-k8s.io", "JobSet"): Kind(wire_groups.JobSet, "job_sets"),
    ("batch", "Job"): Kind(wire_groups.BatchJob, "batch_jobs"),
    **{("kubeflow.org", kind): Kind(wire_groups.KubeflowJob, "kubeflow_jobs") for kind in KUBEFLOW},
}
"""By API group and kind; the fields that are read are the same in every version of a group."""
