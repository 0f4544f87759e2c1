"""Objects of KubeRay, LeaderWorkerSet, JobSet and Trainer, and the pods that their controllers make, as JSON.

What controllers and webhooks set is set here: labels, owner references with uids, names.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

RAY = "ray.io/v1"
LWS = "leaderworkerset.x-k8s.io/v1"
JOBSET = "jobset.x-k8s.io/v1alpha2"
TRAINER = "trainer.kubeflow.org/v1alpha1"
INDEX = "batch.kubernetes.io/job-completion-index"
GPU = "nvidia.com/gpu"


def template(gpu: int = 1, **spec: Any) -> Json:
    """A pod template of ours with one container."""
    resources = {"requests": {"cpu": "100m"}, **({"limits": {GPU: str(gpu)}} if gpu else {})}
    container = {"name": "main", "image": "example.com/main:1", "resources": resources}
    return {"spec": {"schedulerName": "maar", "containers": [container], **spec}}


def thing(api_version: str, kind: str, name: str, spec: Json, **metadata: Any) -> Json:
    """An object."""
    about = {"name": name, "namespace": "default", "uid": f"uid-{kind}-{name}", **metadata}
    return {"apiVersion": api_version, "kind": kind, "metadata": about, "spec": spec}


def owned(owner: Json) -> Json:
    """Metadata that says which object controls this one."""
    meta = owner["metadata"]
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta["name"], "uid": meta["uid"]}
    return {"ownerReferences": [{**reference, "controller": True}]}


def pod(name: str, owner: Json, labels: dict[str, str], gpu: int = 1, **metadata: Any) -> Json:
    """A pod as the controller of an object makes it."""
    made = thing("v1", "Pod", name, template(gpu)["spec"], labels=labels, **{**owned(owner), **metadata})
    return {**made, "spec": {**made["spec"], "terminationGracePeriodSeconds": 0}}


# -- KubeRay


def worker_group(name: str, replicas: int, **more: Any) -> Json:
    return {"groupName": name, "replicas": replicas, "template": template(), **more}


def ray_spec(*groups: Json, **more: Any) -> Json:
    return {"headGroupSpec": {"template": template(gpu=0)}, "workerGroupSpecs": list(groups), **more}


def ray_cluster(*groups: Json, name: str = "ray", metadata: Json | None = None, **spec: Any) -> Json:
    return thing(RAY, "RayCluster", name, ray_spec(*groups, **spec), **(metadata or {}))


def ray_job(*groups: Json, name: str = "job", metadata: Json | None = None, **spec: Any) -> Json:
    of = {"entrypoint": "python train.py", "rayClusterSpec": ray_spec(*groups), **spec}
    return thing(RAY, "RayJob", name, of, **(metadata or {}))


def ray_pod(cluster: Json, name: str, group: str = "headgroup", **metadata: Any) -> Json:
    node_type = "head" if group == "headgroup" else "worker"
    of = cluster["metadata"]["name"]
    labels = {"ray.io/is-ray-node": "yes", "ray.io/cluster": of, "ray.io/node-type": node_type, "ray.io/group": group}
    return pod(f"{of}-{name}", cluster, labels, gpu=int(node_type == "worker"), **metadata)


def batch_job(name: str, owner: Json) -> Json:
    """The Job that an object makes."""
    return thing("batch/v1", "Job", name, {"template": template(restartPolicy="Never")}, **owned(owner))


# -- LeaderWorkerSet


def leader_worker_set(replicas: int, size: int, metadata: Json | None = None, **spec: Any) -> Json:
    of = {"replicas": replicas, "leaderWorkerTemplate": {"size": size, "workerTemplate": template()}, **spec}
    return thing(LWS, "LeaderWorkerSet", "serve", of, **(metadata or {}))


def group_pod(group: int, index: int, name: str = "serve") -> Json:
    prefix = "leaderworkerset.sigs.k8s.io"
    labels = {f"{prefix}/name": name, f"{prefix}/group-index": str(group), f"{prefix}/worker-index": str(index)}
    made = f"{name}-{group}-{index}" if index else f"{name}-{group}"
    stateful_set = thing("apps/v1", "StatefulSet", f"{name}-{group}" if index else name, {})
    return pod(made, stateful_set, labels)


# -- JobSet and Trainer


def replicated(name: str, replicas: int = 1, pods: int = 1, *after: str, **more: Any) -> Json:
    """A replicated job of so many Jobs with so many pods each, which waits until the named ones are complete."""
    spec = {"parallelism": pods, "completions": pods, "template": template(restartPolicy="Never")}
    waits = {"dependsOn": [{"name": other, "status": "Complete"} for other in after]} if after else {}
    return {"name": name, "replicas": replicas, "template": {"spec": spec, **more}, **waits}


def job_set(
    *jobs: Json, name: str = "set", metadata: Json | None = None, status: Json | None = None, **spec: Any
) -> Json:
    made = thing(JOBSET, "JobSet", name, {"replicatedJobs": list(jobs), **spec}, **(metadata or {}))
    return made if status is None else {**made, "status": status}


def job_set_pods(of: Json, role: str, **metadata: Any) -> Iterator[Json]:
    """The Jobs of a replicated job, each with its pods."""
    (job,) = (job for job in of["spec"]["replicatedJobs"] if job["name"] == role)
    name, prefix = of["metadata"]["name"], "jobset.sigs.k8s.io"
    for i in range(job["replicas"]):
        made = batch_job(f"{name}-{role}-{i}", of)
        yield made
        labels = {f"{prefix}/jobset-name": name, f"{prefix}/replicatedjob-name": role, f"{prefix}/job-index": str(i)}
        labels[f"{prefix}/replicatedjob-replicas"] = str(job["replicas"])
        for k in range(job["template"]["spec"]["parallelism"]):
            yield pod(f"{name}-{role}-{i}-{k}", made, {**labels, INDEX: str(k)}, **metadata)


def train_job(name: str = "set", metadata: Json | None = None, **spec: Any) -> Json:
    return thing(TRAINER, "TrainJob", name, {"runtimeRef": {"name": "torch"}, **spec}, **(metadata or {}))


def pod_group(name: str, minimum: int, owner: Json) -> Json:
    """A PodGroup of Volcano's kind, as integrations with Volcano make it."""
    return thing("scheduling.volcano.sh/v1beta1", "PodGroup", name, {"minMember": minimum}, **owned(owner))


def in_group(name: str) -> dict[str, str]:
    return {"scheduling.k8s.io/group-name": name}
