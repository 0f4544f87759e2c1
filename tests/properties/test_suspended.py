"""A gang that is created suspended gets the same verdict as if it were not, and starts in the same cycle.

The scenes are manifests of every kind that can be suspended, read as `maar plan` reads them: two pools, other jobs that
run and wait, limits, shares, priorities, racks and holds, drawn from a seed.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest

from maar.config.config import Config
from maar.config.file import default_text, read_config
from maar.decide import decide
from maar.kube.kinds import JOB_KINDS
from maar.kube.picture.manifests import read_texts
from maar.model.outcome import carry_out
from maar.model.plan import Plan
from maar.model.snapshot import Cluster, Snapshot
from maar.registry import catalog

Json = dict[str, Any]
Draw = random.Random
GPU, JOB = "nvidia.com/gpu", "ns/j"
SCENES = 40
"""Of each kind; more than 500 together."""
CYCLES = 4
POOLS = """
- name: a100
  nodes: {gpu: a100}
- name: h100
  nodes: {gpu: h100}
  algorithm: tiresias
"""
CONFIGS = (
    lambda text: text,
    lambda text: text.replace("name: proportion", "name: capacity"),
    lambda text: text.replace(", elect, allocate", ", allocate").replace(", reserve", ""),
    lambda text: text.replace(", preempt, reclaim", ""),
    lambda text: text.replace("gang.eviction: whole", "gang.eviction: surplus"),
)


@cache
def config(number: int) -> Config:
    text = CONFIGS[number](default_text())
    return read_config(f"{text}{POOLS.lstrip()}", "test", catalog()).config


# -- one job of each kind


class Asks:
    """What the job asks for: the same in both of its forms."""

    def __init__(self, dice: Draw) -> None:
        self.pods, self.gpu = dice.randint(1, 5), dice.choice([1, 2, 4, 8])
        self.head = dice.choice([None, 0, 1, 8])
        """The GPUs of a pod beside the workers; `None`: it has none."""
        self.least = dice.choice([None, None, max(self.pods - 1, 1)])
        self.priority = dice.choice(["", "low", "high", "high"])
        self.queue = dice.choice([*["default"] * 6, *["small"] * 3, "none"])
        self.notes = dice.choice([*[{}] * 6, *[{"maar.dev/topology-key": "rack"}] * 3, {"maar.dev/hold": "true"}])
        self.selects = dice.choice([*[{}] * 6, {"gpu": "h100"}, {"gpu": "none"}])
        self.claim = dice.choice([*[""] * 12, "missing"])

    def template(self, gpu: int | None = None) -> Json:
        amount = self.gpu if gpu is None else gpu
        limits = {"cpu": 1, **({GPU: amount} if amount else {})}
        notes = {"scheduling.volcano.sh/queue-name": self.queue} if self.queue != "default" else {}
        spec: Json = {
            "schedulerName": "maar",
            "nodeSelector": self.selects,
            "containers": [{"name": "main", "resources": {"limits": limits}}],
        }
        if self.priority:
            spec["priorityClassName"] = self.priority
        if self.claim:
            spec["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": self.claim}}]
        return {"metadata": {"annotations": {**notes, **self._close}}, "spec": spec}

    @property
    def _close(self) -> dict[str, str]:
        return {key: value for key, value in self.notes.items() if "topology" in key}

    def job(self, api_version: str, kind: str, spec: Json, **more: Any) -> Json:
        about = {"name": "j", "namespace": "ns", "uid": "u", "annotations": dict(self.notes)}
        return {"apiVersion": api_version, "kind": kind, "metadata": about, "spec": spec, **more}


def batch(asks: Asks, suspended: bool) -> list[Json]:
    spec = {"parallelism": asks.pods, "completionMode": "Indexed", "completions": asks.pods, "suspend": suspended}
    made = asks.job("batch/v1", "Job", {**spec, "template": asks.template()})
    made["metadata"]["annotations"]["maar.dev/gang"] = "true"
    return [made]


def kubeflow(kind: str, field: str, head: str, version: str = "v1") -> Callable[[Asks, bool], list[Json]]:
    def make(asks: Asks, suspended: bool) -> list[Json]:
        roles = {"Worker": {"replicas": asks.pods, "template": asks.template()}}
        if asks.head is not None:
            roles[head] = {"replicas": 1, "template": asks.template(asks.head)}
        policy = {} if asks.least is None else {"schedulingPolicy": {"minAvailable": asks.least}}
        return [
            asks.job(f"kubeflow.org/{version}", kind, {"runPolicy": {"suspend": suspended, **policy}, field: roles})
        ]

    return make


def ray_spec(asks: Asks) -> Json:
    group = {"groupName": "g", "replicas": asks.pods, "maxReplicas": 10, "template": asks.template()}
    return {"headGroupSpec": {"template": asks.template(asks.head or 0)}, "workerGroupSpecs": [group]}


def ray_cluster(asks: Asks, suspended: bool) -> list[Json]:
    return [asks.job("ray.io/v1", "RayCluster", {**ray_spec(asks), "suspend": suspended})]


def ray_job(asks: Asks, suspended: bool) -> list[Json]:
    spec = {"rayClusterSpec": ray_spec(asks), "shutdownAfterJobFinishes": True, "suspend": suspended}
    return [asks.job("ray.io/v1", "RayJob", spec)]


def replicated(asks: Asks, name: str, jobs: int, pods: int, gpu: int | None = None) -> Json:
    spec = {"parallelism": pods, "completions": pods, "template": asks.template(gpu)}
    return {"name": name, "replicas": jobs, "template": {"spec": spec}}


def job_set(asks: Asks, suspended: bool) -> list[Json]:
    jobs = [replicated(asks, "w", 2 if asks.least else 1, asks.pods)]
    if asks.head is not None:
        jobs.insert(0, replicated(asks, "h", 1, 1, asks.head))
    return [asks.job("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": jobs, "suspend": suspended})]


def train_job(asks: Asks, suspended: bool) -> list[Json]:
    outer = asks.job("trainer.kubeflow.org/v1alpha1", "TrainJob", {"suspend": suspended})
    (inner,) = job_set(asks, suspended)
    reference = {"apiVersion": outer["apiVersion"], "kind": "TrainJob", "name": "j", "uid": "u", "controller": True}
    inner["metadata"] |= {"uid": "inner", "ownerReferences": [reference]}
    return [outer, inner]


def volcano(asks: Asks, suspended: bool) -> list[Json]:
    tasks = [{"name": "worker", "replicas": asks.pods, "template": asks.template()}]
    if asks.head is not None:
        tasks.append({"name": "head", "replicas": 1, "template": asks.template(asks.head)})
    least = {} if asks.least is None else {"minAvailable": asks.least}
    state = {"status": {"state": {"phase": "Aborted"}}} if suspended else {}
    # Volcano queues are stated by the job.
    made = asks.job("batch.volcano.sh/v1alpha1", "Job", {"tasks": tasks, "queue": asks.queue, **least}, **state)
    made["metadata"]["annotations"]["maar.dev/elastic"] = '{"running": false, "rigid": true}' if suspended else "{}"
    return [made]


KINDS: dict[str, Callable[[Asks, bool], list[Json]]] = {
    "Job": batch,
    "PyTorchJob": kubeflow("PyTorchJob", "pytorchReplicaSpecs", "Master"),
    "TFJob": kubeflow("TFJob", "tfReplicaSpecs", "Chief"),
    "XGBoostJob": kubeflow("XGBoostJob", "xgbReplicaSpecs", "Master"),
    "PaddleJob": kubeflow("PaddleJob", "paddleReplicaSpecs", "Master"),
    "JAXJob": kubeflow("JAXJob", "jaxReplicaSpecs", "Other"),
    "MPIJob": kubeflow("MPIJob", "mpiReplicaSpecs", "Launcher"),
    "MPIJob v2beta1": kubeflow("MPIJob", "mpiReplicaSpecs", "Launcher", "v2beta1"),
    "RayCluster": ray_cluster,
    "RayJob": ray_job,
    "JobSet": job_set,
    "TrainJob": train_job,
    "Volcano Job": volcano,
}


def test_every_kind_that_maar_resumes_is_in_the_table() -> None:
    there = {(made["apiVersion"].partition("/")[0], made["kind"]) for make in KINDS.values() for made in
             make(Asks(Draw(0)), True)}  # fmt: skip
    assert set() == {kind.resource.group_kind for kind in JOB_KINDS if kind.write is not None} - there


# -- the scenes


def surroundings(dice: Draw) -> list[Json]:
    """Nodes of two pools, queues, classes, and other jobs."""
    documents: list[Json] = []
    for name, kind in [("a", "a100")] * dice.randint(0, 3) + [("h", "h100")] * dice.randint(1, 3):
        has = {"cpu": 64, "memory": "64Gi", "pods": 20, GPU: dice.choice([4, 8])}
        labels = {"gpu": kind, "rack": dice.choice(["r1", "r2"])}
        about = {"name": f"{name}{len(documents)}", "labels": labels}
        taints = [{"key": "k", "effect": "NoSchedule"}] if dice.random() < 0.1 else []
        documents.append(thing("v1", "Node", about, {"taints": taints}, status={"allocatable": has}))
    nodes = [node["metadata"]["name"] for node in documents]
    for name, value in (("low", 1), ("high", 10)):
        documents.append({**thing("scheduling.k8s.io/v1", "PriorityClass", {"name": name}, {}), "value": value})
    for queue, limit in (("default", None), ("small", dice.choice([2, 16])), ("other", None)):
        spec = {"weight": 1, **({"capability": {GPU: limit}} if limit else {})}
        documents.append(thing("scheduling.volcano.sh/v1beta1", "Queue", {"name": queue}, spec))
    for number in range(dice.randint(0, 3)):
        gang = Asks(dice)
        gang.notes, gang.claim = {}, ""
        (made,) = batch(gang, False)
        made["metadata"] |= {"name": f"other{number}", "uid": f"other{number}", "creationTimestamp": stamp(dice)}
        documents.append(made)
    for number in range(dice.randint(0, 8)):
        one = Asks(dice)
        one.notes, one.claim, one.selects = {}, "", {}
        one.priority, one.gpu = dice.choice(["", "low", "high"]), dice.choice([2, 4])
        one.queue = dice.choice(["default", "default", "other"])
        pod = one.template()
        spec = {**pod["spec"], "nodeName": dice.choice(nodes)}
        about = {**pod["metadata"], "name": f"p{number}", "namespace": "ns", "uid": f"p{number}"}
        documents.append(thing("v1", "Pod", about, spec, status={"phase": "Running"}))
    return documents


def stamp(dice: Draw) -> str:
    return f"1970-01-01T00:00:{dice.randint(1, 20):02}Z"


def thing(api_version: str, kind: str, metadata: Json, spec: Json, **more: Any) -> Json:
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec, **more}


def read(documents: list[Json]) -> Cluster:
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": documents}).encode()
    return read_texts([("scene", text)], frozenset({"maar"}), 100.0).cluster


def scene(make: Callable[[Asks, bool], list[Json]], seed: int, suspended: bool) -> Cluster:
    dice = Draw(seed)
    asks, created = Asks(dice), stamp(dice)
    job = make(asks, suspended)
    for part in job:
        part["metadata"]["creationTimestamp"] = created
    return read([*surroundings(dice), *job])


def starts(plan: Plan, cluster: Cluster) -> bool:
    """Whether the job starts in this cycle."""
    own = {task.key for task in cluster.tasks if task.job == JOB}
    return any(bind.task in own for bind in plan.bind) or any(resume.job == JOB for resume in plan.resume)


def said(plan: Plan) -> list[tuple[str, str, str, bool]]:
    """Why it waits."""
    reasons = [reason for wait in plan.waiting if wait.job == JOB for reason in wait.reasons]
    return [(reason.plugin, reason.code, reason.words, reason.never is not None) for reason in reasons]


def others(plan: Plan, cluster: Cluster) -> object:
    """What happens to all other jobs, and for whom."""
    own = {task.key for task in cluster.tasks if task.job == JOB}
    moves = [move for moves in (plan.bind, plan.nominate) for move in moves if move.task not in own]
    waits = {wait.job: wait.reasons for wait in plan.waiting if wait.job != JOB}
    return moves, plan.evict, waits, plan.elect, plan.locks, plan.deserved


def places(plan: Plan, cluster: Cluster) -> Counter[str]:
    """How many pods have, or are promised, room on each node."""
    found: Counter[str] = Counter()
    for hold in plan.reserve:
        found[hold.node] += hold.count if hold.job == JOB else 0
    own = {task.key for task in cluster.tasks if task.job == JOB}
    found.update(move.node for moves in (plan.bind, plan.nominate) for move in moves if move.task in own)
    return found


@pytest.fixture(scope="module")
def outcomes() -> Iterator[Counter[str]]:
    """How many scenes ended how: they must be about something."""
    found: Counter[str] = Counter()
    yield found
    if found.total() == SCENES * len(KINDS):
        often = {"starts at once", "starts later", "Held", "Blocked", "NotEnoughResources", "OverCapability"}
        assert set() == {outcome for outcome in often if found[outcome] < 5}, found


@pytest.mark.parametrize("kind", KINDS)
def test_safety_a_suspended_gang_gets_the_verdict_of_one_that_is_not(kind: str, outcomes: Counter[str]) -> None:
    first = list(KINDS).index(kind) * SCENES
    for seed in range(first, first + SCENES):
        rules = config(seed % len(CONFIGS))
        bare, suspended = (scene(KINDS[kind], seed, suspended) for suspended in (False, True))
        outcome = ""
        for cycle in range(CYCLES):
            now = 100.0 + cycle
            expected, found = (decide(Snapshot(cluster), rules, now) for cluster in (bare, suspended))
            about = f"seed {seed}, cycle {cycle}"
            assert said(expected) == said(found), about
            assert starts(expected, bare) == starts(found, suspended), about
            assert others(expected, bare) == others(found, suspended), about
            assert places(expected, bare) == +places(found, suspended), about
            if starts(expected, bare):
                outcome = "starts at once" if not cycle else "starts later"
            if outcome or not (expected.moves or expected.nominate or expected.elect):
                break
            bare, suspended = carry_out(bare, expected, now), carry_out(suspended, found, now)
        outcomes[outcome or said(found)[0][1]] += 1
