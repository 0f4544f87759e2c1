"""The six ways to say that pods are a gang, and which wins."""

from collections.abc import Callable

import pytest

from maar.model.jobs import Closeness, Job, Phase
from maar.model.snapshot import Cluster

Load = Callable[..., Cluster]

UPSTREAM = "scheduling.k8s.io/v1beta1"
VOLCANO = "scheduling.volcano.sh/v1beta1"
PLUGINS = "scheduling.x-k8s.io/v1alpha1"


def group(version: str, spec: str, name: str = "g", meta: str = "", status: str = "") -> str:
    return (
        f"\n---\n{{apiVersion: {version}, kind: PodGroup, metadata: {{name: {name}, {meta}}}, "
        f"spec: {{{spec}}}, status: {{{status}}}}}\n"
    )


def pod(name: str, meta: str = "", spec: str = "", status: str = "") -> str:
    return (
        f"\n---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, "
        f"{meta}}}, spec: {{{spec}}}, status: {{{status}}}}}\n"
    )


def members(cluster: Cluster) -> dict[str, list[str]]:
    """The pods of each job."""
    found: dict[str, list[str]] = {j.key: [] for j in cluster.jobs}
    for task in cluster.tasks:
        found[task.job].append(task.key.partition("/")[2])
    return found


def only(cluster: Cluster) -> Job:
    (job,) = cluster.jobs
    return job


IN_UPSTREAM = "schedulingGroup: {podGroupName: g}"
IN_VOLCANO = "annotations: {scheduling.k8s.io/group-name: g}"
IN_PLUGINS = "labels: {scheduling.x-k8s.io/pod-group: g}"


@pytest.mark.parametrize("version", ["v1alpha1", "v1alpha2", "v1beta1"])
def test_upstream(load: Load, version: str) -> None:
    spec = "schedulingPolicy: {gang: {minCount: 2}}, priority: 9, schedulingConstraints: {topology: [{key: rack}]}"
    text = group(f"scheduling.k8s.io/{version}", spec) + pod("a", spec=IN_UPSTREAM) + pod("b", spec=IN_UPSTREAM)
    cluster = load(text)
    job = only(cluster)
    assert {"default/g": ["a", "b"]} == members(cluster)
    assert (2, 9, Phase.INQUEUE, "default") == (job.min_member, job.priority, job.phase, job.queue)
    assert Closeness(key="rack") == job.closeness


def test_upstream_basic_is_no_gang(load: Load) -> None:
    text = group(UPSTREAM, "schedulingPolicy: {basic: {}}") + pod("a", spec=IN_UPSTREAM) + pod("b", spec=IN_UPSTREAM)
    assert {"default/a": ["a"], "default/b": ["b"]} == members(load(text))


def test_upstream_group_that_is_not_there(load: Load) -> None:
    assert "PodGroup `default/g` does not exist" == only(load(pod("a", spec=IN_UPSTREAM))).broken


@pytest.mark.parametrize("key", ["scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name"])
def test_volcano(load: Load, key: str) -> None:
    spec = (
        "minMember: 3, minTaskMember: {ps: 1, worker: 2}, queue: research, "
        "minResources: {cpu: 1500m, nvidia.com/gpu: 2}, networkTopology: {mode: hard, highestTierAllowed: 2}"
    )
    meta = "uid: u1, creationTimestamp: 1970-01-01T00:01:00Z, annotations: {volcano.sh/sla-waiting-time: 1h}"
    cluster = load(group(VOLCANO, spec, meta=meta, status="phase: Inqueue") + pod("a", f"annotations: {{{key}: g}}"))
    expected = Job(
        key="default/g",
        queue="research",
        min_member=3,
        role_min={"ps": 1, "worker": 2},
        min_resources={"cpu": 1500, "nvidia.com/gpu": 2},
        created=60.0,
        uid="u1",
        phase=Phase.INQUEUE,
        closeness=Closeness(tier=2),
        sla=3600.0,
    )
    assert expected == only(cluster)
    assert {"default/g": ["a"]} == members(cluster)


def test_volcano_defaults(load: Load) -> None:
    job = only(load(group(VOLCANO, "")))
    assert (1, "default", Phase.PENDING, None) == (job.min_member, job.queue, job.phase, job.min_resources)


def test_a_minimum_of_zero_is_zero_for_volcano_only(load: Load) -> None:
    job = only(load(group(VOLCANO, "minMember: 0")))
    assert (0, "") == (job.min_member, job.broken)
    job = only(load(group(PLUGINS, "minMember: 0")))
    assert (1, "") == (job.min_member, job.broken)


@pytest.mark.parametrize(
    ("topology", "expected"),
    [
        ("{mode: soft, highestTierAllowed: 1}", Closeness(tier=1, hard=False)),
        ("{mode: soft}", Closeness(hard=False)),
        ("{highestTierName: rack}", Closeness(tier_name="rack")),
        ("{mode: hard}", None),
        ("{}", None),
    ],
)
def test_network_topology(load: Load, topology: str, expected: Closeness | None) -> None:
    assert expected == only(load(group(VOLCANO, f"networkTopology: {topology}"))).closeness


@pytest.mark.parametrize(
    ("spec", "status", "problem"),
    [
        ("minMember: -1", "", "spec.minMember: expected a number of at least 0, got `-1`"),
        ("minTaskMember: {ps: -2}", "", "spec.minTaskMember.ps: expected a number of at least 0, got `-2`"),
        ("minResources: {cpu: -3}", "", "spec.minResources.cpu: expected an amount of at least 0, got `-3`"),
        ("minResources: {cpu: lots}", "", "spec.minResources.cpu: not a quantity: `lots`"),
        ("networkTopology: {mode: near}", "", "spec.networkTopology.mode: expected `hard` or `soft`, got `near`"),
        ("priorityClassName: none", "", "priority class `none` does not exist"),
        ("", "phase: Dreaming", "status.phase: expected one of Pending, Inqueue, "),
    ],
)
def test_a_group_that_makes_no_sense_is_broken(load: Load, spec: str, status: str, problem: str) -> None:
    job = only(load(group(VOLCANO, spec, status=status)))
    assert job.broken.startswith(problem)
    assert job.min_member >= 1


def test_a_volcano_group_that_is_not_there(load: Load) -> None:
    assert "PodGroup `default/g` does not exist" == only(load(pod("a", IN_VOLCANO))).broken


def test_pods_may_state_the_minimum_of_a_group_that_is_not_there(load: Load) -> None:
    meta = "annotations: {scheduling.k8s.io/group-name: g, scheduling.volcano.sh/group-min-member: '%s'}"
    job = only(load(pod("a", meta % 2)))
    assert (2, "", Phase.INQUEUE) == (job.min_member, job.broken, job.phase)
    problem = "`scheduling.volcano.sh/group-min-member`: expected a whole number of at least 0, got `two`"
    assert problem == only(load(pod("a", meta % "two"))).broken


@pytest.mark.parametrize(
    ("status", "keys"),
    [("", ["default/g"]), ("phase: Running", ["default/g"]), ("phase: Completed", [])],
)
def test_a_group_without_pods_is_a_job_until_it_is_completed(load: Load, status: str, keys: list[str]) -> None:
    assert keys == [j.key for j in load(group(VOLCANO, "", status=status)).jobs]


def test_a_completed_group_with_pods_is_a_job(load: Load) -> None:
    cluster = load(group(VOLCANO, "", status="phase: Completed") + pod("a", IN_VOLCANO, "", "phase: Succeeded"))
    assert Phase.COMPLETED is only(cluster).phase


def test_scheduler_plugins(load: Load) -> None:
    cluster = load(group(PLUGINS, "minMember: 2, scheduleTimeoutSeconds: 10") + pod("a", IN_PLUGINS))
    assert (2, Phase.INQUEUE) == (only(cluster).min_member, only(cluster).phase)
    assert {"default/g": ["a"]} == members(cluster)
    assert "PodGroup `default/g` does not exist" == only(load(pod("a", IN_PLUGINS))).broken


PLAIN = "annotations: {pod_group: g}"


def test_plain_annotation(load: Load) -> None:
    cluster = load(pod("a", PLAIN) + pod("b", PLAIN) + pod("c", "namespace: other, " + PLAIN))
    assert {"default/g": ["a", "b"], "other/g": ["c"]} == members(cluster)
    assert [2, 1] == [j.min_member for j in cluster.jobs]


def test_the_size_of_a_plain_gang(load: Load) -> None:
    sized = "annotations: {pod_group: g, pod_group_size: '%s'}"
    assert 4 == only(load(pod("a", sized % 4) + pod("b", PLAIN))).min_member
    assert 3 == only(load(pod("a", sized % 2) + pod("b", PLAIN) + pod("c", PLAIN))).min_member
    broken = only(load(pod("a", sized % 0))).broken
    assert "`pod_group_size`: expected a whole number of at least 1, got `0`" == broken


def test_failed_and_leaving_pods_are_not_part_of_a_plain_gangs_size(load: Load) -> None:
    leaving = f"{PLAIN}, deletionTimestamp: 2030-01-01T00:00:00Z"
    text = pod("a", PLAIN) + pod("b", PLAIN, "", "phase: Failed") + pod("c", leaving, "nodeName: n")
    assert 1 == only(load(text)).min_member


def owner(kind: str, version: str, name: str = "g") -> str:
    return f"ownerReferences: [{{apiVersion: {version}, kind: {kind}, name: {name}, controller: true}}]"


def made_by(kind: str, version: str, spec: str, meta: str = "") -> str:
    return f"\n---\n{{apiVersion: {version}, kind: {kind}, metadata: {{name: g, {meta}}}, spec: {{{spec}}}}}\n"


@pytest.mark.parametrize(
    ("kind", "version", "spec", "minimum"),
    [
        ("PyTorchJob", "kubeflow.org/v1", "pytorchReplicaSpecs: {Master: {}, Worker: {replicas: 3}}", 4),
        (
            "PyTorchJob",
            "kubeflow.org/v1",
            "runPolicy: {schedulingPolicy: {minAvailable: 2}}, pytorchReplicaSpecs: {Worker: {replicas: 3}}",
            2,
        ),
        ("TFJob", "kubeflow.org/v1", "tfReplicaSpecs: {PS: {replicas: 2}, Worker: {replicas: 3}}", 5),
        ("MPIJob", "kubeflow.org/v1", "mpiReplicaSpecs: {Launcher: {replicas: 1}, Worker: {replicas: 3}}", 4),
        (
            "MPIJob",
            "kubeflow.org/v2beta1",
            "launcherCreationPolicy: WaitForWorkersReady, mpiReplicaSpecs: {Launcher: {}, Worker: {replicas: 3}}",
            3,
        ),
        ("Job", "batch.volcano.sh/v1alpha1", "minAvailable: 2, tasks: [{name: a, replicas: 3}]", 2),
        (
            "Job",
            "batch.volcano.sh/v1alpha1",
            "tasks: [{name: a, replicas: 3}, {name: b, replicas: 4, minAvailable: 1}]",
            4,
        ),
        (
            "JobSet",
            "jobset.x-k8s.io/v1alpha2",
            "replicatedJobs: [{name: a, template: {spec: {parallelism: 1}}},"
            " {name: b, replicas: 2, template: {spec: {parallelism: 4, completions: 3}}}]",
            7,
        ),
        (
            "JobSet",
            "jobset.x-k8s.io/v1alpha2",
            "startupPolicy: {startupPolicyOrder: InOrder}, "
            "replicatedJobs: [{name: a, replicas: 2}, {name: b, replicas: 5}]",
            2,
        ),
    ],
)
def test_by_owner(load: Load, kind: str, version: str, spec: str, minimum: int) -> None:
    cluster = load(made_by(kind, version, spec) + pod("a", owner(kind, version)) + pod("b", owner(kind, version)))
    assert {"default/g": ["a", "b"]} == members(cluster)
    assert (minimum, Phase.INQUEUE) == (only(cluster).min_member, only(cluster).phase)


def test_an_owner_that_is_not_there_counts_the_pods(load: Load) -> None:
    meta = owner("PyTorchJob", "kubeflow.org/v1")
    assert 3 == only(load(pod("a", meta) + pod("b", meta) + pod("c", meta))).min_member


def test_an_owner_without_pods_is_no_job(load: Load) -> None:
    assert () == load(made_by("PyTorchJob", "kubeflow.org/v1", "")).jobs


@pytest.mark.parametrize(
    "label",
    ["training.kubeflow.org/job-name", "volcano.sh/job-name", "jobset.sigs.k8s.io/jobset-name"],
)
def test_a_label_names_the_owner_behind_a_job(load: Load, label: str) -> None:
    meta = f"labels: {{{label}: g}}, {owner('Job', 'batch/v1', 'g-launcher')}"
    assert {"default/g": ["a", "b"]} == members(load(pod("a", meta) + pod("b", meta)))


def test_an_owner_speaks_for_its_gang(load: Load) -> None:
    spec = "queue: research, priorityClassName: system-node-critical, tasks: [{name: a, replicas: 2, minAvailable: 1}]"
    annotations = "annotations: {maar.dev/max-runtime: 1h, maar.dev/last-checkpoint-time: '1970-01-01T00:00:09Z'}"
    version = "batch.volcano.sh/v1alpha1"
    cluster = load(made_by("Job", version, spec, annotations) + pod("p", owner("Job", version)))
    job = only(cluster)
    assert ("research", 2_000_001_000, {"a": 1}, 3600.0) == (job.queue, job.priority, job.role_min, job.promise)
    assert (3600.0, 9.0) == (cluster.tasks[0].promise, cluster.tasks[0].checkpoint)


@pytest.mark.parametrize(
    ("kind", "version", "spec"),
    [
        ("Job", "batch/v1", "activeDeadlineSeconds: 90, parallelism: 2"),
        ("PyTorchJob", "kubeflow.org/v1", "runPolicy: {activeDeadlineSeconds: 90}, pytorchReplicaSpecs: {Worker: {}}"),
        ("MPIJob", "kubeflow.org/v2beta1", "runPolicy: {activeDeadlineSeconds: 90}, mpiReplicaSpecs: {Worker: {}}"),
        (
            "RayJob",
            "ray.io/v1",
            "activeDeadlineSeconds: 90, rayClusterSpec: {headGroupSpec: {template: {}}, workerGroupSpecs: []}",
        ),
    ],
)
@pytest.mark.parametrize(("note", "promised"), [("2m", 90.0), ("1m", 60.0)])
def test_a_deadline_of_its_object_is_the_promise_of_a_gang(
    load: Load, kind: str, version: str, spec: str, note: str, promised: float
) -> None:
    annotations = f"annotations: {{maar.dev/gang: 'true', maar.dev/max-runtime: {note}}}"
    meta = f"labels: {{ray.io/node-type: head}}, {owner(kind, version)}"
    cluster = load(made_by(kind, version, spec, annotations) + pod("p", meta))
    assert (promised, promised) == (only(cluster).promise, cluster.tasks[0].promise)


def test_a_deadline_of_a_job_counts_for_its_pods_that_are_alone(load: Load) -> None:
    pods = pod("a", owner("Job", "batch/v1")) + pod("b", owner("Job", "batch/v1")) + pod("c")
    cluster = load(made_by("Job", "batch/v1", "activeDeadlineSeconds: 90") + pods)
    assert {"default/a": 90.0, "default/b": 90.0, "default/c": None} == {j.key: j.promise for j in cluster.jobs}
    none = load(made_by("Job", "batch/v1", "activeDeadlineSeconds: 0") + pod("a", owner("Job", "batch/v1")))
    assert None is none.jobs[0].promise


def test_pods_of_a_batch_job_are_alone_unless_it_is_a_gang(load: Load) -> None:
    pods = pod("a", owner("Job", "batch/v1")) + pod("b", owner("Job", "batch/v1"))
    spec = "parallelism: 4, completions: 3"
    assert {"default/a": ["a"], "default/b": ["b"]} == members(load(made_by("Job", "batch/v1", spec) + pods))
    gang = load(made_by("Job", "batch/v1", spec, "annotations: {maar.dev/gang: 'true'}") + pods)
    assert {"default/g": ["a", "b"]} == members(gang)
    assert 3 == only(gang).min_member


def test_pods_of_a_batch_job_may_say_themselves_that_they_are_a_gang(load: Load) -> None:
    meta = f"annotations: {{maar.dev/gang: 'true'}}, {owner('Job', 'batch/v1')}"
    assert {"default/g": ["a", "b"]} == members(load(pod("a", meta) + pod("b", meta)))


def test_a_batch_job_whose_template_makes_a_gang_says_how_many(load: Load) -> None:
    annotations = "annotations: {maar.dev/gang: 'true'}"
    spec = f"parallelism: 3, template: {{metadata: {{{annotations}}}}}"
    meta = f"{annotations}, {owner('Job', 'batch/v1')}"
    gang = load(made_by("Job", "batch/v1", spec) + pod("a", meta) + pod("b", meta))
    assert {"default/g": ["a", "b"]} == members(gang)
    assert 3 == only(gang).min_member


def test_a_pod_alone(load: Load) -> None:
    meta = "namespace: team, uid: u, labels: {volcano.sh/queue-name: q}, creationTimestamp: 1970-01-01T00:00:05Z"
    expected = Job(key="team/a", queue="q", created=5.0, uid="u", declared=False)
    assert expected == only(load(pod("a", meta)))


ALL = (
    "annotations: {scheduling.k8s.io/group-name: by-volcano, pod_group: by-annotation}, "
    "labels: {scheduling.x-k8s.io/pod-group: by-plugins, training.kubeflow.org/job-name: by-owner}"
)


@pytest.mark.parametrize(
    ("meta", "spec", "key"),
    [
        (ALL, "schedulingGroup: {podGroupName: by-kubernetes}", "by-kubernetes"),
        (ALL, "", "by-volcano"),
        (ALL.replace("scheduling.k8s.io/group-name", "x"), "", "by-plugins"),
        (ALL.replace("scheduling.", "x."), "", "by-annotation"),
        (ALL.replace("scheduling.", "x.").replace("pod_group", "x"), "", "by-owner"),
        ("", "", "a"),
    ],
)
def test_the_first_that_a_pod_speaks_wins(load: Load, meta: str, spec: str, key: str) -> None:
    assert f"default/{key}" == only(load(pod("a", meta, spec))).key


def test_two_gangs_of_one_name_are_told_apart(load: Load) -> None:
    text = group(VOLCANO, "") + group(UPSTREAM, "schedulingPolicy: {gang: {minCount: 1}}") + pod("g")
    assert {"default/g": [], "default/g@volcano": [], "default/g@pod": ["g"]} == members(load(text))


def test_an_empty_name_is_no_group(load: Load) -> None:
    assert "default/a" == only(load(pod("a", "annotations: {scheduling.k8s.io/group-name: ''}"))).key
