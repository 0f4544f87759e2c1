"""The writes about a job after a plan, without a cluster: first writes, repetitions, changes, restarts."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from maar.controller.brakes import Brakes, BrakeSettings
from maar.controller.cache import Cache
from maar.controller.reports import A_MOMENT, A_WHILE, STANDS, Record, Reports, Seen, Writes, report
from maar.controller.subjects import Subject, Subjects, pod_reference
from maar.controller.tallies import EARLY, MOMENT, Tallies
from maar.kube.kinds import cluster as kinds
from maar.kube.kinds import plugins_podgroup, pytorchjob, upstream_podgroup, volcano_podgroup
from maar.kube.kinds.kind import PodGroupKind
from maar.kube.kinds.status import Tally
from maar.kube.picture.picture import Picture, PodGroup
from maar.kube.wire.api_resources import PODS
from maar.kube.wire.cluster import Node, Queue
from maar.kube.wire.pods import Pod
from maar.kube.write.events import Reference
from maar.kube.write.status import QueueStatus, quantity
from maar.kube.write.work import Patch
from maar.model.jobs import Job, Phase
from maar.model.plan import Admit, Bind, Evict, Plan, Wait
from maar.model.reasons import Reason
from maar.model.snapshot import Snapshot
from maar.model.tasks import Task
from maar.testing.builders import cluster, gang, node, shape

KEY = "ns/train"
JOB = Job(KEY, min_member=2, phase=Phase.INQUEUE)
VOLCANO, PLUGINS, UPSTREAM = volcano_podgroup.KIND, plugins_podgroup.KIND, upstream_podgroup.KIND
GROUP_PATH = VOLCANO.resource.path("ns", "train")
POD_STATUS = PODS.path("ns", "train-0", "status")
TASKS = tuple(Task(f"{KEY}-{i}", KEY, shape(), created=5.0) for i in range(2))


def waits(message: str = "too few GPUs", code: str = "NotEnoughResources") -> Wait:
    return Wait(KEY, (Reason("test", code, message),))


def subject(kind: PodGroupKind[Any] = VOLCANO, uid: str = "g1", owned: bool = False, **status: object) -> Subject:
    owners = [{"kind": "Job", "name": "train", "controller": True}] if owned else []
    metadata = {"namespace": "ns", "name": "train", "uid": uid, "ownerReferences": owners}
    item = msgspec.convert({"metadata": metadata, "status": status}, kind.resource.struct)
    return Subject(kind.resource, Reference.to(kind.resource, item), PodGroup(kind, item))


def seen(phase: Phase = Phase.INQUEUE, about: Subject | None = None, **fields: Any) -> Seen:
    return Seen(**{"job": JOB, "phase": phase, "subject": about or subject(), **fields})


WAITS = seen(wait=waits(), waiting=TASKS, has_pods=True)


def play(*cycles: tuple[float, Seen], record: Record = Record()) -> tuple[list[Writes], Record]:  # noqa: B008
    """Run one cycle after the other; returns the writes of each, and the last record."""
    found = []
    for now, one in cycles:
        writes, record = report(one, record, now)
        found.append(writes)
    return found, record


def paths(writes: Writes) -> list[str]:
    return [patch.path for patch in writes.patches]


def status(writes: Writes) -> dict[str, Any]:
    """The status that is written to the group."""
    (patch,) = [patch for patch in writes.patches if patch.path.startswith(GROUP_PATH)]
    assert isinstance(patch.body, dict)
    written: dict[str, Any] = patch.body["status"]
    return written


# -- reasons


def test_a_reason_is_written_once_after_it_has_held() -> None:
    found, record = play(*((now, WAITS) for now in (10.0, 10.5, 10.0 + STANDS, 20.0, 30.0)))
    first = found.pop(2)
    assert [GROUP_PATH, POD_STATUS, POD_STATUS.replace("-0", "-1")] == paths(first)
    assert "too few GPUs" == first.event
    (condition,) = status(first)["conditions"]
    assert ("Unschedulable", "NotEnoughResources", "too few GPUs") == tuple(
        condition[key] for key in ("type", "reason", "message")
    )
    pod = first.patches[1]
    assert isinstance(pod.body, dict)
    assert "1970-01-01T00:00:05Z" == pod.body["status"]["conditions"][0]["lastTransitionTime"]
    assert [((), "")] * 4 == [(writes.patches, writes.event) for writes in found]
    assert ("too few GPUs",) * 3 == (record.in_status, record.on_pods, record.in_event)


def test_a_reason_is_written_when_its_time_has_come() -> None:
    _, record = play((10.0, WAITS))
    assert 10.0 + STANDS == record.due(10.0)
    (late,), record = play((11.0, seen(looked_at=False, waiting=TASKS)), record=record)
    assert 3 == len(late.patches), "a cycle that skips the job writes its last reason"
    assert record.due(11.0) is None


def test_another_reason_must_hold_too() -> None:
    other = seen(wait=waits("too few CPUs"), waiting=TASKS)
    found, _ = play((10.0, WAITS), (11.0, WAITS), (11.5, other), (12.0, other), (12.5, other))
    assert ["", "too few GPUs", "", "", "too few CPUs"] == [writes.event for writes in found]
    assert [0, 3, 0, 0, 3] == [len(writes.patches) for writes in found]


def test_a_reason_that_comes_back_before_another_was_written_writes_nothing() -> None:
    other = seen(wait=waits("too few CPUs"), waiting=TASKS)
    found, _ = play((10.0, WAITS), (11.0, WAITS), (11.5, other), (12.0, WAITS), (20.0, WAITS))
    assert [0, 3, 0, 0, 0] == [len(writes.patches) for writes in found]


def test_a_reason_that_usually_disappears_must_hold_longer() -> None:
    passing = seen(wait=waits("1 of 2 pods", "NotEnoughTasks"), waiting=TASKS)
    found, _ = play((10.0, passing), (10.0 + STANDS, passing), (10.0 + A_WHILE, passing))
    assert [0, 0, 3] == [len(writes.patches) for writes in found]


def test_a_job_that_waits_no_more_is_forgotten_with_its_clock() -> None:
    runs_on = seen(has_pods=True)
    found, record = play((10.0, WAITS), (10.9, runs_on), (11.5, WAITS))
    assert [0, 0, 0] == [len(writes.patches) for writes in found]
    assert 11.5 + STANDS == record.due(11.5)


def test_after_pods_were_bound_the_same_reason_gets_an_event_again() -> None:
    part = seen(wait=waits(), waiting=TASKS, started=True)
    found, _ = play((10.0, WAITS), (11.0, WAITS), (12.0, part), (13.0, WAITS))
    assert ["", "too few GPUs", "too few GPUs", ""] == [writes.event for writes in found]
    assert [0, 3, 0, 0] == [len(writes.patches) for writes in found]


def test_a_pod_alone_carries_the_reason_itself() -> None:
    alone = Subject(PODS, pod_reference(KEY, "u"))
    one = seen(about=alone, wait=waits(), waiting=(Task(KEY, KEY, shape()),))
    found, record = play((10.0, one), (11.0, one), (12.0, one))
    assert [[], [PODS.path("ns", "train", "status")], []] == [paths(writes) for writes in found]
    assert ("too few GPUs", alone) == (found[1].event, found[1].subject)
    assert "" == record.in_status


# -- phases


def test_a_gang_that_runs_says_so_once() -> None:
    runs = seen(Phase.RUNNING, started=True, has_pods=True, tally=Tally(running=2))
    found, record = play((10.0, runs), (11.0, seen(Phase.RUNNING)))
    assert {"phase": "Running", "running": 2} == {k: v for k, v in status(found[0]).items() if k != "conditions"}
    assert [1, 0] == [len(writes.patches) for writes in found]
    assert "Running" == record.in_status


def test_a_gang_that_is_bound_after_it_waited_gets_no_reason() -> None:
    runs = seen(Phase.RUNNING, started=True)
    found, record = play((10.0, WAITS), (11.0, WAITS), (12.0, runs))
    assert "Running" == status(found[2])["phase"]
    assert ("", "", None) == (found[2].event, record.reason, record.due(12.0))


def test_a_running_gang_whose_surplus_pods_wait_has_the_reason_on_those_only() -> None:
    surplus = seen(Phase.RUNNING, subject(phase="Running"), wait=waits(), waiting=TASKS[:1])
    found, _ = play((10.0, surplus), (11.0, surplus), (12.0, surplus))
    assert [[], [POD_STATUS], []] == [paths(writes) for writes in found]
    assert "too few GPUs" == found[1].event


def test_an_admission_is_written_at_once_where_a_controller_waits_for_it() -> None:
    found, record = play((10.0, seen(about=subject(owned=True, phase="Pending"), admitted=True)))
    assert {"phase": "Inqueue"} == status(found[0])
    assert record.admission is None


def test_an_admission_without_pods_is_written_after_a_moment() -> None:
    group = subject(phase="Pending")
    found, record = play((10.0, seen(about=group, admitted=True)))
    assert [[]] == [paths(writes) for writes in found]
    assert 10.0 + A_MOMENT == record.due(10.0)
    (written,), record = play((10.0 + A_MOMENT, seen(about=group)), record=record)
    assert {"phase": "Inqueue"} == status(written)
    assert (None, None) == (record.admission, record.due(20.0))


def test_an_admission_with_pods_has_more_time_and_none_is_written_of_a_gang_that_runs() -> None:
    group = subject(phase="Pending")
    late = 10.0 + A_MOMENT
    found, record = play((10.0, seen(about=group, admitted=True)), (late, seen(about=group, has_pods=True)))
    assert [[], []] == [paths(writes) for writes in found]
    assert late + A_WHILE == record.due(late)
    (written,), _ = play((late + A_WHILE, seen(about=group, has_pods=True)), record=record)
    assert {"phase": "Inqueue"} == status(written)
    (written,), record = play((late, seen(Phase.RUNNING, group, has_pods=True)), record=record)
    assert ("Running", None) == (status(written)["phase"], record.admission)


# -- after a restart


@pytest.mark.parametrize(
    ("about", "phase"),
    [
        (subject(phase="Running"), Phase.RUNNING),
        (subject(PLUGINS, phase="Finished"), Phase.COMPLETED),
        (subject(UPSTREAM, conditions=[{"type": "PodGroupScheduled", "status": "True"}]), Phase.RUNNING),
    ],
)
def test_a_phase_that_the_object_has_is_not_written_again(about: Subject, phase: Phase) -> None:
    found, record = play((10.0, seen(phase, about)), (20.0, seen(phase, about)))
    assert [(), ()] == [writes.patches for writes in found]
    assert str(phase) == record.in_status


@pytest.mark.parametrize(
    "about",
    [
        subject(phase="Inqueue", conditions=[{"type": "Unschedulable", "message": "too few GPUs"}]),
        subject(
            UPSTREAM,
            conditions=[{"type": "PodGroupScheduled", "status": "False", "message": "too few GPUs"}],
        ),
        subject(PLUGINS, phase="Scheduling"),
    ],
)
def test_a_reason_that_the_object_has_is_neither_written_nor_emitted_again(about: Subject) -> None:
    again = seen(about=about, wait=waits(), waiting=TASKS[:1])
    found, record = play((10.0, again), (11.0, again), (12.0, again))
    assert [[], [POD_STATUS], []] == [paths(writes) for writes in found], (
        "pods get the same reason again, which changes nothing"
    )
    assert ["", "", ""] == [writes.event for writes in found]
    assert ("too few GPUs", "too few GPUs") == (record.in_status, record.in_event)
    other = seen(about=about, wait=waits("too few CPUs"), waiting=TASKS[:1])
    found, _ = play((20.0, other), (21.0, other), record=record)
    assert ["", "too few CPUs"] == [writes.event for writes in found], "a new reason gets an event"


def test_another_group_of_the_same_name_is_written_again() -> None:
    runs = seen(Phase.RUNNING, moved=True, tally=Tally(running=2))
    found, record = play((10.0, runs), (11.0, seen(Phase.RUNNING, subject(uid="g2"), tally=Tally(running=2))))
    assert [("Running", 2)] * 2 == [(status(w)["phase"], status(w)["running"]) for w in found]
    assert "g2" == record.group


# -- tallies


def test_counts_are_written_when_pods_moved_and_counts_changed() -> None:
    two, one = Tally(running=2), Tally(running=1, succeeded=1)
    found, _ = play(
        (10.0, seen(Phase.RUNNING, moved=True, tally=two)),
        (11.0, seen(Phase.RUNNING, tally=one)),
        (12.0, seen(Phase.RUNNING, moved=True, tally=one)),
        (13.0, seen(Phase.RUNNING, moved=True, tally=one)),
        (14.0, seen(Phase.COMPLETED, moved=True, tally=Tally(succeeded=2))),
    )
    assert [1, 0, 1, 0, 1] == [len(writes.patches) for writes in found]
    assert {"running": 1, "succeeded": 1} == status(found[2])
    last = status(found[4])
    assert ("Completed", 0, 2) == tuple(last[key] for key in ("phase", "running", "succeeded"))


def test_counts_that_the_object_has_are_not_written_again() -> None:
    about = subject(phase="Running", running=2)
    found, _ = play((10.0, seen(Phase.RUNNING, about, moved=True, tally=Tally(running=2))))
    assert ((),) == tuple(writes.patches for writes in found)


def test_a_dialect_without_counts_gets_none_and_its_own_kind_of_patch() -> None:
    runs = seen(Phase.RUNNING, subject(UPSTREAM), moved=True, tally=Tally(running=2))
    ((patch,),) = [writes.patches for writes in play((10.0, runs))[0]]
    assert (upstream_podgroup.BETA.path("ns", "train", "status"), "strategic") == (patch.path, patch.kind)
    assert isinstance(patch.body, dict)
    assert ["conditions"] == list(patch.body["status"])


def test_pods_that_move_within_a_moment_are_counted_once() -> None:
    scene, tallies = Scene(), Tallies()
    scene.pod("a", "n1")
    scene.snapshot(1.0)
    assert not tallies.moved(scene.cache, "ns/a", 1.0), "the first cycle counts every group"
    assert {"ns/a"} == tallies.take(scene.cache, 1.0)
    assert [True, False] == [tallies.moved(scene.cache, pod, 2.0) for pod in ("ns/a", "ns/b")]
    assert 2.0 + MOMENT == tallies.due()
    scene.pod("b", "n1")
    scene.snapshot(2.5)
    assert set() == tallies.take(scene.cache, 2.5)
    assert {"ns/a", "ns/b"} == tallies.take(scene.cache, 2.0 + MOMENT - EARLY)
    assert tallies.due() is None


# -- brakes


def test_a_job_that_the_brakes_block_gets_that_reason() -> None:
    scene = Snapshot(cluster(node("n1", gpu=8), gang("low", 1, gpu=8, on=["n1"]), gang("train", 1, gpu=8)))
    plan = Plan(evict=(Evict("ns/low-0", KEY, "preempted"),))
    (held,) = Brakes(BrakeSettings(paused=True)).apply(plan, scene, 10.0).waiting
    braked = seen(wait=held, waiting=TASKS)
    found, _ = play((10.0, braked), (11.0, braked), (12.0, braked))
    assert ["", "needs 1 evictions: evictions are paused", ""] == [writes.event for writes in found]
    assert "Braked" == status(found[1])["conditions"][0]["reason"]


# -- from a snapshot and a plan


class Scene:
    """A cluster of one node as watches have shown it; nothing is sent."""

    def __init__(self) -> None:
        self.picture = Picture(frozenset({"maar"}))
        self.cache = Cache(self.picture)
        self.subjects = Subjects(self.cache)
        self.reports = Reports(self.cache, self.subjects)
        node = {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "8", "pods": "110"}}}
        self.picture.put(kinds.NODES, msgspec.convert(node, Node))

    def pod(self, name: str, node: str = "", phase: str = "Pending", group: str = "", **metadata: object) -> None:
        manifest = {
            "metadata": {"name": name, "namespace": "ns", "uid": f"u-{name}", **metadata},
            "spec": {
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
                "schedulerName": "maar",
                "nodeName": node,
                "schedulingGroup": {"podGroupName": group},
            },
            "status": {"phase": phase},
        }
        self.picture.put(kinds.PODS, msgspec.convert(manifest, Pod))

    def group(self, name: str, **status: object) -> None:
        manifest = {
            "metadata": {"name": name, "namespace": "ns", "uid": f"u-{name}"},
            "spec": {"minMember": 2},
            "status": status,
        }
        self.picture.put(VOLCANO, msgspec.convert(manifest, VOLCANO.resource.struct))

    def gang(self, name: str, **status: object) -> None:
        self.group(name, **status)
        for i in range(2):
            self.pod(f"{name}-{i}", annotations={"scheduling.k8s.io/group-name": name})

    def snapshot(self, now: float) -> None:
        self.cache.snapshot(now)

    def cycle(self, now: float, **plan: Any) -> list[Writes]:
        """Run a cycle with a plan; returns the writes about jobs."""
        self.snapshot(now)
        decided = Plan(**plan)
        self.cache.assume(decided)
        return [w for w in self.reports.after(decided, now) if w.subject is not None]

    def patches(self, now: float, **plan: Any) -> list[Patch]:
        return [patch for writes in self.cycle(now, **plan) for patch in writes.patches]


def test_a_deleted_job_is_forgotten_and_another_of_its_name_starts_fresh() -> None:
    scene = Scene()
    for uid in ("first", "second"):
        scene.pod("train", uid=uid)
        events = [w.event for now in (10.0, 11.0, 12.0) for w in scene.cycle(now, waiting=(waits(),))]
        assert ["", "too few GPUs", ""] == events
        scene.picture.drop(kinds.PODS, KEY)
        assert [] == scene.cycle(13.0)
        assert scene.reports.due(13.0 + MOMENT) is None


def test_a_gang_that_is_bound_runs_and_its_pods_get_no_reasons() -> None:
    scene = Scene()
    scene.gang("train", phase="Inqueue")
    binds = tuple(Bind(f"{KEY}-{i}", "n1") for i in range(2))
    (patch,) = scene.patches(10.0, bind=binds, waiting=(waits(),))
    assert isinstance(patch.body, dict)
    assert (GROUP_PATH, "Running") == (patch.path, patch.body["status"]["phase"])
    assert [] == scene.patches(11.0 + STANDS, waiting=(waits(),)), "no pod waits"


def test_a_job_at_rest_keeps_its_reason_until_a_cycle_looks_at_it() -> None:
    scene = Scene()
    scene.gang("train", phase="Inqueue")
    assert [] == scene.patches(10.0, waiting=(waits(),))
    assert 10.0 + STANDS == scene.reports.due(10.0)
    scene.cache.let_rest(frozenset({KEY}))
    assert 3 == len(scene.patches(10.0 + STANDS)), "it is not in the plan, and its reason still holds"
    assert [] == scene.patches(20.0)


def test_an_admission_is_written_when_it_is_due() -> None:
    scene = Scene()
    scene.group("train", phase="Pending")
    assert [] == scene.patches(10.0, admit=(Admit(KEY),))
    assert 10.0 + MOMENT == scene.reports.due(10.0), "queues come first"
    assert 10.0 + A_MOMENT == scene.reports.due(10.0 + MOMENT)
    (patch,) = scene.patches(10.0 + A_MOMENT)
    assert {"status": {"phase": "Inqueue"}} == patch.body


def test_queues_are_written_once_in_a_moment_and_only_what_changed() -> None:
    scene = Scene()
    scene.picture.put(kinds.QUEUES, msgspec.convert({"metadata": {"name": "default"}}, Queue))
    scene.pod("a", "n1", "Running")

    def bodies(now: float) -> list[object]:
        scene.snapshot(now)
        return [p.body for w in scene.reports.after(Plan(), now) if w.subject is None for p in w.patches]

    assert [] == bodies(10.0)
    ((body),) = bodies(10.0 + MOMENT)
    assert isinstance(body, dict)
    assert {"cpu": "1", "pods": "1"}.items() <= body["status"]["allocated"].items()
    assert [] == bodies(12.0)
    assert scene.reports.due(12.0) is None
    scene.picture.drop(kinds.PODS, "ns/a")
    assert [] == bodies(13.0)
    assert [{"status": {"allocated": {"cpu": None, "pods": None}}}] == bodies(13.0 + MOMENT)


def test_a_queue_that_comes_again_is_written_whole() -> None:
    status, names = QueueStatus(), ("cpu", "nvidia.com/gpu")
    bodies = [
        [p.body for p in status.patches(has, names)]
        for has in ({"q": {"cpu": 1500}}, {"q": {"cpu": 1500}}, {}, {"q": {"cpu": 1500}})
    ]
    whole = {"status": {"allocated": {"nvidia.com/gpu": None, "cpu": "1500m"}}}
    assert [[whole], [], [], [whole]] == bodies
    assert ["2", "3Gi", "1025", "7"] == [
        quantity("cpu", 2000), quantity("memory", 3 * 2**30), quantity("memory", 1025), quantity("nvidia.com/gpu", 7),
    ]  # fmt: skip


# -- which object represents a job


def subjects_of(scene: Scene, *jobs: str) -> list[tuple[str, str]]:
    """The path and the UID of the object that represents each job."""
    scene.snapshot(1.0)
    found = [scene.subjects.subject_of(job) for job in jobs]
    return [("", "") if one is None else (one.path, one.reference.uid) for one in found]


def test_the_group_represents_a_gang_in_the_served_version() -> None:
    scene = Scene()
    scene.gang("train")
    metadata = {"name": "up", "namespace": "ns", "uid": "u-up"}
    spec = {"schedulingPolicy": {"gang": {"minCount": 1}}}
    scene.picture.put(UPSTREAM, msgspec.convert({"metadata": metadata, "spec": spec}, UPSTREAM.resource.struct))
    scene.pod("up-0", group="up")
    beta, alpha = (version.path("ns", "up") for version in (upstream_podgroup.BETA, upstream_podgroup.ALPHA))
    assert [(GROUP_PATH, "u-train"), (beta, "u-up")] == subjects_of(scene, KEY, "ns/up")
    scene.picture.served[UPSTREAM] = upstream_podgroup.ALPHA
    assert [(alpha, "u-up")] == subjects_of(scene, "ns/up")


def test_its_own_object_represents_an_elastic_job() -> None:
    scene, kind = Scene(), pytorchjob.KIND.resource
    template = {"spec": {"schedulerName": "maar", "containers": [{"name": "c"}]}}
    manifest = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": "train", "namespace": "ns", "uid": "u-job"},
        "spec": {
            "elasticPolicy": {"minReplicas": 1, "maxReplicas": 8},
            "pytorchReplicaSpecs": {"Worker": {"replicas": 2, "template": template}},
        },
    }
    job = msgspec.convert(manifest, kind.struct)
    scene.picture.put(pytorchjob.KIND, job)
    assert [(kind.path("ns", "train"), "u-job")] == subjects_of(scene, KEY)
    owner = scene.picture.job("ns", "train", "u-job")
    assert owner is not None
    assert job is owner.item
    assert scene.picture.job("ns", "train", "of another") is None


def test_a_pod_represents_itself_and_the_first_pod_a_gang_without_an_object() -> None:
    scene = Scene()
    scene.pod("alone")
    for i in range(2):
        scene.pod(f"set-{i}", annotations={"pod_group": "set"})
    scene.pod("odd")
    scene.picture.broken(kinds.PODS, "ns", "odd", "spec: expected a mapping")
    paths = [PODS.path("ns", name) for name in ("alone", "set-0", "odd")]
    found = subjects_of(scene, "ns/alone", "ns/set", "ns/odd", "ns/nobody")
    assert [(paths[0], "u-alone"), (paths[1], "u-set-0"), (paths[2], "u-odd"), ("", "")] == found
