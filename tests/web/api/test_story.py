"""The story of a job: what the scheduler beside it really did, what the history has, and what cannot be read."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace
from tests.support.live import NAMESPACE, Live, bound, scheduling
from tests.support.patience import until
from tests.support.web import ADMIN, MINE, THEIRS, USER, Web, webbing

from maar.history.address import read_address
from maar.history.history import History
from maar.history.records import Event, EventKind
from maar.history.store import Store
from maar.kube.kinds import volcano_podgroup
from maar.kube.wire.api_resources import PODS
from maar.model.elastic import Past
from maar.testing.builders import elastic
from maar.views.records import OwnerView, StoryView
from maar.views.sight import ALL
from maar.web.api.story import Story, joined, story_of

Tell = Callable[[Web], Awaitable[None]]


def told(tmp_path: Path, story: Tell, **options: Any) -> None:
    async def main() -> None:
        async with asyncio.timeout(90), webbing(tmp_path, **options) as web:
            await story(web)

    asyncio.run(main())


async def group(cluster: Live, name: str, **spec: Any) -> None:
    """A PodGroup without pods, whose controller waits until it is admitted."""
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": name, "uid": "u", "controller": True}
    resource = volcano_podgroup.KIND.resource
    metadata = {"name": name, "namespace": NAMESPACE, "ownerReferences": [owner]}
    body = {"apiVersion": resource.api_version, "kind": "PodGroup", "metadata": metadata}
    await cluster.create(resource.path(NAMESPACE), {**body, "spec": {"minMember": 1, **spec}})


def test_it_has_every_decision_of_the_scheduler(tmp_path: Path) -> None:
    """Admitted, scheduled, refused and why, nominated, and evicted for whom."""

    async def story(web: Web) -> None:
        cluster, client = web.cluster, await web.as_user(ADMIN)
        user = await web.as_user(USER)

        async def happens(job: str, what: str) -> Any:
            async def found() -> Any:
                status, body = await client.ask(f"/api/v1/jobs/{NAMESPACE}/{job}?unblock=false")
                entries = msgspec.json.decode(body)["detail"]["story"] if status == 200 else ()
                return next((entry for entry in entries if entry["what"] == what), None)

            return await until(found, f"{what} in the story of {job}")

        await cluster.priority("high", 1000)
        async with scheduling(cluster):
            await group(cluster, "late", minResources={"cpu": "1"})
            assert (
                "its group is admitted: its pods may be created and placed"
                == (await happens("late", "Admitted"))["words"]
            )
            await cluster.gang("low", 2, gpu=8)
            assert "bound 2 pods of the gang" == (await happens("low", "Scheduled"))["words"]
            for i in range(2):  # they leave only when the test lets them go
                await cluster.api.patch(
                    PODS.path(NAMESPACE, f"low-{i}"), {"metadata": {"finalizers": ["test/x"]}}, "merge"
                )
            await cluster.gang("high", 2, gpu=8, priorityClassName="high")
            evicted = await happens("low", "Evicted")
            assert f"gang of `{NAMESPACE}/low`" in evicted["words"]
            assert f"for `{NAMESPACE}/high`" in evicted["words"]
            assert evicted["words"].endswith(": 2 pods")
            assert "room is being freed for its pods" in (await happens("high", "Nominated"))["words"]
            for i in range(2):
                await cluster.let_go(f"low-{i}")
            await cluster.until(bound("high", 2))
            assert "bound 2 pods of the gang" == (await happens("high", "Scheduled"))["words"]
            await cluster.gang("next", 2, gpu=8)
            refused = await happens("next", "FailedScheduling")
            assert "no nodes with enough free room" in refused["words"]
        times = [one["at"] for one in (await client.get(f"/jobs/{NAMESPACE}/high"))["detail"]["story"]]
        assert sorted(times) == times
        assert 404 == (await user.ask(f"/api/v1/jobs/{NAMESPACE}/high"))[0]

    told(tmp_path, story)


def recorded(file: Path, *events: Event) -> None:
    store = Store(read_address(str(file)))
    assert store.open()
    store.write(list(events))
    store.close()


def test_it_has_the_history_with_sizes_and_without_earlier_jobs_of_the_name(tmp_path: Path) -> None:
    file, job = tmp_path / "history.db", elastic("mine/train", 1, 8, job={"uid": "new", "created": 10.0}).job
    recorded(
        file,
        Event(MINE, "train", EventKind.STARTED, 1.0, uid="old", after=3),
        Event(MINE, "train", EventKind.ENDED, 2.0, uid="old", before=3, how="completed"),
        Event(MINE, "train", EventKind.SUBMITTED, 10.0, uid="new"),
        Event(MINE, "train", EventKind.STARTED, 11.0, uid="new", after=2),
        Event(MINE, "train", EventKind.RESIZED, 12.0, uid="new", before=2, after=6),
        Event(MINE, "train", EventKind.SUSPENDED, 13.0, uid="new", before=6),
    )

    async def story(web: Web) -> None:
        history = History(str(file), write=False, refresh=0.05)
        history.start()
        try:
            await until(lambda: not history.problem)
            found = await story_of(web.cluster.api, history, job, None, ALL, frozenset())
            assert [
                ("Created", None),
                ("Started", 2),
                ("Resized", 6),
                ("Suspended", 0),
            ] == [(one.what, one.workers) for one in found.entries]
            assert "resized from 2 to 6 workers" == found.entries[2].words
            assert () == found.without
        finally:
            await history.close()

    told(tmp_path, story)


def noted(at: float, what: str, words: str, workers: int | None = None) -> StoryView:
    return StoryView(at=at, what=what, words=words, source="history", workers=workers)


def event(at: float, what: str, words: str) -> StoryView:
    return StoryView(at=at, what=what, words=words, source="event")


def test_what_two_sources_tell_is_one_entry() -> None:
    history = [
        noted(10.0, "Started", "started with 4 workers", 4),
        noted(20.0, "Resized", "resized from 4 to 3 workers", 3),
        noted(21.0, "Resized", "resized from 3 to 2 workers", 2),
        noted(30.0, "Suspended", "suspended: it had 2 workers", 0),
        noted(90.0, "Started", "started with 4 workers", 4),
        noted(95.0, "Evicted", "evicted: it made room for another job, and waits again", 0),
    ]
    events = [
        event(9.0, "Nominated", "room is being freed for its pods"),
        event(9.9, "Scheduled", "bound 5 pods of the gang"),
        event(20.6, "Resized", "from 3 to 2 workers: max-min"),
        event(20.7, "Resized", "from 4 to 3 workers: preempted"),
        event(30.1, "Suspended", "suspended: max-min"),
        event(94.9, "Evicted", "preempted: gang of `a/b` for `a/c`: 2 pods"),
        event(95.1, "Evicted", "preempted: gang of `a/b` for `a/d`: 2 pods"),
    ]
    found = sorted(joined(history, events), key=lambda entry: entry.at)
    assert [
        ("Nominated", "event", None),
        ("Scheduled", "event", 4),
        ("Resized", "event", 2),
        ("Resized", "event", 3),
        ("Suspended", "event", 0),
        ("Started", "history", 4),  # its event is gone
        ("Evicted", "event", 0),
        ("Evicted", "event", 0),
    ] == [(one.what, one.source, one.workers) for one in found]
    assert "from 4 to 3 workers: preempted" == found[3].words


def test_changes_that_happen_again_are_told_again() -> None:
    history = [noted(at, "Resized", "resized from 2 to 4 workers", 4) for at in (10.0, 20.0)]
    events = [event(at, "Resized", "from 2 to 4 workers") for at in (10.1, 20.1, 28.0)]
    assert [10.1, 20.1, 28.0] == sorted(one.at for one in joined(history, events))
    hour = [event(4000.0, "Resized", "from 2 to 4 workers")]
    assert [10.0, 20.0, 4000.0] == sorted(one.at for one in joined(history, hour))


def test_an_evicted_pod_without_a_gang_is_told_once(tmp_path: Path) -> None:
    async def story(web: Web) -> None:
        now = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())
        words = f"preempted: pod of `{MINE}/alone` for `{THEIRS}/x`"
        about = {"kind": "Pod", "name": "alone", "namespace": MINE}
        body = {"reason": "Preempted", "message": words, "involvedObject": about, "eventTime": now}
        await web.cluster.api.create(f"/api/v1/namespaces/{MINE}/events", {"metadata": {"name": "e"}, **body})
        job = replace(elastic(f"{MINE}/alone", 1, 8).job, elastic=None)
        owner = OwnerView(api_version="v1", kind="Pod", name="alone")
        found = (await story_of(web.cluster.api, History("none"), job, owner, ALL, frozenset())).entries
        assert ["created", f"{words}: 1 pod"] == [one.words for one in found]

    told(tmp_path, story)


def test_what_a_scheduler_writes_to_events_and_history_is_told_once(tmp_path: Path) -> None:
    file = tmp_path / "history.db"

    async def story(web: Web) -> None:
        client, history = await web.as_user(ADMIN), web.answers.history

        async def seen() -> list[tuple[str, str, int | None]]:
            status, body = await client.ask(f"/api/v1/jobs/{NAMESPACE}/low?unblock=false")
            found = msgspec.json.decode(body)["detail"]["story"] if status == 200 else ()
            return [(one["what"], one["source"], one["workers"]) for one in found]

        async def both() -> bool:
            """Whether the history and an event tell that it has started."""
            kinds = [] if history.problem else [one.kind for one in await history.events_of(NAMESPACE, "low")]
            return EventKind.STARTED in kinds and "Scheduled" in [what for what, _, _ in await seen()]

        writes = History(str(file))
        writes.start()
        try:
            async with scheduling(web.cluster, history=writes):
                await web.cluster.gang("low", 2, gpu=8)
                await until(both, "its start is in the history and among its events")
                assert [("Created", "object", None), ("Scheduled", "event", 2)] == await seen()
        finally:
            await writes.close()

    recorded(file)
    told(tmp_path, story, history=str(file))


def test_it_says_what_cannot_be_read(tmp_path: Path) -> None:
    async def story(web: Web) -> None:
        await web.gang(MINE, "waits", 2, gpu=8)
        await web.settled()
        client = await web.as_user(USER)
        assert [] == (await client.get(f"/jobs/{MINE}/waits?unblock=false"))["detail"]["storyWithout"]
        faults = web.server.faults
        faults.fail_share, faults.fail_codes, faults.fails = 1.0, (403,), lambda _, path: path.endswith("/events")
        detail = (await client.get(f"/jobs/{MINE}/waits?unblock=false"))["detail"]
        assert (["Created"], ["events"]) == ([one["what"] for one in detail["story"]], detail["storyWithout"])
        faults.clear()
        job = elastic("mine/train", 1, 8).job
        away = History(str(tmp_path / "none" / "history.db"), write=False)  # never started
        assert ("history",) == (await story_of(web.cluster.api, away, job, None, ALL, frozenset())).without

    told(tmp_path, story)


def test_without_history_an_elastic_job_has_what_is_noted_on_its_object(tmp_path: Path) -> None:
    past = Past(first_start=20.0, last_resize=30.0)
    job = elastic("mine/train", 1, 8, size=4, past=past, job={"created": 10.0}).job

    async def seen(web: Web, of: Any) -> list[tuple[float, str, int | None]]:
        found: Story = await story_of(web.cluster.api, History("none"), of, None, ALL, frozenset())
        return [(one.at, one.what, one.workers) for one in found.entries]

    async def story(web: Web) -> None:
        assert [(10.0, "Created", None), (20.0, "Started", None), (30.0, "Resized", 4)] == await seen(web, job)
        asleep = elastic("mine/train", 1, 8, past=past, job={"created": 10.0}).job
        assert (30.0, "Suspended", 0) == (await seen(web, asleep))[-1]

    told(tmp_path, story)


def test_events_that_repeat_are_counted_and_releases_belong_to_their_gang(tmp_path: Path) -> None:
    async def story(web: Web) -> None:
        now = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())
        about = {"kind": "PodGroup", "name": "waits", "namespace": MINE}
        gone = f"released: the missing pods of gang `{MINE}/waits` no longer fit, and it cannot run without them"
        for name, more in (
            ("e1", {"reason": "FailedScheduling", "message": "no room", "involvedObject": about,
                    "series": {"count": 7, "lastObservedTime": now}}),
            ("e2", {"reason": "Preempted", "message": gone,
                    "involvedObject": {**about, "kind": "Pod", "name": "waits-0"}}),
            ("e3", {"reason": "Preempted", "message": f"preempted: gang of `{THEIRS}/x` for `{MINE}/waits`",
                    "involvedObject": {**about, "kind": "Pod", "name": "x-0"}}),
        ):  # fmt: skip
            body = {"metadata": {"name": name}, "eventTime": now, **more}
            await web.cluster.api.create(f"/api/v1/namespaces/{MINE}/events", body)
        job = replace(elastic(f"{MINE}/waits", 1, 8).job, elastic=None)
        owner = OwnerView(api_version="x/v1", kind="PodGroup", name="waits")
        found: tuple[StoryView, ...] = (
            await story_of(web.cluster.api, History("none"), job, owner, ALL, frozenset())
        ).entries
        assert {("Created", "created"), ("FailedScheduling", "no room (7 times)"), ("Evicted", f"{gone}: 1 pod")} == {
            (one.what, one.words) for one in found
        }

    told(tmp_path, story)
