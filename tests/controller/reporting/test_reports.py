"""The writes about a job after a plan, without a cluster: first writes, repetitions, changes, restarts."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from tests.support.reported import reported

from maar.controller.reporting.job_reports import A_MOMENT, A_WHILE, STANDS, PlannedJob, Record, Waiting, Writes, report
from maar.controller.reporting.old_notes import AFTER, AT_ONCE, Removals
from maar.controller.reporting.pod_counts import EARLY, MOMENT, Tallies
from maar.controller.reporting.reports import AGAIN, Reports
from maar.controller.settings.brakes import Brakes, BrakeSettings
from maar.controller.snapshots.cache import Cache
from maar.kube.kinds import cluster as kinds
from maar.kube.kinds import leaderworkerset, plugins_podgroup, upstream_podgroup, volcano_podgroup
from maar.kube.kinds.kind import PodGroupKind
from maar.kube.kinds.kubeflow import pytorchjob
from maar.kube.kinds.status import Tally
from maar.kube.picture.job_objects import NotedObject, OwnerNote, Subject, subject_of
from maar.kube.picture.picture import Picture, PodGroup
from maar.kube.wire import cluster as wire
from maar.kube.wire.annotations import WHY
from maar.kube.wire.api_resources import PODS
from maar.kube.wire.cluster import Node, Queue
from maar.kube.wire.pods import Pod, PodCondition
from maar.kube.wire.references import Reference, pod_reference
from maar.kube.write.status import QUEUE_EVERY, QueueShows, QueueStatuses
from maar.kube.write.work import Patch
from maar.model.jobs import Job, Phase
from maar.model.plan import Admit, Bind, Deserves, Evict, Plan, Wait
from maar.model.reasons import Reason
from maar.model.resources import quantity
from maar.model.snapshot import Snapshot
from maar.registry import catalog, codes_of
from maar.testing.builders import GPU, cluster, gang, node

KEY = "ns/train"
JOB = Job(KEY, min_member=2, phase=Phase.INQUEUE)
VOLCANO, PLUGINS, UPSTREAM = volcano_podgroup.KIND, plugins_podgroup.KIND, upstream_podgroup.KIND
GROUP_PATH = VOLCANO.resource.path("ns", "train")
POD_STATUS = PODS.path("ns", "train-0", "status")
JOB_PATH = "/apis/batch/v1/namespaces/ns/jobs/train"
POD_PATHS = [POD_STATUS, POD_STATUS.replace("-0", "-1")]
MEANINGS = {code.name: code.meaning for code in codes_of(catalog())}
PENDING = tuple(Waiting(f"{KEY}-{i}", f"u{i}", 5.0) for i in range(2))


def waits(message: str = "too few GPUs", code: str = "NotEnoughResources") -> Wait:
    return Wait(KEY, (Reason("test", code, message, meaning=MEANINGS.get(code)),))


NO_ROOM, NO_QUOTA = waits(), waits("too much for its queue", "OverCapability")


def subject(kind: PodGroupKind[Any] = VOLCANO, uid: str = "g1", owned: bool = False, **status: object) -> Subject:
    owners = [{"kind": "Job", "name": "train", "controller": True}] if owned else []
    metadata = {"namespace": "ns", "name": "train", "uid": uid, "ownerReferences": owners}
    item = msgspec.convert({"metadata": metadata, "status": status}, kind.resource.struct)
    return Subject(kind.resource, Reference.to(kind.resource, item), PodGroup(kind, item))


def seen(phase: Phase = Phase.INQUEUE, about: Subject | None = None, **fields: Any) -> PlannedJob:
    return PlannedJob(**{"job": JOB, "phase": phase, "subject": about or subject(), **fields})


WAITS = seen(wait=NO_ROOM, waiting=PENDING, has_pods=True)


def play(*cycles: tuple[float, PlannedJob], record: Record = Record()) -> tuple[list[Writes], Record]:  # noqa: B008
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
    return body(patch)["status"]  # type: ignore[no-any-return]


def body(patch: Patch) -> dict[str, Any]:
    assert isinstance(patch.body, dict)
    return patch.body


def conditions(writes: Writes) -> dict[str, tuple[str, str]]:
    """Reason and message that are written to each pod."""
    found = {p.path: body(p)["status"]["conditions"][0] for p in writes.patches if "/pods/" in p.path}
    return {path.split("/")[-2]: (one["reason"], one["message"]) for path, one in found.items()}


# -- reasons


def test_reasons_that_change_in_every_cycle_do_not_delay_the_first_condition() -> None:
    tainted = msgspec.structs.replace(WAITS, wait=waits("tainted", "TaintToleration"))
    others = [tainted, msgspec.structs.replace(WAITS, wait=NO_QUOTA)]
    for other in others:
        found, _ = play(*((10.0 + 0.3 * i, (WAITS, other)[i % 2]) for i in range(4)))
        assert [[], [], [GROUP_PATH, *POD_PATHS]] == [paths(writes) for writes in found[:3]], "within a second"


def test_a_reason_is_written_once_after_it_has_held() -> None:
    found, record = play(*((now, WAITS) for now in (10.0, 10.4, 10.0 + STANDS, 20.0, 30.0)))
    first = found.pop(2)
    assert [GROUP_PATH, *POD_PATHS] == paths(first)
    assert ("too few GPUs", "NotEnoughResources") == (first.event, first.code)
    (condition,) = status(first)["conditions"]
    assert ("Unschedulable", "Unschedulable", "too few GPUs") == tuple(
        condition[key] for key in ("type", "reason", "message")
    )
    assert {"train-0": ("Unschedulable", "too few GPUs"), "train-1": ("Unschedulable", "too few GPUs")} == conditions(
        first
    )
    assert "1970-01-01T00:00:05Z" == body(first.patches[1])["status"]["conditions"][0]["lastTransitionTime"]
    assert [((), "")] * 4 == [(writes.patches, writes.event) for writes in found]
    assert ("NotEnoughResources",) * 2 == (record.in_status, record.in_event)


def test_a_reason_is_written_when_its_time_has_come() -> None:
    _, record = play((10.0, WAITS))
    assert 10.0 + STANDS == record.due(10.0)
    (late,), record = play((11.0, seen(looked_at=False, waiting=PENDING)), record=record)
    assert 3 == len(late.patches), "a cycle that skips the job writes its last reason"
    assert record.due(11.0) is None


def test_autoscalers_see_missing_nodes_within_a_second() -> None:
    assert STANDS < 1.0
    found, _ = play((10.0, WAITS), (10.0 + STANDS, WAITS))
    assert {"Unschedulable"} == {reason for reason, _ in conditions(found[1]).values()}


def test_another_reason_must_hold_too() -> None:
    other = seen(wait=NO_QUOTA, waiting=PENDING)
    found, _ = play((10.0, WAITS), (11.0, WAITS), (11.5, other), (11.9, other), (12.0, other))
    assert ["", "too few GPUs", "", "", "too much for its queue"] == [writes.event for writes in found]
    assert [0, 3, 0, 0, 3] == [len(writes.patches) for writes in found]
    assert {"QueueLimit"} == {reason for reason, _ in conditions(found[4]).values()}


def test_a_reason_that_comes_back_before_another_was_written_writes_nothing() -> None:
    other = seen(wait=NO_QUOTA, waiting=PENDING)
    found, _ = play((10.0, WAITS), (11.0, WAITS), (11.5, other), (11.8, WAITS), (20.0, WAITS))
    assert [0, 3, 0, 0, 0] == [len(writes.patches) for writes in found]


def test_another_text_is_no_news_and_is_refreshed_only_on_one_object_in_turn() -> None:
    other = seen(wait=waits("too few GPUs, said otherwise"), waiting=PENDING)
    found, record = play((10.0, WAITS), (11.0, WAITS), (12.0, other), (20.0, other))
    assert ([0, 3, 0, 0], True) == ([len(writes.patches) for writes in found], record.stale)
    (refreshed,), record = play((21.0, msgspec.structs.replace(other, refresh=True)), record=record)
    assert ([GROUP_PATH], "") == (paths(refreshed), refreshed.event)
    assert "too few GPUs, said otherwise" == status(refreshed)["conditions"][0]["message"]
    assert not record.stale
    (after,), _ = play((22.0, msgspec.structs.replace(other, refresh=True)), record=record)
    assert () == after.patches, "it is refreshed once"


def test_all_reasons_are_on_the_owners_object_and_the_deciding_one_on_pods() -> None:
    wait = Wait(KEY, (*NO_ROOM.reasons, Reason("test", "Blocked", "a pod is gated")))
    one = seen(wait=wait, waiting=PENDING)
    found, _ = play((10.0, one), (11.0, one))
    assert "too few GPUs; a pod is gated" == status(found[1])["conditions"][0]["message"] == found[1].event
    assert {"too few GPUs"} == {message for _, message in conditions(found[1]).values()}


def test_a_job_has_three_changes_at_once_and_then_one_a_minute() -> None:
    other = seen(wait=NO_QUOTA, waiting=PENDING)
    cycles = [(10.0 + i, (WAITS, other)[i % 20 // 10]) for i in range(600)]
    found, _ = play(*cycles)
    written = [now for (now, _), writes in zip(cycles, found, strict=True) if writes.patches]
    assert [11.0, 21.0, 31.0] == written[:3], "the third change is written at once"
    assert 3 + 600 / 60 >= len(written) >= 10
    assert all(later - earlier >= 49.0 for earlier, later in pairwise(written[3:]))
    assert sum(len(writes.patches) for writes in found) == 3 * len(written)
    assert len([w for w in found if w.event]) <= len(written)


def test_what_is_held_back_is_written_later_though_nothing_happens() -> None:
    other = seen(wait=NO_QUOTA, waiting=PENDING)
    flaps = [(10.0 + i, (WAITS, other)[i // 2 % 2]) for i in range(8)]
    found, record = play(*flaps)
    assert 3 == len([w for w in found if w.patches])
    due = record.due(17.0)
    assert due is not None
    assert due > 60.0
    (late,), _ = play((due, seen(looked_at=False, waiting=PENDING)), record=record)
    assert {"QueueLimit"} == {reason for reason, _ in conditions(late).values()}


def test_a_pod_that_joins_a_waiting_job_gets_its_condition_at_once_and_no_other_pod_is_written() -> None:
    joined = seen(wait=NO_ROOM, waiting=(*PENDING, Waiting(f"{KEY}-2", "u2", 12.0)))
    found, _ = play((10.0, WAITS), (11.0, WAITS), (12.0, joined), (13.0, joined))
    assert [{}, {"train-2": ("Unschedulable", "too few GPUs")}, {}] == [
        {} if i == 1 else conditions(writes) for i, writes in enumerate(found) if i
    ]
    again = seen(wait=NO_ROOM, waiting=(msgspec.structs.replace(PENDING[0], uid="new"), PENDING[1]))
    found, _ = play((10.0, WAITS), (11.0, WAITS), (12.0, again), (13.0, again))
    assert [["train-0"], []] == [list(conditions(writes)) for writes in found[2:]], "a pod that was created again"


def test_a_pod_whose_gates_are_gone_does_not_keep_their_condition() -> None:
    gated = PodCondition("PodScheduled", "False", "SchedulingGated", "gated")
    found, _ = play(*((now, seen(wait=NO_ROOM, waiting=(Waiting(KEY, "u", shown=gated),))) for now in (10.0, 11.0)))
    assert {"train": ("Unschedulable", "too few GPUs")} == conditions(found[1])


def test_a_gang_whose_pods_are_being_created_has_more_time_for_it() -> None:
    passing = seen(wait=waits("1 of 2 pods", "NotEnoughTasks"), waiting=PENDING)
    found, _ = play((10.0, passing), (10.0 + STANDS, passing), (10.0 + A_WHILE, passing))
    assert [0, 0, 3] == [len(writes.patches) for writes in found]
    assert {"WaitingForMembers"} == {reason for reason, _ in conditions(found[2]).values()}


def test_a_gang_that_loses_a_pod_asks_for_no_nodes_any_more_within_a_second() -> None:
    shown = tuple(
        msgspec.structs.replace(pod, shown=PodCondition("PodScheduled", "False", "Unschedulable", "too few GPUs"))
        for pod in PENDING
    )
    lost = seen(wait=waits("1 of 2 pods", "NotEnoughTasks"), waiting=shown[:1])
    found, _ = play((10.0, WAITS), (11.0, WAITS), (12.0, lost), (12.0 + STANDS, lost))
    assert {"train-0": ("WaitingForMembers", "1 of 2 pods")} == conditions(found[3])


def test_a_job_that_waits_no_more_is_forgotten_with_its_clock() -> None:
    runs_on = seen(has_pods=True)
    found, record = play((10.0, WAITS), (10.4, runs_on), (11.5, WAITS))
    assert [0, 0, 0] == [len(writes.patches) for writes in found]
    assert 11.5 + STANDS == record.due(11.5)


def test_surplus_pods_ask_for_no_nodes() -> None:
    wait = msgspec.structs.replace(NO_ROOM, surplus=(f"{KEY}-1",))
    one = seen(wait=wait, waiting=PENDING)
    found, _ = play((10.0, one), (11.0, one))
    assert {"train-0": "Unschedulable", "train-1": "Surplus"} == {
        name: reason for name, (reason, _) in conditions(found[1]).items()
    }
    quota = msgspec.structs.replace(NO_QUOTA, surplus=(f"{KEY}-1",))
    one = seen(wait=quota, waiting=PENDING)
    found, _ = play((10.0, one), (11.0, one))
    assert {"QueueLimit"} == {reason for reason, _ in conditions(found[1]).values()}


def test_a_blocked_pod_says_so_itself() -> None:
    blocked = (PENDING[0], msgspec.structs.replace(PENDING[1], blocked="claim `c` does not exist"))
    one = seen(wait=NO_ROOM, waiting=blocked)
    found, _ = play((10.0, one), (11.0, one))
    assert ("Blocked", "held back: claim `c` does not exist") == conditions(found[1])["train-1"]


def test_a_pod_alone_has_the_details_itself() -> None:
    alone = Subject(PODS, pod_reference(KEY, "u"))
    one = seen(about=alone, wait=NO_ROOM, waiting=(Waiting(KEY, "u"),), alone=True)
    found, record = play((10.0, one), (11.0, one), (12.0, one))
    assert [[], [PODS.path("ns", "train", "status")], []] == [paths(writes) for writes in found]
    assert ("too few GPUs", alone) == (found[1].event, found[1].subject)
    assert ("", False) == (record.in_status, record.stale)
    other = msgspec.structs.replace(one, wait=waits("said otherwise"))
    (before, after), record = play((13.0, other), (14.0, msgspec.structs.replace(other, refresh=True)), record=record)
    assert ({}, {"train": ("Unschedulable", "said otherwise")}) == (conditions(before), conditions(after))
    assert not record.stale


# -- promised room


def promised(*nodes: str, shown: tuple[str, ...] = ("", "")) -> PlannedJob:
    """The gang while victims leave."""
    pods = tuple(
        msgspec.structs.replace(pod, node=node, nominated=there)
        for pod, node, there in zip(PENDING, nodes, shown, strict=True)
    )
    return seen(wait=waits("room is being freed", "Nominated"), waiting=pods)


def nominations(writes: Writes) -> list[object]:
    return [body(p)["status"].get("nominatedNodeName", "-") for p in writes.patches if "/pods/" in p.path]


def test_while_victims_leave_every_pod_has_its_node_in_the_same_patch_as_its_condition() -> None:
    (first, after), _ = play((10.0, promised("n1", "n2")), (11.0, promised("n1", "n2")))
    assert {"train-0": "Nominated", "train-1": "Nominated"} == {n: r for n, (r, _) in conditions(first).items()}
    assert ["n1", "n2"] == nominations(first), "at once: autoscalers leave such pods out"
    assert () == after.patches


def test_a_promise_is_cleared_when_the_eviction_is_given_up() -> None:
    (_, gone, after), _ = play((10.0, promised("n1", "n2")), (11.0, seen(wait=NO_ROOM, waiting=PENDING)), (12.0, WAITS))
    assert [None, None] == nominations(gone)
    assert {"Unschedulable"} == {reason for reason, _ in conditions(gone).values()}
    assert () == after.patches


def test_a_promise_of_another_node_is_written_and_one_that_the_pod_shows_is_not() -> None:
    (_, moved), _ = play((10.0, promised("n1", "n2")), (11.0, promised("n1", "n3")))
    assert ["n3"] == nominations(moved)
    shown = PodCondition("PodScheduled", "False", "Nominated", "room is being freed")
    same = promised("n1", "n2", shown=("n1", "n2"))
    same = msgspec.structs.replace(
        same, waiting=tuple(msgspec.structs.replace(pod, shown=shown) for pod in same.waiting)
    )
    found, _ = play((10.0, same), (11.0, same))
    assert [[], []] == [nominations(writes) for writes in found], "after a restart"


# -- the owner's object


def noted(shown: str = "") -> Subject:
    """A Job whose pods form a gang: its status belongs to its controller."""
    job = Reference("batch/v1", "Job", "ns", "train", "u")
    return Subject(PODS, pod_reference(f"{KEY}-0", "u0"), submitted=job, note=OwnerNote(JOB_PATH, shown))


def test_a_job_object_has_the_event_and_a_note() -> None:
    one = seen(about=noted(), wait=NO_ROOM, waiting=PENDING)
    found, record = play((10.0, one), (11.0, one), (12.0, one))
    assert [0, 3, 0] == [len(writes.patches) for writes in found]
    assert {"metadata": {"annotations": {WHY: "too few GPUs"}}} == body(found[1].patches[2])
    assert found[1].subject is not None
    assert "Job" == found[1].subject.tells.kind
    runs = seen(Phase.RUNNING, noted("too few GPUs"))
    found, _ = play((13.0, runs), (14.0, runs), record=record)
    assert [[JOB_PATH], []] == [paths(writes) for writes in found]
    assert {"metadata": {"annotations": {WHY: None}}} == body(found[0].patches[0]), "it waits no more"


def test_a_note_that_the_object_has_is_not_written_again_and_refreshed_in_turn() -> None:
    shown = tuple(
        msgspec.structs.replace(pod, shown=PodCondition("PodScheduled", "False", "Unschedulable", "too few GPUs"))
        for pod in PENDING
    )
    one = seen(about=noted("too few GPUs; nobody may go"), wait=NO_ROOM, waiting=shown)
    found, record = play((10.0, one), (11.0, one))
    assert ([(), ()], True) == ([w.patches for w in found], record.stale)
    assert ["", ""] == [w.event for w in found]
    (refreshed,), record = play((12.0, msgspec.structs.replace(one, refresh=True)), record=record)
    assert ([JOB_PATH], False) == (paths(refreshed), record.stale)


def test_a_group_without_a_field_for_reasons_gets_a_note() -> None:
    about = msgspec.structs.replace(subject(PLUGINS), note=OwnerNote("/group", ""))
    one = seen(about=about, wait=NO_ROOM, waiting=())
    found, _ = play((10.0, one), (11.0, one), (12.0, msgspec.structs.replace(one, wait=NO_QUOTA)), (13.0, one))
    assert [PLUGINS.resource.path("ns", "train", "status"), "/group"] == paths(found[1])
    assert [[], []] == [paths(writes) for writes in found[2:]]


# -- phases


def test_a_gang_that_runs_says_so_once() -> None:
    runs = seen(Phase.RUNNING, has_pods=True, tally=Tally(running=2))
    found, record = play((10.0, runs), (11.0, seen(Phase.RUNNING)))
    assert {"phase": "Running", "running": 2} == {k: v for k, v in status(found[0]).items() if k != "conditions"}
    assert [1, 0] == [len(writes.patches) for writes in found]
    assert "Running" == record.in_status


def test_a_gang_that_is_bound_after_it_waited_gets_no_reason() -> None:
    runs = seen(Phase.RUNNING)
    found, record = play((10.0, WAITS), (11.0, WAITS), (12.0, runs))
    assert "Running" == status(found[2])["phase"]
    assert ("", None, None) == (found[2].event, record.verdict, record.due(12.0))


def test_a_running_gang_whose_surplus_pods_wait_has_the_reason_on_those_only() -> None:
    surplus = seen(Phase.RUNNING, subject(phase="Running"), wait=waits(), waiting=PENDING[:1])
    found, _ = play((10.0, surplus), (11.0, surplus), (12.0, surplus))
    assert [[], [POD_STATUS], []] == [paths(writes) for writes in found]
    assert "too few GPUs" == found[1].event


def test_an_admission_is_written_at_once_where_a_controller_waits_for_it() -> None:
    found, record = play((10.0, seen(about=subject(owned=True, phase="Pending"), admitted=True)))
    assert {"phase": "Inqueue"} == status(found[0])
    assert (True, None) == (found[0].admitted, record.admission)
    (again,), _ = play((20.0, seen(about=subject(owned=True, phase="Inqueue"))), record=record)
    assert not again.admitted, "once"


def test_an_admission_without_pods_is_written_after_a_moment() -> None:
    group = subject(phase="Pending")
    found, record = play((10.0, seen(about=group, admitted=True)))
    assert [[]] == [paths(writes) for writes in found]
    assert 10.0 + A_MOMENT == record.due(10.0)
    (written,), record = play((10.0 + A_MOMENT, seen(about=group)), record=record)
    assert ({"phase": "Inqueue"}, True) == (status(written), written.admitted)
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
    assert ("Running", None, False) == (status(written)["phase"], record.admission, written.admitted)


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
        subject(
            phase="Inqueue",
            conditions=[{"type": "Unschedulable", "reason": "Unschedulable", "message": "too few GPUs"}],
        ),
        subject(
            UPSTREAM,
            conditions=[
                {
                    "type": "PodGroupScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "message": "too few GPUs; nobody may go",
                }
            ],
        ),
        subject(PLUGINS, phase="Scheduling"),
    ],
)
def test_a_reason_that_the_object_has_is_neither_written_nor_emitted_again(about: Subject) -> None:
    shown = PodCondition("PodScheduled", "False", "Unschedulable", "too few GPUs")
    pods = (msgspec.structs.replace(PENDING[0], shown=shown),)
    again = seen(about=about, wait=NO_ROOM, waiting=pods)
    found, record = play((10.0, again), (11.0, again), (12.0, again))
    assert [[], [], []] == [paths(writes) for writes in found]
    assert ["", "", ""] == [writes.event for writes in found]
    other = seen(about=about, wait=NO_QUOTA, waiting=pods)
    found, _ = play((20.0, other), (21.0, other), record=record)
    assert ["", "too much for its queue"] == [writes.event for writes in found], "a new reason gets an event"


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
    braked = seen(wait=held, waiting=PENDING)
    found, _ = play((10.0, braked), (11.0, braked), (12.0, braked))
    assert ["", "needs evictions: evictions are paused", ""] == [writes.event for writes in found]
    assert "Held" == status(found[1])["conditions"][0]["reason"]


# -- from a snapshot and a plan


class Scene:
    """A cluster of one node as watches have shown it; nothing is sent."""

    def __init__(self) -> None:
        self.picture = Picture(frozenset({"maar"}))
        self.cache = Cache(self.picture)
        self.reports = Reports(self.cache)
        node = {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "8", "pods": "110"}}}
        self.picture.put(kinds.NODES, msgspec.convert(node, Node))

    def reported(self, plan: Plan, now: float) -> list[Writes]:
        return reported(self.reports, self.cache.publish(1, plan, now))

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

    def group(self, name: str, tasks: Mapping[str, int] | None = None, phase: str = "") -> None:
        manifest = {
            "metadata": {"name": name, "namespace": "ns", "uid": f"u-{name}"},
            "spec": {"minMember": 2, "minTaskMember": tasks or {}},
            "status": {"phase": phase} if phase else {},
        }
        self.picture.put(VOLCANO, msgspec.convert(manifest, VOLCANO.resource.struct))

    def gang(self, name: str, phase: str = "") -> None:
        self.group(name, phase=phase)
        for i in range(2):
            self.pod(f"{name}-{i}", annotations={"scheduling.k8s.io/group-name": name})

    def snapshot(self, now: float) -> None:
        self.cache.snapshot(now)

    def cycle(self, now: float, **plan: Any) -> list[Writes]:
        """Run a cycle with a plan; returns the writes about jobs and their owners."""
        self.snapshot(now)
        decided = Plan(**plan)
        self.cache.assume(decided)
        return [w for w in self.reported(decided, now) if w.subject is not None or w.removes is not None]

    def patches(self, now: float, **plan: Any) -> list[Patch]:
        return [patch for writes in self.cycle(now, **plan) for patch in writes.patches]


def test_a_deleted_job_is_forgotten_and_another_of_its_name_starts_fresh() -> None:
    scene = Scene()
    for uid in ("first", "second"):
        scene.pod("train", uid=uid)
        events = [w.event for now in (10.0, 11.0, 12.0) for w in scene.cycle(now, waiting=(waits(),))]
        assert ["", "too few GPUs"] == events
        scene.picture.drop(kinds.PODS, KEY)
        assert [] == scene.cycle(13.0)
        assert scene.reports.due(13.0 + MOMENT) is None


def test_a_gang_that_lacks_a_role_is_not_reported_as_running() -> None:
    scene = Scene()
    scene.group("train", {"master": 1}, "Inqueue")
    for i, role in enumerate(("worker", "worker", "master")):
        notes = {"scheduling.k8s.io/group-name": "train", "volcano.sh/task-spec": role}
        scene.pod(f"train-{i}", annotations=notes)
    workers = tuple(Bind(f"{KEY}-{i}", "n1") for i in range(2))
    assert [] == scene.patches(10.0, bind=workers)
    (patch,) = scene.patches(11.0, bind=(Bind(f"{KEY}-2", "n1"),))
    assert isinstance(patch.body, dict)
    assert (GROUP_PATH, "Running") == (patch.path, patch.body["status"]["phase"])


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


def test_another_text_is_written_though_nothing_else_happens() -> None:
    scene = Scene()
    scene.pod("train")
    assert [0, 1] == [len(scene.patches(now, waiting=(waits(),))) for now in (10.0, 10.0 + STANDS)]
    other = msgspec.structs.replace(waits().reasons[0], lasting="too few GPUs, said otherwise")
    assert [] == scene.patches(20.0, waiting=(Wait(KEY, (other,)),))
    assert 20.0 == scene.reports.due(20.0), "the next cycle comes at once"
    assert 1 == len(scene.patches(20.1, waiting=(Wait(KEY, (other,)),)))
    assert scene.reports.due(20.1 + MOMENT) is None


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
        return [
            p.body
            for w in reported(scene.reports, scene.cache.publish(1, Plan(), now))
            if w.subject is None
            for p in w.patches
        ]

    assert [] == bodies(10.0)
    ((written),) = bodies(10.0 + MOMENT)
    assert isinstance(written, dict)
    assert {"cpu": "1", "pods": "1"}.items() <= written["status"]["allocated"].items()
    assert [] == bodies(12.0)
    assert scene.reports.due(12.0) is None
    scene.picture.drop(kinds.PODS, "ns/a")
    assert [] == bodies(13.0)
    assert [] == bodies(13.0 + MOMENT), "the last write was less than five seconds ago"
    due = scene.reports.due(13.0 + MOMENT)
    assert 10.0 + MOMENT + QUEUE_EVERY == due
    assert [{"status": {"allocated": {"cpu": None, "pods": None}}}] == bodies(due)
    assert scene.reports.due(due) is None


def shows(**allocated: int) -> dict[str, QueueShows]:
    return {"q": QueueShows(allocated)}


def test_a_queue_that_comes_again_is_written_whole() -> None:
    status, names = QueueStatuses(), ("cpu", "memory", "pods")
    bodies = [
        [p.body for p in status.patches(has, {"q": wire.QueueStatus()}, names, 10.0 * i)[0]]
        for i, has in enumerate((shows(cpu=1500), shows(cpu=1500), {}, shows(cpu=1500)))
    ]
    allocated = {"memory": None, "pods": None, "cpu": "1500m"}
    first = {
        "status": {"allocated": allocated, "summary": {"deserved": "", "used": "1500m cpu, 0 memory", "waiting": 0}}
    }
    again = {"status": {"allocated": allocated}}
    assert [[first], [], [], [again]] == bodies, "this server does not keep summaries"
    assert ["2", "3Gi", "1025", "7"] == [
        quantity("cpu", 2000), quantity("memory", 3 * 2**30), quantity("memory", 1025), quantity("nvidia.com/gpu", 7),
    ]  # fmt: skip


def test_a_queue_that_shows_what_it_has_is_not_written_after_a_restart() -> None:
    shown = {
        "allocated": {"cpu": "1500m", GPU: 4},
        "summary": {"deserved": f"8 {GPU}", "used": f"4 {GPU}", "waiting": 2},
    }
    has = {"q": QueueShows({"cpu": 1500, GPU: 4}, {GPU: 8}, 2)}
    there = {"q": msgspec.convert(shown, wire.QueueStatus)}
    assert ([], None) == QueueStatuses().patches(has, there, ("cpu", GPU), 1.0)
    more = {"q": QueueShows({"cpu": 1500, GPU: 4}, {GPU: 8}, 3)}
    (patch,) = QueueStatuses().patches(more, there, ("cpu", GPU), 1.0)[0]
    assert isinstance(patch.body, dict)
    assert {"deserved": f"8 {GPU}", "used": f"4 {GPU}", "waiting": 3} == patch.body["status"]["summary"]


def test_if_all_shares_change_at_once_a_few_queues_are_written_in_a_second() -> None:
    status, names, many = QueueStatuses(), ("cpu", GPU), 30
    there = {f"q{i}": wire.QueueStatus(allocated={}, summary=wire.QueueSummary()) for i in range(many)}
    wanted = {queue: QueueShows({}, {GPU: 1}, 0) for queue in there}
    written: list[int] = []
    now = 100.0
    while True:
        patches, due = status.patches(wanted, there, names, now)
        written.append(len(patches))
        if due is None:
            break
        assert now < due
        now = due
    assert [5] * 6 == written
    assert 105.0 == now


def test_a_queue_counts_the_waiting_jobs_of_the_queues_below_it() -> None:
    scene = Scene()
    for name, parent in (("team", ""), ("below", "team"), ("default", "")):
        queue = {"metadata": {"name": name}, "spec": {"parent": parent} if parent else {}}
        scene.picture.put(kinds.QUEUES, msgspec.convert(queue, Queue))
    for name, queue_name in (("a", "team"), ("b", "below"), ("c", "below"), ("d", "default")):
        scene.pod(name, annotations={"scheduling.volcano.sh/queue-name": queue_name})
    scene.snapshot(10.0)
    plan = Plan(
        waiting=tuple(Wait(f"ns/{name}", (Reason("x", "X", "x"),)) for name in "abcd"),
        deserved=(Deserves("team", {"cpu": 4000}),),
    )
    scene.reported(plan, 10.0)
    patches = [p for w in scene.reported(plan, 10.0 + MOMENT) if w.subject is None for p in w.patches]
    summaries = {p.path.split("/")[-2]: p.body["status"]["summary"] for p in patches if isinstance(p.body, dict)}
    assert {"team": 3, "below": 2, "default": 1} == {name: shown["waiting"] for name, shown in summaries.items()}
    assert ("4 cpu, 0 memory", "") == (summaries["team"]["deserved"], summaries["below"]["deserved"])


# -- one object of several jobs


class Shared(Scene):
    """A LeaderWorkerSet of two groups of one pod each."""

    def __init__(self, why: str = "") -> None:
        super().__init__()
        self.put(why)
        for i in range(2):
            self.leader(i)

    def put(self, why: str, uid: str = "u-serve", **more: object) -> None:
        notes = {"maar.dev/why": why} if why else {}
        metadata = {"name": "serve", "namespace": "ns", "uid": uid, "annotations": notes, **more}
        manifest = {"metadata": metadata, "spec": {"replicas": 2, "leaderWorkerTemplate": {"size": 1}}}
        self.picture.put(leaderworkerset.KIND, msgspec.convert(manifest, leaderworkerset.LeaderWorkerSet))

    def leader(self, group: int, node: str = "") -> None:
        prefix = "leaderworkerset.sigs.k8s.io"
        labels = {f"{prefix}/name": "serve", f"{prefix}/group-index": str(group), f"{prefix}/worker-index": "0"}
        self.pod(f"serve-{group}", node, "Running" if node else "Pending", labels=labels)

    def notes(self, now: float, *waiting: Wait) -> list[str | None]:
        """The notes that a cycle writes on the object, which then shows the last of them."""
        path = leaderworkerset.KIND.resource.path("ns", "serve")
        bodies = [patch.body for patch in self.patches(now, waiting=waiting) if patch.path == path]
        found = [body["metadata"]["annotations"]["maar.dev/why"] for body in bodies if isinstance(body, dict)]
        if found:
            self.put(found[-1] or "")
        return found


def group_waits(group: int, text: str = "too few GPUs") -> Wait:
    return Wait(f"ns/serve-{group}", (Reason("fit", "NoFit", text),))


def test_a_group_that_runs_does_not_remove_the_note_of_one_that_waits() -> None:
    scene = Shared()
    scene.leader(0, node="n1")
    assert [] == scene.notes(10.0, group_waits(1))
    assert ["too few GPUs"] == scene.notes(11.0, group_waits(1))
    scene.picture.drop(kinds.PODS, "ns/serve-0")
    assert [] == scene.notes(12.0, group_waits(1))
    scene.leader(0, node="n1")
    assert [] == scene.notes(13.0, group_waits(1)), "its replacement runs"
    scene.leader(1, node="n1")
    assert [None] == scene.notes(14.0), "the last one starts"


def test_after_a_restart_the_note_of_a_group_that_waits_stays() -> None:
    scene = Shared("too few GPUs")
    scene.leader(0, node="n1")
    assert [] == scene.notes(10.0, group_waits(1)) + scene.notes(11.0, group_waits(1))


def test_one_of_several_groups_writes_the_note_and_the_next_one_takes_over() -> None:
    scene = Shared()
    both = (group_waits(0, "first"), group_waits(1, "second"))
    assert [] == scene.notes(10.0, *both)
    assert ["first"] == scene.notes(11.0, *both)
    scene.leader(0, node="n1")
    assert ["second"] == [note for now in (12.0, 13.0, 14.0) for note in scene.notes(now, both[1])]


def test_the_note_of_a_group_that_is_gone_is_removed_by_one_that_runs() -> None:
    scene = Shared()
    scene.leader(0, node="n1")
    assert ["too few GPUs"] == scene.notes(10.0, group_waits(1)) + scene.notes(11.0, group_waits(1))
    scene.picture.drop(kinds.PODS, "ns/serve-1")
    assert [None] == [note for now in (12.0, 13.0) for note in scene.notes(now)]


def test_the_note_is_removed_when_all_pods_of_the_owner_are_gone() -> None:
    scene = Shared()
    both = (group_waits(0, "first"), group_waits(1, "second"))
    assert ["first"] == scene.notes(10.0, *both) + scene.notes(11.0, *both)
    for i in range(2):
        scene.picture.drop(kinds.PODS, f"ns/serve-{i}")
    assert [] == scene.notes(12.0), "its controller may create them again"
    assert 12.0 + AFTER == scene.reports.due(13.0)
    assert [None] == scene.notes(12.0 + AFTER)
    assert [] == scene.notes(60.0)
    assert scene.reports.due(60.0) is None


def test_the_note_stays_if_pods_are_replaced() -> None:
    scene = Shared()
    scene.picture.drop(kinds.PODS, "ns/serve-1")
    assert ["too few GPUs"] == scene.notes(10.0, group_waits(0)) + scene.notes(11.0, group_waits(0))
    scene.picture.drop(kinds.PODS, "ns/serve-0")
    assert [] == scene.notes(12.0)
    scene.leader(0)
    assert [] == [note for now in (13.0, 14.0, 30.0) for note in scene.notes(now, group_waits(0))]


def test_a_note_of_an_earlier_leader_is_removed_too() -> None:
    scene = Shared("too few GPUs")
    assert [] == scene.notes(10.0, group_waits(0), group_waits(1)), "it has not held long enough yet"
    for i in range(2):
        scene.picture.drop(kinds.PODS, f"ns/serve-{i}")
    assert [None] == scene.notes(11.0) + scene.notes(11.0 + AFTER)


@pytest.mark.parametrize("last", ["gone", "replaced", "being deleted", "without a note"])
def test_nothing_is_written_if_the_object_is_gone_too_or_had_no_note(last: str) -> None:
    scene = Shared()
    waiting = () if last == "without a note" else (group_waits(0),)
    assert ["too few GPUs"] * len(waiting) == scene.notes(10.0, *waiting) + scene.notes(11.0, *waiting)
    for i in range(2):
        scene.picture.drop(kinds.PODS, f"ns/serve-{i}")
    assert [] == scene.cycle(12.0)
    match last:
        case "gone":
            scene.picture.drop(leaderworkerset.KIND, "ns/serve")
        case "replaced":
            scene.put("too few GPUs", uid="another")
        case "being deleted":
            scene.put("too few GPUs", deletionTimestamp="2026-01-01T00:00:00Z")
    assert [] == [note for now in (12.0 + AFTER, 30.0) for note in scene.notes(now)]


def test_a_note_that_could_not_be_removed_is_tried_again() -> None:
    scene = Shared()
    scene.notes(10.0, group_waits(0))
    scene.notes(11.0, group_waits(0))
    for i in range(2):
        scene.picture.drop(kinds.PODS, f"ns/serve-{i}")
    scene.cycle(12.0)
    (writes,) = scene.cycle(12.0 + AFTER)
    scene.reports.failed(writes, writes.patches[0])
    assert [] == scene.patches(20.0)
    assert writes.patches == tuple(scene.patches(12.0 + AFTER + AGAIN))


def test_few_notes_are_removed_in_one_second() -> None:
    picture, removals = Scene().picture, Removals()
    count = 2 * AT_ONCE + 1
    for i in range(count):
        metadata = {"name": f"serve-{i}", "namespace": "ns", "uid": "u", "annotations": {WHY: "too few GPUs"}}
        manifest = {"metadata": metadata, "spec": {"leaderWorkerTemplate": {"size": 1}}}
        picture.put(leaderworkerset.KIND, msgspec.convert(manifest, leaderworkerset.LeaderWorkerSet))
        removals.shows(f"/{i}", NotedObject(leaderworkerset.KIND, f"ns/serve-{i}", "u"))
        removals.left(f"/{i}", 10.0)
    moments = [10.0 + AFTER + extra for extra in (0.0, 0.5, 1.0, 2.0, 3.0)]
    assert [AT_ONCE, 0, AT_ONCE, 1, 0] == [len(removals.take(picture, now)) for now in moments]


@pytest.mark.parametrize("owned", ["suspended", "elastic"])
def test_the_notes_of_elastic_and_suspended_jobs_are_left_to_the_resizes(owned: str) -> None:
    scene, kind, removals = Scene(), pytorchjob.KIND.resource, Removals()
    notes = {WHY: "4 workers", **({"maar.dev/workers": "4"} if owned == "elastic" else {})}
    roles = {"Worker": {"replicas": 2, "template": {"spec": {"containers": [{"name": "c"}]}}}}
    manifest = {
        "metadata": {"name": "train", "namespace": "ns", "uid": "u", "annotations": notes},
        "spec": {"runPolicy": {"suspend": owned == "suspended"}, "pytorchReplicaSpecs": roles},
    }
    scene.picture.put(pytorchjob.KIND, msgspec.convert(manifest, kind.struct))
    removals.shows("/train", NotedObject(pytorchjob.KIND, KEY, "u"))
    removals.left("/train", 10.0)
    assert [] == removals.take(scene.picture, 10.0 + AFTER)


# -- which object represents a job


@pytest.mark.parametrize("suspended", [False, True])
def test_a_job_that_its_owner_has_suspended_gets_no_reason_while_its_pods_are_still_there(suspended: bool) -> None:
    scene, kind = Scene(), pytorchjob.KIND.resource
    template = {"spec": {"schedulerName": "maar", "containers": [{"name": "c"}]}}
    roles = {"Worker": {"replicas": 2, "template": template}}
    manifest = {
        "metadata": {"name": "train", "namespace": "ns", "uid": "u-job", "generation": 2},
        "spec": {"runPolicy": {"suspend": suspended}, "pytorchReplicaSpecs": roles},
    }
    scene.picture.put(pytorchjob.KIND, msgspec.convert(manifest, kind.struct))
    owner = {"apiVersion": kind.api_version, "kind": kind.kind, "name": "train", "uid": "u-job", "controller": True}
    scene.pod("train-worker-0", ownerReferences=[owner])
    scene.snapshot(1.0)
    subject = subject_of(scene.picture, scene.cache.latest, KEY)
    assert subject is not None
    assert (kind.kind, suspended) == (subject.tells.kind, subject.note is None)


def subjects_of(scene: Scene, *jobs: str) -> list[tuple[str, str]]:
    """The path and the UID of the object that represents each job."""
    scene.snapshot(1.0)
    found = [subject_of(scene.picture, scene.cache.latest, job) for job in jobs]
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
    owner = scene.picture.owners.job("ns", "train", "u-job")
    assert owner is not None
    assert job is owner.item
    assert scene.picture.owners.job("ns", "train", "of another") is None


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
