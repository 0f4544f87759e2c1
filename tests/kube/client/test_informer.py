"""Informers against servers that cut connections, stall, expire versions and send garbage."""

import asyncio
import itertools
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web
from tests.support.patience import PATIENCE, until
from tests.support.sockets import answer, cut, refusal, serving, stream

from maar.kube.client.access import Access
from maar.kube.client.api import Api
from maar.kube.client.informer import Changed, Delta, Informer, InformerPace, Removed, Replaced
from maar.kube.client.streams import Broken
from maar.kube.wire.api_resources import PODS
from maar.kube.wire.pods import Pod

PACE = InformerPace(first=0.001, most=0.01, watch=1000.0, stall=20.0, healthy=20.0)


class Cluster:
    """A server of pods. A test sets the response to each list and each watch; the last response repeats."""

    def __init__(self, *, lists: list[Any], watches: list[Any]) -> None:
        self.lists = lists
        self.watches = watches
        self.listed = 0
        self.asked: list[dict[str, str]] = []
        """The parameters of each watch."""
        self.informer: Informer[Pod] | None = None
        """The informer under test."""

    async def handle(self, request: web.Request) -> Any:
        if "watch" not in request.query:
            self.listed += 1
            return _response(self.lists[min(self.listed, len(self.lists)) - 1])
        self.asked.append(dict(request.query))
        play = self.watches[min(len(self.asked), len(self.watches)) - 1]
        if isinstance(play, int):
            return _response(play)
        return await stream(request, *play) if isinstance(play, list) else await play(request)

    @property
    def versions(self) -> list[str]:
        """The version that each watch started from."""
        return [asked["resourceVersion"] for asked in self.asked]


def _response(play: Any) -> web.Response:
    return refusal(play, "", "because") if isinstance(play, int) else answer(play)


def pod(name: str, version: int, **spec: Any) -> dict[str, Any]:
    metadata = {"namespace": "ns", "name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": metadata, "spec": spec}


def added(name: str, version: int, **spec: Any) -> dict[str, Any]:
    return {"type": "ADDED", "object": pod(name, version, **spec)}


def bookmark(version: int) -> dict[str, Any]:
    return {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(version)}}}


def listing(version: int, *pods: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"resourceVersion": str(version)}, "items": list(pods)}


async def forever(request: web.Request) -> web.StreamResponse:
    """A watch that stays open."""
    await stream(request)
    await asyncio.Event().wait()
    raise AssertionError


def then(play: Callable[[web.Request], Awaitable[None]], *lines: Any) -> Any:
    """A watch that delivers lines and then calls `play`."""

    async def watch(request: web.Request) -> web.StreamResponse:
        response = await stream(request, *lines)
        await play(request)
        return response

    return watch


def observed(
    cluster: Cluster,
    enough: Callable[[Cluster, Informer[Pod]], bool],
    pace: InformerPace = PACE,
    clock: Callable[[], float] | None = None,
    seed: int = 0,
) -> tuple[list[Delta[Pod]], Informer[Pod]]:
    """The deltas that reached the sink until `enough` was true, and the informer."""
    deltas: list[Delta[Pod]] = []

    async def main() -> Informer[Pod]:
        async with serving(cluster.handle) as server:
            api = await Api.open(Access(server))
            more: dict[str, Any] = {"clock": clock} if clock else {}
            informer = Informer(api, PODS, deltas.append, seed=seed, pace=pace, field_selector="a=b", **more)
            cluster.informer = informer
            running = asyncio.create_task(informer.run())
            try:
                await until(lambda: running.done() or enough(cluster, informer))
                if running.done():
                    running.result()
            finally:
                running.cancel()
                await asyncio.wait([running])
                await api.close()
            return informer

    return deltas, asyncio.run(main())


def names(deltas: list[Delta[Pod]]) -> list[str]:
    """`=a,b` for a list, `+a` and `-a` for events."""
    words = []
    for delta in deltas:
        match delta:
            case Replaced(objects):
                words.append("=" + ",".join(item.name for item in objects))
            case Changed(item):
                words.append("+" + item.name)
            case Removed(_, name, _):
                words.append("-" + name)
    return words


def test_a_list_then_events() -> None:
    gone = {"type": "DELETED", "object": pod("a", 8)}
    cluster = Cluster(lists=[listing(5, pod("a", 3))], watches=[[added("b", 6), gone, bookmark(9)], forever])
    deltas, informer = observed(cluster, lambda c, i: len(c.asked) == 2)
    assert ["=a", "+b", "-a"] == names(deltas)
    removed = deltas[-1]
    assert isinstance(removed, Removed)
    assert ("ns", "a") == (removed.namespace, removed.name)
    assert informer.synced.is_set()
    asked = cluster.asked[0]
    assert ("5", "true", "a=b") == (asked["resourceVersion"], asked["allowWatchBookmarks"], asked["fieldSelector"])
    assert 1000 <= int(asked["timeoutSeconds"]) <= 2000
    counts = informer.counts
    assert (1, 2, 1, 2, 1) == (counts.lists, counts.watches, counts.resumes, counts.events, counts.bookmarks)


def test_a_watch_that_the_server_ends_is_resumed_without_a_list() -> None:
    cluster = Cluster(lists=[listing(5)], watches=[[added("a", 6)], [bookmark(8)], [added("b", 9)], forever])
    deltas, informer = observed(cluster, lambda c, i: len(c.asked) == 4)
    assert ["5", "6", "8", "9"] == cluster.versions
    assert ["=", "+a", "+b"] == names(deltas)
    assert (1, 3) == (cluster.listed, informer.counts.resumes)


def test_a_watch_that_is_cut_is_resumed_without_a_list() -> None:
    seen = asyncio.Event()

    async def cut_when_seen(request: web.Request) -> None:
        await seen.wait()
        cut(request)

    def enough(cluster: Cluster, informer: Informer[Pod]) -> bool:
        if informer.counts.events == 1:
            seen.set()
        return len(cluster.asked) == 2

    cluster = Cluster(lists=[listing(5)], watches=[then(cut_when_seen, added("a", 6), b'{"type":"AD'), forever])
    deltas, informer = observed(cluster, enough)
    assert (["5", "6"], 1) == (cluster.versions, cluster.listed)
    assert ["=", "+a"] == names(deltas)
    assert 1 == informer.counts.errors


@pytest.mark.parametrize("how", ["status", "event"])
def test_a_version_that_is_too_old_causes_a_new_list(how: str) -> None:
    expired = [{"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}}]
    cluster = Cluster(
        lists=[listing(5, pod("a", 1)), listing(50, pod("b", 40))],
        watches=[410 if how == "status" else expired, forever],
    )
    deltas, _ = observed(cluster, lambda c, i: len(c.asked) == 2)
    assert ["=a", "=b"] == names(deltas)
    assert (["5", "50"], 2) == (cluster.versions, cluster.listed)


def test_a_watch_that_stalls_in_silence_is_dropped_and_resumed() -> None:
    async def stall(request: web.Request) -> None:
        await asyncio.Event().wait()

    cluster = Cluster(lists=[listing(5)], watches=[then(stall, added("a", 6)), forever])
    deltas, informer = observed(cluster, lambda c, i: len(c.asked) == 2, InformerPace(0.001, 0.01, 1000.0, stall=0.05))
    assert ["=", "+a"] == names(deltas)
    assert (["5", "6"], 1) == (cluster.versions, cluster.listed)
    assert "in time" in informer.error


def test_failures_are_retried_until_the_first_list_succeeds() -> None:
    cluster = Cluster(lists=[500, 503, 429, listing(5, pod("a", 1))], watches=[500, 429, [added("b", 6)], forever])
    deltas, informer = observed(cluster, lambda c, i: len(c.asked) == 4)
    assert ["=a", "+b"] == names(deltas)
    assert (["5", "5", "5", "6"], 4) == (cluster.versions, cluster.listed)
    assert (5, "") == (informer.counts.errors, informer.error)


def test_never_a_tight_loop() -> None:
    """Each of these failures repeats until something changes, so the waits must grow to the maximum."""
    for lists, watches in (([500], []), ([listing(5)], [[]]), ([listing(5)], [410]), ([listing(5)], [[b"garbage\n"]])):
        cluster = Cluster(lists=lists, watches=watches)
        started = time.monotonic()
        observed(cluster, lambda c, i: c.listed + len(c.asked) >= 12, InformerPace(first=0.01, most=0.04, healthy=20.0))
        elapsed = time.monotonic() - started
        # 12 requests (lists and watches in turn) have at least 5 waits between them: half of 10, 20, 40, 40 and 40 ms.
        assert elapsed >= 0.075


def test_a_watch_that_is_cut_repeatedly_is_resumed_at_once_even_without_events() -> None:
    """A proxy may do this. The server has not failed, so the waits do not grow; here a wait would time the test out."""
    now = [0.0]

    async def watch(request: web.Request) -> web.StreamResponse:
        informer = cluster.informer
        assert informer is not None
        now[0] += 1.0
        response = await stream(request)
        await until(lambda: informer.lag_seconds() == 0.0)  # the informer knows that the watch is open
        now[0] += 1.0
        cut(request)
        return response

    cluster = Cluster(lists=[listing(5)], watches=[watch])
    pace = InformerPace(first=1000.0, most=1000.0, healthy=0.5)
    _, informer = observed(cluster, lambda c, i: len(c.asked) == 8, pace, clock=lambda: now[0])
    assert (["5"] * 8, 1) == (cluster.versions, cluster.listed)
    assert 7 == informer.counts.errors


@pytest.mark.parametrize("how", ["closed", "cut", "refused", "refused late"])
def test_a_watch_that_never_works_is_retried_with_growing_waits(how: str) -> None:
    times: list[float] = []
    now = [0.0]

    async def handle(request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            return answer(listing(5))
        times.append(time.monotonic())
        if how == "refused late":
            now[0] += 1.0
        if "refused" in how:
            return refusal(503, "", "because")
        response = await stream(request)
        if how == "cut":
            cut(request)
        return response

    async def main() -> None:
        async with serving(handle) as server:
            api = await Api.open(Access(server))
            pace = InformerPace(first=0.02, most=100.0, healthy=0.5, jitter=0.0)
            informer = Informer(api, PODS, lambda delta: None, pace=pace, clock=lambda: now[0])
            running = asyncio.create_task(informer.run())
            await until(lambda: len(times) == 6)
            running.cancel()
            await asyncio.wait([running])
            await api.close()

    asyncio.run(main())
    waits = [after - before for before, after in itertools.pairwise(times)]
    # At least half of 20, 40, 80, 160 and 320 ms.
    assert [] == [wait for number, wait in enumerate(waits) if wait < 0.01 * 2**number]


def test_waits_are_as_long_as_the_server_asks() -> None:
    refused = refusal(429, "TooManyRequests", "because", retryAfterSeconds=1)
    times: list[float] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        times.append(time.monotonic())
        return (
            refused if len(times) == 1 else await forever(request) if "watch" in request.query else answer(listing(5))
        )

    async def main() -> None:
        async with serving(handle) as server:
            api = await Api.open(Access(server))
            informer = Informer(api, PODS, lambda delta: None, pace=PACE)
            running = asyncio.create_task(informer.run())
            await asyncio.wait_for(informer.synced.wait(), 20)
            running.cancel()
            await asyncio.wait([running])
            await api.close()

    asyncio.run(main())
    assert times[1] - times[0] >= 1.0


def test_an_object_that_cannot_be_decoded_is_delivered_and_counted() -> None:
    bad = added("bad", 6, priority="high")
    cluster = Cluster(
        lists=[listing(5, pod("a", 1), pod("worse", 2, priority=[]))], watches=[[bad, bad, added("b", 7)], forever]
    )
    deltas, informer = observed(cluster, lambda c, i: len(c.asked) == 2)
    assert ["=a,worse", "+bad", "+bad", "+b"] == names(deltas)
    changed = deltas[1]
    assert isinstance(changed, Changed)
    assert isinstance(changed.object, Broken)
    assert "spec.priority: expected a whole number, got `high`" == changed.object.error
    assert (["5", "7"], 3) == (cluster.versions, informer.counts.broken)


def test_garbage_in_a_watch_causes_a_new_list() -> None:
    cluster = Cluster(lists=[listing(5), listing(8, pod("b", 7))], watches=[[added("a", 6), b"{garbage\n"], forever])
    deltas, _ = observed(cluster, lambda c, i: len(c.asked) == 2)
    assert ["=", "+a", "=b"] == names(deltas)
    assert ["5", "8"] == cluster.versions


def test_long_lines_are_read() -> None:
    long = json.dumps(added("long", 6, containers=[{"name": "x" * 300_000}])).encode() + b"\n"
    cluster = Cluster(lists=[listing(5)], watches=[[long], forever])
    deltas, _ = observed(cluster, lambda c, i: len(c.asked) == 2)
    assert ["=", "+long"] == names(deltas)


def test_lag_is_the_time_since_the_server_last_sent_something() -> None:
    now = [100.0]
    cluster = Cluster(lists=[listing(5)], watches=[forever])
    lags: list[float] = []

    def enough(cluster: Cluster, informer: Informer[Pod]) -> bool:
        if cluster.asked:
            now[0] += 7.0
            lags.append(informer.lag_seconds())
        return bool(lags)

    observed(cluster, enough, clock=lambda: now[0])
    assert [7.0] == lags


@pytest.mark.parametrize("when", ["before the first list", "while it is watched"])
def test_a_kind_that_is_no_longer_served_ends_its_informer(when: str) -> None:
    first = "first" in when
    cluster = Cluster(
        lists=[404] if first else [listing(5, pod("a", 1)), 404], watches=[404] if first else [[added("b", 6)], 404]
    )
    deltas: list[Delta[Pod]] = []

    async def main() -> Informer[Pod]:
        async with serving(cluster.handle) as server:
            api = await Api.open(Access(server))
            informer = Informer(api, PODS, deltas.append, pace=InformerPace(first=0.01, most=0.01, gone=0.1))
            try:
                async with asyncio.timeout(PATIENCE):
                    await informer.run()
            finally:
                await api.close()
            return informer

    informer = asyncio.run(main())
    assert (["="] if first else ["=a", "+b", "="]) == names(deltas)
    assert informer.synced.is_set()


def test_a_kind_that_is_not_found_for_a_moment_changes_nothing() -> None:
    cluster = Cluster(
        lists=[404, 404, listing(5, pod("a", 1))], watches=[404, 404, [added("b", 6)], 404, [added("c", 7)], forever]
    )
    deltas, _ = observed(cluster, lambda c, i: len(c.asked) == 6, InformerPace(first=0.001, most=0.01, gone=20.0))
    assert ["=a", "+b", "+c"] == names(deltas)


def test_an_error_in_the_sink_ends_the_informer() -> None:
    async def main() -> None:
        async with serving(Cluster(lists=[listing(5)], watches=[forever]).handle) as server:
            api = await Api.open(Access(server))

            def sink(delta: Delta[Pod]) -> None:
                raise RuntimeError("a defect")

            try:
                await asyncio.wait_for(Informer(api, PODS, sink).run(), 20)
            finally:
                await api.close()

    with pytest.raises(RuntimeError, match="a defect"):
        asyncio.run(main())


def test_the_same_seed_waits_the_same() -> None:
    def asked(seed: int) -> list[str]:
        cluster = Cluster(lists=[listing(5)], watches=[[added("a", 6)], [added("b", 7)], forever])
        observed(cluster, lambda c, i: len(c.asked) == 3, seed=seed)
        return [ask["timeoutSeconds"] for ask in cluster.asked]

    assert asked(1) == asked(1) != asked(2)


def test_a_list_that_is_asked_for_begins_after_the_call() -> None:
    """The watch before it is closed, and a list that was under way already does not count."""
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def scene() -> list[Delta[Pod]]:
        lists = 0

        async def handle(request: web.Request) -> web.StreamResponse:
            nonlocal lists
            if "watch" in request.query:
                return await forever(request)
            lists += 1
            number = lists
            if number == 1:
                asked.set()
                await go_on.wait()
            return answer(listing(number, pod(f"p{number}", number)))

        async with serving(handle) as address:
            api = await Api.open(Access(address))
            seen: list[Delta[Pod]] = []
            informer = Informer(api, PODS, seen.append, pace=PACE)
            task = asyncio.create_task(informer.run())
            await asked.wait()
            again = asyncio.create_task(informer.list_again())
            await asyncio.sleep(0)
            go_on.set()
            await asyncio.wait_for(again, 20)
            assert 2 == informer.counts.lists
            await until(lambda: informer.counts.watches > 1)
            await asyncio.wait_for(informer.list_again(), 20)
            task.cancel()
            await asyncio.wait([task])
            await api.close()
            return seen

    names = [[item.name for item in delta.objects] for delta in asyncio.run(scene()) if isinstance(delta, Replaced)]
    assert [["p1"], ["p2"], ["p3"]] == names


def test_a_list_that_is_on_its_way_is_too_old_for_those_who_ask_now() -> None:
    async def scene() -> int:
        lists, begun, go_on = 0, asyncio.Event(), asyncio.Event()

        async def handle(request: web.Request) -> web.StreamResponse:
            nonlocal lists
            if "watch" in request.query:
                return await forever(request)
            lists += 1
            if lists == 2:
                begun.set()
                await go_on.wait()
            return answer(listing(lists))

        async with serving(handle) as address:
            api = await Api.open(Access(address))
            informer = Informer(api, PODS, lambda delta: None, pace=PACE)
            task = asyncio.create_task(informer.run())
            await informer.synced.wait()
            early = asyncio.create_task(informer.list_again())
            await begun.wait()
            late = asyncio.create_task(informer.list_again())
            await asyncio.sleep(0)
            go_on.set()
            await asyncio.wait_for(early, 20)
            assert not late.done()
            await asyncio.wait_for(late, 20)
            task.cancel()
            await asyncio.wait([task])
            await api.close()
            return lists

    assert 3 == asyncio.run(scene())


def test_a_list_that_is_asked_for_does_not_wait_because_earlier_requests_have_failed() -> None:
    async def scene() -> int:
        lists, failed = 0, asyncio.Event()

        async def handle(request: web.Request) -> web.StreamResponse:
            nonlocal lists
            if "watch" in request.query:
                return await forever(request)
            lists += 1
            if lists == 1:
                failed.set()
                return refusal(503, "", "restarting")
            return answer(listing(lists))

        async with serving(handle) as address:
            api = await Api.open(Access(address))
            informer = Informer(api, PODS, lambda delta: None, pace=InformerPace(first=3600.0, most=3600.0))
            task = asyncio.create_task(informer.run())
            await failed.wait()
            await until(lambda: informer.counts.errors == 1)
            await asyncio.wait_for(informer.list_again(), 20)
            task.cancel()
            await asyncio.wait([task])
            await api.close()
            return lists

    assert 2 == asyncio.run(scene())
