"""Reports of thousands of jobs: made when they can be sent, from the newest state, one namespace after the other."""

from __future__ import annotations

from itertools import islice
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from maar.controller.reporting.backlog import MOST, Backlog
from maar.controller.reporting.job_reports import STANDS, Writes
from maar.controller.reporting.old_notes import AFTER, AT_ONCE, Removals
from maar.controller.reporting.reports import DETAILS_EVERY, Reports
from maar.controller.snapshots.cache import Cache
from maar.kube.kinds import cluster as kinds
from maar.kube.kinds import leaderworkerset
from maar.kube.picture.job_objects import NotedObject
from maar.kube.picture.picture import Picture
from maar.kube.wire.annotations import WHY
from maar.kube.wire.cluster import Node
from maar.kube.wire.pods import Pod
from maar.kube.write.status import QueueShows, QueueStatuses, nominates
from maar.model.plan import Nominate, Plan, Wait
from maar.model.reasons import Reason
from maar.testing.builders import GPU


class Scene:
    """Waiting pods of some namespaces, as watches have shown them; nothing is sent."""

    at_once: list[Writes]
    """What the last cycle did not leave for later."""

    def __init__(self, **pods: int) -> None:
        self.picture = Picture(frozenset({"maar"}))
        self.cache = Cache(self.picture)
        self.reports = Reports(self.cache)
        node = {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "8", "pods": "110"}}}
        self.picture.put(kinds.NODES, msgspec.convert(node, Node))
        self.jobs = [f"{namespace}/p{i:04}" for namespace, count in pods.items() for i in range(count)]
        for job in self.jobs:
            namespace, _, name = job.partition("/")
            manifest = {
                "metadata": {"name": name, "namespace": namespace, "uid": f"u-{job}"},
                "spec": {"containers": [{"name": "c"}], "schedulerName": "maar"},
                "status": {"phase": "Pending"},
            }
            self.picture.put(kinds.PODS, msgspec.convert(manifest, Pod))

    def cycle(self, now: float, text: str = "too few GPUs", code: str = "NotEnoughResources", **plan: Any) -> None:
        """All jobs wait."""
        self.cache.snapshot(now)
        waiting = tuple(Wait(job, (Reason("test", code, text),)) for job in self.jobs)
        decided = Plan(waiting=waiting, **plan)
        self.cache.assume(decided)
        self.at_once = [writes for writes in self.reports.after(self.cache.publish(1, decided, now)) if writes.patches]

    def next(self, most: int | None = None) -> list[Writes]:
        """The writes about the next jobs; none of them ends meanwhile."""
        return list(islice(iter(self.reports.next, None), most))

    def end(self, found: list[Writes]) -> None:
        for writes in found:
            for _ in writes.patches:
                self.reports.ended(writes.job)

    def finish(self) -> list[Writes]:
        """All writes that are left, while others end."""
        seen: list[Writes] = []
        while found := self.next():
            seen += found
            self.end(found)
        return seen

    def stands(self) -> None:
        """All jobs have been looked at, and their reason has held: all first conditions are due."""
        self.cycle(10.0)
        assert len(self.jobs) == len(self.next())
        self.cycle(10.0 + STANDS)


def texts(found: list[Writes]) -> dict[str, str]:
    """The condition that is written about each job."""
    return {
        writes.job: msgspec.to_builtins(patch.body)["status"]["conditions"][0]["message"]
        for writes in found
        for patch in writes.patches
    }


def namespaces(found: list[Writes]) -> list[str]:
    return [writes.job.partition("/")[0] for writes in found]


def test_a_cycle_makes_no_report_itself() -> None:
    scene = Scene(flood=100)
    scene.stands()
    assert [] == scene.at_once
    assert scene.reports.next() is not None


def test_what_is_queued_for_a_namespace_is_bounded_and_others_have_their_turns() -> None:
    scene = Scene(flood=1000, mine=3)
    scene.stands()
    found = scene.next()
    assert ["flood", "mine"] * 3 == namespaces(found)[:6]
    assert (MOST, 3) == (namespaces(found).count("flood"), namespaces(found).count("mine"))
    scene.reports.ended(found[0].job)
    (next_one,) = scene.next()
    assert f"flood/p{MOST:04}" == next_one.job, "one has ended, so there is room for one"


def test_a_report_that_is_not_sent_yet_is_replaced_by_the_newest_one() -> None:
    scene = Scene(flood=1000)
    scene.stands()
    first = scene.next()
    scene.cycle(20.0, "too much for its queue", "OverCapability")
    scene.end(first)
    later = scene.finish()
    assert dict.fromkeys(scene.jobs[MOST:], "too much for its queue") == texts(later)
    assert len(scene.jobs) - MOST == sum(len(writes.patches) for writes in later), "once each"


def test_a_job_is_not_looked_at_while_its_last_writes_are_on_their_way() -> None:
    scene = Scene(mine=1)
    scene.stands()
    (first,) = scene.next()
    scene.cycle(20.0, "too much for its queue", "OverCapability")
    assert [] == scene.next()
    scene.reports.ended(first.job)
    assert 1 == len(scene.next())
    scene.cycle(20.0 + STANDS, "too much for its queue", "OverCapability")
    assert {"mine/p0000": "too much for its queue"} == texts(scene.next())


def test_a_promise_is_written_at_once() -> None:
    """Later leaders rely on it. The same holds when it is taken back."""
    scene = Scene(flood=1000, mine=2)
    scene.stands()
    assert MOST + 2 == len(scene.next())
    scene.cycle(11.0, nominate=(Nominate("flood/p0999", "n1"), Nominate("mine/p0000", "n1")))
    assert ["flood/p0999", "mine/p0000"] == [writes.job for writes in scene.at_once]
    assert all(nominates(patch) for writes in scene.at_once for patch in writes.patches)
    scene.cycle(12.0)
    assert ["flood/p0999", "mine/p0000"] == [writes.job for writes in scene.at_once]
    assert all(nominates(patch) for writes in scene.at_once for patch in writes.patches)


def test_a_report_that_is_due_later_is_known_to_the_outbox() -> None:
    """The cycle has ended before the job is looked at, so it cannot tell when the next one is due."""
    scene = Scene(mine=1)
    scene.cycle(10.0)
    assert scene.reports.take_soonest() is None
    scene.next()
    assert 10.0 + STANDS == scene.reports.take_soonest()
    assert scene.reports.take_soonest() is None
    assert scene.reports.is_due(10.0 + STANDS)
    assert not scene.reports.is_due(10.0)
    scene.cycle(10.0 + STANDS)
    assert not scene.reports.is_due(20.0)


def test_a_job_that_is_gone_is_not_reported_on() -> None:
    scene = Scene(mine=2)
    scene.stands()
    scene.picture.drop(kinds.PODS, "mine/p0000")
    scene.jobs.remove("mine/p0000")
    scene.cache.snapshot(11.0)
    assert ["mine/p0001"] == [writes.job for writes in scene.next()]


def test_texts_are_refreshed_for_each_namespace_in_turn() -> None:
    scene = Scene(flood=100, mine=1)
    scene.stands()
    scene.finish()
    refreshed: list[str] = []
    for i in range(4):
        other = Reason("test", "NotEnoughResources", "too few GPUs", lasting="too few GPUs, said otherwise")
        scene.cache.snapshot(20.0 + i)
        plan = Plan(waiting=tuple(Wait(job, (other,)) for job in scene.jobs))
        scene.reports.after(scene.cache.publish(1, plan, 20.0 + i * DETAILS_EVERY))
        refreshed += [writes.job for writes in scene.finish() if writes.patches]
    assert ["flood/p0000", "mine/p0000", "flood/p0001"] == refreshed


def test_notes_are_removed_for_each_namespace_in_turn() -> None:
    picture, removals = Scene().picture, Removals()
    for namespace, count in (("flood", 10 * AT_ONCE), ("mine", 1)):
        for i in range(count):
            metadata = {"name": f"s{i}", "namespace": namespace, "uid": "u", "annotations": {WHY: "too few GPUs"}}
            manifest = {"metadata": metadata, "spec": {"leaderWorkerTemplate": {"size": 1}}}
            picture.put(leaderworkerset.KIND, msgspec.convert(manifest, leaderworkerset.LeaderWorkerSet))
            path = f"/apis/x/v1/namespaces/{namespace}/s/s{i}"
            removals.shows(path, NotedObject(leaderworkerset.KIND, f"{namespace}/s{i}", "u"))
            removals.left(path, 10.0)
    assert "mine/s0" in [place.key for _, place in removals.take(picture, 10.0 + AFTER)]


def test_no_queue_is_left_out_while_the_shares_of_all_change_all_the_time() -> None:
    status, queues = QueueStatuses(), [f"q{i:02}" for i in range(60)]
    written: set[str] = set()
    for second in range(20):
        wanted = {queue: QueueShows({}, {GPU: second + 1}, 0) for queue in queues}
        patches, _ = status.patches(wanted, {}, ("cpu", GPU), 100.0 + second)
        written |= {patch.key.rpartition("/")[2] for patch in patches}
    assert set(queues) == written


STEPS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.sampled_from(["add", "take", "end"])))


@given(STEPS)
def test_liveness_every_job_with_news_is_taken_once_its_writes_have_ended(steps: list[tuple[str, int, str]]) -> None:
    backlog, on_their_way, wanted = Backlog(), list[str](), set[str]()
    for namespace, number, step in steps:
        job = f"{namespace}/{number}"
        if step == "add":
            backlog.add(job)
            wanted.add(job)
        elif step == "take" and (taken := backlog.take()) is not None:
            assert taken in wanted
            assert taken not in on_their_way, "its last writes have ended"
            wanted.discard(taken)
            backlog.began(taken, number * MOST // 2)
            on_their_way += [taken] * (number * MOST // 2)
        elif step == "end" and on_their_way:
            backlog.ended(on_their_way.pop(0))
    for job in on_their_way:
        backlog.ended(job)
    assert wanted == set(iter(backlog.take, None))
    assert backlog.take() is None
