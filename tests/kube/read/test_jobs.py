"""The job that a group and its pods make."""

from collections.abc import Callable

import pytest

from maar.model.jobs import Closeness, Job
from maar.model.plan import Lock
from maar.model.snapshot import Cluster

Load = Callable[..., Cluster]

GROUP = (
    "\n---\n{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, "
    "metadata: {name: %s, annotations: {%s}}, spec: {%s}}\n"
)
POD = (
    "\n---\n{apiVersion: v1, kind: Pod, metadata: {name: %s, "
    "annotations: {scheduling.k8s.io/group-name: g, %s}}, spec: {%s}}\n"
)
CLASS = (
    "\n---\n{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, "
    "metadata: {name: high}, value: 9, preemptionPolicy: Never}\n"
)


def job(load: Load, text: str) -> Job:
    (found,) = load(text).jobs
    return found


@pytest.mark.parametrize(
    ("group", "pods", "expected"),
    [
        ("", ("priority: 3", "priority: 5"), (0, True)),
        ("", ("priority: 3", "priority: -5"), (-5, True)),
        ("", ("priority: 3, preemptionPolicy: Never", "priority: 5"), (0, True)),
        ("", ("preemptionPolicy: Never", "preemptionPolicy: Never"), (0, False)),
        ("priorityClassName: high", ("priority: 3", "priority: 50"), (9, False)),
        ("", (), (0, True)),
    ],
)
def test_priority(load: Load, group: str, pods: tuple[str, ...], expected: tuple[int, bool]) -> None:
    text = CLASS + GROUP % ("g", "", group) + "".join(POD % (f"p{i}", "", spec) for i, spec in enumerate(pods))
    found = job(load, text)
    assert expected == (found.priority, found.preempts)


def test_a_group_without_a_queue_is_in_its_pods_queue_else_in_default(load: Load) -> None:
    assert "q" == job(load, GROUP % ("g", "", "") + POD % ("p", "scheduling.volcano.sh/queue-name: q", "")).queue
    assert "default" == job(load, GROUP % ("g", "", "") + POD % ("p", "", "")).queue
    said = GROUP % ("g", "", "queue: own") + POD % ("p", "scheduling.volcano.sh/queue-name: q", "")
    assert "own" == job(load, said).queue


@pytest.mark.parametrize(
    ("on_group", "on_pod", "expected"),
    [
        ("maar.dev/topology-key: rack", "", Closeness(key="rack")),
        ("maar.dev/topology-key: rack, maar.dev/topology-mode: soft", "", Closeness(key="rack", hard=False)),
        ("", "maar.dev/topology-key: rack", Closeness(key="rack")),
        ("maar.dev/topology-key: rack", "maar.dev/topology-key: zone", Closeness(key="rack")),
        ("", "maar.dev/topology-mode: soft", None),
    ],
)
def test_closeness_by_label(load: Load, on_group: str, on_pod: str, expected: Closeness | None) -> None:
    assert expected == job(load, GROUP % ("g", on_group, "") + POD % ("p", on_pod, "")).closeness


@pytest.mark.parametrize(
    ("on_group", "on_pods", "of_job", "of_tasks"),
    [
        ("", ("", ""), None, [None, None]),
        ("maar.dev/max-runtime: 1m", ("", ""), 60.0, [60.0, 60.0]),
        ("maar.dev/max-runtime: 0s", ("maar.dev/max-runtime: '0'", ""), None, [None, None]),
        ("", ("maar.dev/max-runtime: 1m", ""), None, [60.0, None]),
        ("", ("maar.dev/max-runtime: 1m", "maar.dev/max-runtime: 2m"), 120.0, [60.0, 120.0]),
        ("maar.dev/max-runtime: 90s", ("maar.dev/max-runtime: 1m", "maar.dev/max-runtime: 2m"), 90.0, [60.0, 90.0]),
    ],
)
def test_promises(
    load: Load, on_group: str, on_pods: tuple[str, ...], of_job: float | None, of_tasks: list[float | None]
) -> None:
    text = GROUP % ("g", on_group, "") + "".join(POD % (f"p{i}", said, "") for i, said in enumerate(on_pods))
    cluster = load(text)
    assert of_job == cluster.jobs[0].promise
    assert of_tasks == [t.promise for t in cluster.tasks]


def test_the_groups_checkpoint_counts_for_pods_that_state_none(load: Load) -> None:
    at = "maar.dev/last-checkpoint-time: '1970-01-01T00:00:%sZ'"
    cluster = load(GROUP % ("g", at % "10", "") + POD % ("p0", at % "20", "") + POD % ("p1", "", ""))
    assert [20.0, 10.0] == [t.checkpoint for t in cluster.tasks]


def test_a_gang_without_an_object_is_as_old_as_its_oldest_pod(load: Load) -> None:
    pod = (
        "\n---\n{apiVersion: v1, kind: Pod, metadata: {name: %s, "
        "creationTimestamp: '1970-01-01T00:00:%sZ', annotations: {pod_group: g}}}"
    )
    assert 7.0 == job(load, pod % ("a", "09") + pod % ("b", "07")).created


@pytest.mark.parametrize("annotation", ["elected-since", "election-expired"])
def test_old_annotations_about_elections_mean_nothing(load: Load, annotation: str) -> None:
    forged = GROUP % ("g", f"maar.dev/{annotation}: '1970-01-01T00:01:00Z'", "")
    assert load(GROUP % ("g", "", "")) == load(forged)
    assert "" == job(load, GROUP % ("g", f"maar.dev/{annotation}: soon", "")).broken


def test_a_gang_without_an_object_has_the_uid_of_its_oldest_pod(load: Load) -> None:
    pod = (
        "\n---\n{apiVersion: v1, kind: Pod, metadata: {name: %s, uid: %s, "
        "creationTimestamp: '1970-01-01T00:00:%sZ', annotations: {pod_group: g}}}"
    )
    assert "uid-b" == job(load, pod % ("a", "uid-a", "09") + pod % ("b", "uid-b", "07")).uid


@pytest.mark.parametrize(("since", "expected"), [("maar.dev/locked-since: '1970-01-01T00:01:00Z'", 60.0), ("", 0.0)])
def test_locks_come_back(load: Load, since: str, expected: float) -> None:
    node = (
        f"{{apiVersion: v1, kind: Node, metadata: {{name: n, "
        f"annotations: {{maar.dev/locked-for: default/g, {since}}}}}}}"
    )
    assert (Lock("n", "default/g", expected),) == load(node).locks


def test_one_broken_job_leaves_the_others_alone(load: Load) -> None:
    cluster = load(GROUP % ("bad", "", "minMember: -1") + GROUP % ("good", "", ""))
    assert {"default/bad": True, "default/good": False} == {j.key: bool(j.broken) for j in cluster.jobs}
