"""Pods to tasks: the status of each pod, and the fields of its object."""

from collections.abc import Callable

import pytest

from maar.model.jobs import Job
from maar.model.snapshot import Cluster
from maar.model.tasks import Gate, Status, Task

Load = Callable[..., Cluster]

CLASSES = """
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1000
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: gentle}
value: 500
preemptionPolicy: Never
"""
DEFAULT_CLASS = """
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: usual}
value: 7
globalDefault: true
"""
NODE = "\n---\n{apiVersion: v1, kind: Node, metadata: {name: n1}}\n"


def read(load: Load, meta: str = "", spec: str = "", status: str = "", more: str = "") -> tuple[Task, Job]:
    cluster = load(
        f"{{apiVersion: v1, kind: Pod, metadata: {{name: p, {meta}}}, spec: {{{spec}}}, status: {{{status}}}}}{more}"
    )
    (task,) = cluster.tasks
    (job,) = cluster.jobs
    assert job.key == task.job
    return task, job


def task(load: Load, meta: str = "", spec: str = "", status: str = "", more: str = "") -> Task:
    return read(load, meta, spec, status, more)[0]


DELETING = "deletionTimestamp: 2030-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("meta", "spec", "status", "expected"),
    [
        ("", "", "", (Status.PENDING, "")),
        ("", "nodeName: n1", "phase: Pending", (Status.BOUND, "n1")),
        ("", "nodeName: n1", "phase: Running", (Status.BOUND, "n1")),
        ("", "nodeName: unknown", "phase: Running", (Status.BOUND, "unknown")),
        (DELETING, "nodeName: n1", "phase: Running", (Status.RELEASING, "n1")),
        ("", "nodeName: n1", "phase: Succeeded", (Status.SUCCEEDED, "n1")),
        (DELETING, "nodeName: n1", "phase: Failed", (Status.FAILED, "n1")),
        ("", "", "nominatedNodeName: n1", (Status.NOMINATED, "n1")),
        ("", "", "nominatedNodeName: gone", (Status.PENDING, "")),
        ("", "schedulingGates: [{name: x}]", "nominatedNodeName: n1", (Status.BLOCKED, "")),
        ("", "nodeName: n1, resourceClaims: [{name: gpu}]", "", (Status.BOUND, "n1")),
    ],
)
def test_where_a_pod_stands(load: Load, meta: str, spec: str, status: str, expected: tuple[Status, str]) -> None:
    found = task(load, meta, spec, status, NODE)
    assert expected == (found.status, found.node)


def test_a_deleted_pod_without_a_node_is_gone(load: Load) -> None:
    cluster = load(f"{{apiVersion: v1, kind: Pod, metadata: {{name: p, {DELETING}}}}}")
    assert ((), ()) == (cluster.tasks, cluster.jobs)


@pytest.mark.parametrize(
    ("meta", "spec", "why"),
    [
        (
            "",
            "schedulingGates: [{name: kueue.x-k8s.io/admission}, {name: y}]",
            "scheduling gates: kueue.x-k8s.io/admission, y",
        ),
        ("", "resourceClaims: [{name: gpu}]", "needs resource claims that Maar does not account for: gpu"),
        (
            "",
            "containers: [{resources: {limits: {volcano.sh/vgpu-number: 1, volcano.sh/vgpu-memory: 3000}}}]",
            "needs a share of a device, "
            "which Maar does not account for: volcano.sh/vgpu-memory, volcano.sh/vgpu-number",
        ),
        (
            'annotations: {gpu-fraction: "0.5"}',
            "",
            "needs a share of a device, which Maar does not account for: annotation `gpu-fraction`",
        ),
    ],
)
def test_what_maar_does_not_account_for_is_blocked(load: Load, meta: str, spec: str, why: str) -> None:
    found = task(load, meta, spec)
    assert (Status.BLOCKED, why) == (found.status, found.blocked)


ASKS = 'annotations: {scheduling.volcano.sh/queue-allocation-gate: "true"}'
GATES = "schedulingGates: [{name: scheduling.volcano.sh/queue-allocation-gate}%s]"


@pytest.mark.parametrize(
    ("meta", "spec", "expected"),
    [
        ("", "", (Status.PENDING, Gate.NONE)),
        (ASKS, "", (Status.PENDING, Gate.OPENED)),
        (ASKS.replace("true", "yes"), "", (Status.PENDING, Gate.NONE)),
        (ASKS, GATES % "", (Status.BLOCKED, Gate.CLOSED)),
        ("", GATES % "", (Status.BLOCKED, Gate.CLOSED)),
        (ASKS, GATES % ", {name: x}", (Status.BLOCKED, Gate.NONE)),
    ],
)
def test_gate_of_the_queue(load: Load, meta: str, spec: str, expected: tuple[Status, Gate]) -> None:
    found = task(load, meta, spec)
    assert expected == (found.status, found.gate)


@pytest.mark.parametrize(
    ("spec", "more", "expected"),
    [
        ("", "", 0),
        ("priority: 5", CLASSES, 5),
        ("priority: 5, priorityClassName: high", CLASSES, 5),
        ("priorityClassName: high", CLASSES, 1000),
        ("", DEFAULT_CLASS, 7),
        ("priorityClassName: high", CLASSES + DEFAULT_CLASS, 1000),
        ("priorityClassName: system-cluster-critical", "", 2_000_000_000),
        ("priorityClassName: system-node-critical", "", 2_000_001_000),
    ],
)
def test_priority(load: Load, spec: str, more: str, expected: int) -> None:
    found, job = read(load, spec=spec, more=more)
    assert (expected, expected, "") == (found.priority, job.priority, job.broken)


def test_of_several_default_classes_the_lowest_counts(load: Load) -> None:
    more = DEFAULT_CLASS + DEFAULT_CLASS.replace("usual", "other").replace("7", "3")
    assert 3 == task(load, more=more).priority


def test_an_annotation_overrides_the_tasks_priority_and_not_the_jobs(load: Load) -> None:
    found, job = read(load, 'annotations: {volcano.sh/task-priority: "9"}', "priority: 5")
    assert (9, 5) == (found.priority, job.priority)


def test_an_unknown_class_breaks_the_job(load: Load) -> None:
    _, job = read(load, spec="priorityClassName: hihg", more=CLASSES)
    assert "pod `default/p`: priority class `hihg` does not exist" == job.broken


def test_a_class_that_is_not_there_is_not_needed_where_the_pod_has_its_number(load: Load) -> None:
    assert "" == read(load, spec="priorityClassName: live, priority: 3")[1].broken


@pytest.mark.parametrize(
    ("spec", "preempts"),
    [
        ("", True),
        ("preemptionPolicy: Never", False),
        ("priorityClassName: gentle", False),
        ("priorityClassName: gentle, priority: 500", False),
        ("priorityClassName: gentle, preemptionPolicy: PreemptLowerPriority", True),
    ],
)
def test_preemption_policy(load: Load, spec: str, preempts: bool) -> None:
    assert preempts == read(load, spec=spec, more=CLASSES)[1].preempts


@pytest.mark.parametrize(
    ("meta", "expected"),
    [
        ("", True),
        ('annotations: {volcano.sh/preemptable: "false"}', False),
        ('labels: {volcano.sh/preemptable: "false"}', False),
        ('labels: {volcano.sh/preemptable: "false"}, annotations: {volcano.sh/preemptable: "true"}', True),
    ],
)
def test_preemptable(load: Load, meta: str, expected: bool) -> None:
    assert expected == task(load, meta).preemptable


def test_critical(load: Load) -> None:
    assert task(load, "namespace: kube-system").critical
    assert task(load, spec="priorityClassName: system-node-critical").critical
    assert not task(load, "namespace: kube-public").critical


OWNER = "ownerReferences: [{apiVersion: %s, kind: %s, name: n1, controller: %s}]"
MIRROR = "annotations: {kubernetes.io/config.mirror: abc}"
PIN = (
    "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "
    "[{matchFields: [{key: metadata.name, operator: In, values: [n1]}]}]}}}"
)


def test_controlled(load: Load) -> None:
    assert [True, False] == [task(load, OWNER % ("batch/v1", "Job", said)).controlled for said in ("true", "false")]


@pytest.mark.parametrize(
    ("meta", "spec", "expected"),
    [
        (OWNER % ("apps/v1", "DaemonSet", "true"), PIN, True),
        (OWNER % ("apps/v1", "DaemonSet", "false"), PIN, False),
        (OWNER % ("apps/v1", "DaemonSet", "true"), "nodeName: n1", False),
        (OWNER % ("example.com/v1", "DaemonSet", "true"), PIN, False),
        (OWNER % ("batch/v1", "Job", "true"), PIN, False),
        (f"{MIRROR}, {OWNER % ('v1', 'Node', 'true')}", "nodeName: n1", True),
        (f"{MIRROR}, {OWNER % ('v1', 'Node', 'true')}", "nodeName: n2", False),
        (MIRROR, "nodeName: n1", False),
    ],
)
def test_resident(load: Load, meta: str, spec: str, expected: bool) -> None:
    """By all that a kubelet or the DaemonSet controller writes: one field alone proves nothing."""
    assert expected == task(load, meta, spec).resident


@pytest.mark.parametrize("where", ["labels", "annotations"])
def test_cooldown(load: Load, where: str) -> None:
    assert 600.0 == task(load, f"{where}: {{volcano.sh/cooldown-time: 10m}}").cooldown


def test_times(load: Load) -> None:
    meta = (
        "creationTimestamp: 1970-01-01T00:00:10Z, annotations: {maar.dev/last-checkpoint-time: '1970-01-01T00:00:40Z'}"
    )
    found = task(load, meta, "nodeName: n1", "startTime: 1970-01-01T00:00:20Z")
    assert (10.0, 20.0, 40.0) == (found.created, found.started, found.checkpoint)
    assert task(load, meta, "nodeName: n1").started is None, "its kubelet has not started it yet"
    assert task(load, meta).started is None


def test_what_does_not_say_when_it_was_created_is_new(load: Load) -> None:
    cluster = load("{apiVersion: v1, kind: Pod, metadata: {name: p}}", now=50.0)
    assert (50.0, 50.0) == (cluster.tasks[0].created, cluster.jobs[0].created)


@pytest.mark.parametrize(
    ("meta", "spec", "expected"),
    [
        ("", "", None),
        ("annotations: {maar.dev/max-runtime: 1h}", "", 3600.0),
        ("annotations: {maar.dev/max-runtime: 0s}", "", None),
        ("annotations: {maar.dev/max-runtime: -5s}", "", None),
        ("annotations: {maar.dev/max-runtime: '-5'}", "activeDeadlineSeconds: 90", 90.0),
        ("", "activeDeadlineSeconds: 0", None),
        ("annotations: {maar.dev/max-runtime: 1h}", "activeDeadlineSeconds: -1", 3600.0),
        ('annotations: {maar.dev/max-runtime: "60"}', "activeDeadlineSeconds: 90", 60.0),
        ("annotations: {maar.dev/max-runtime: 1h}", "activeDeadlineSeconds: 90", 90.0),
    ],
)
def test_promises(load: Load, meta: str, spec: str, expected: float | None) -> None:
    found, job = read(load, meta, spec)
    assert (expected, expected) == (found.promise, job.promise)


@pytest.mark.parametrize(
    ("name", "labels", "expected"),
    [
        ("worker-12", "", 12),
        ("worker", "", 0),
        ("worker-x7k2p", "", 0),
        ("worker-12-x7k2p", 'batch.kubernetes.io/job-completion-index: "3"', 3),
        ("worker-1", 'training.kubeflow.org/replica-index: "4"', 4),
        ("worker-1", 'volcano.sh/task-index: "5"', 5),
    ],
)
def test_index(load: Load, name: str, labels: str, expected: int) -> None:
    (found,) = load(f"{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, labels: {{{labels}}}}}}}").tasks
    assert expected == found.index


@pytest.mark.parametrize(
    ("meta", "expected"),
    [
        ("", ""),
        ("annotations: {volcano.sh/task-spec: ps}, labels: {training.kubeflow.org/replica-type: worker}", "ps"),
        ("labels: {training.kubeflow.org/replica-type: worker}", "worker"),
        ("labels: {training.kubeflow.org/job-role: launcher}", "launcher"),
        ("labels: {jobset.sigs.k8s.io/replicatedjob-name: leaders}", "leaders"),
    ],
)
def test_role(load: Load, meta: str, expected: str) -> None:
    assert expected == task(load, meta).role


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90.0), ("-1", -1.0), ("-5m", -1.0), ("0", 0.0)])
def test_a_job_says_how_long_it_stays_without_its_minimum(load: Load, text: str, seconds: float) -> None:
    _, job = read(load, f"annotations: {{maar.dev/broken-grace-period: '{text}'}}")
    assert seconds == job.broken_grace


@pytest.mark.parametrize(
    ("annotation", "problem"),
    [
        ("volcano.sh/cooldown-time: soon", "`volcano.sh/cooldown-time`: not a duration: `soon`"),
        ("volcano.sh/preemptable: maybe", "`volcano.sh/preemptable`: expected `true` or `false`, got `maybe`"),
        ("volcano.sh/task-priority: top", "`volcano.sh/task-priority`: expected a whole number"),
        ("maar.dev/max-runtime: long", "`maar.dev/max-runtime`: not a duration: `long`"),
        ("maar.dev/last-checkpoint-time: noon", "`maar.dev/last-checkpoint-time`: not a time: `noon`"),
        ("volcano.sh/sla-waiting-time: soon", "`volcano.sh/sla-waiting-time`: not a duration: `soon`"),
        ("maar.dev/broken-grace-period: -soon", "`maar.dev/broken-grace-period`: not a duration: `soon`"),
        ("maar.dev/topology-mode: strict", "`maar.dev/topology-mode`: expected `hard` or `soft`, got `strict`"),
    ],
)
def test_a_broken_annotation_breaks_the_job_and_nothing_else(load: Load, annotation: str, problem: str) -> None:
    _, job = read(load, f"annotations: {{{annotation}}}")
    assert problem in job.broken


def test_a_negative_request_breaks_the_job(load: Load) -> None:
    _, job = read(load, spec="containers: [{resources: {requests: {cpu: -1}}}]")
    where = "pod `default/p`: spec.containers[0].resources.requests.cpu"
    assert f"{where}: expected an amount of at least 0, got `-1`" == job.broken


OTHERS = """
{apiVersion: v1, kind: Pod, metadata: {name: bound}, spec: {schedulerName: other, nodeName: n1}}
---
{apiVersion: v1, kind: Pod, metadata: {name: unbound}, spec: {schedulerName: other}}
---
{apiVersion: v1, kind: Pod, metadata: {name: ours}, spec: {schedulerName: maar}}
---
{apiVersion: v1, kind: Pod, metadata: {name: defaulted}}
"""


def test_other_schedulers_pods_take_room_and_nothing_else(load: Load) -> None:
    cluster = load(OTHERS, frozenset({"maar"}))
    queues = {j.key: j.queue for j in cluster.jobs}
    assert {"default/bound": "", "default/ours": "default"} == queues
    assert {"default/bound": False, "default/ours": True} == {t.key: t.preemptable for t in cluster.tasks}


def test_several_names_may_be_ours(load: Load) -> None:
    cluster = load(OTHERS, frozenset({"maar", "default-scheduler"}))
    assert {"default/bound", "default/ours", "default/defaulted"} == {t.key for t in cluster.tasks}


def test_without_names_all_pods_are_ours(load: Load) -> None:
    assert 4 == len(load(OTHERS).tasks)


@pytest.mark.parametrize(("bound", "left"), [("nodeName: n1", ["default/p"]), ("", [])])
def test_a_group_of_others_pods_is_not_ours(load: Load, bound: str, left: list[str]) -> None:
    text = """
{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: g}}
---
{apiVersion: v1, kind: Pod, metadata: {name: p, annotations: {scheduling.k8s.io/group-name: g}},
 spec: {schedulerName: volcano, BOUND}}
""".replace("BOUND", bound)
    assert left == [j.key for j in load(text, frozenset({"maar"})).jobs]
    assert ["default/g"] == [j.key for j in load(text, frozenset({"volcano"})).jobs]
