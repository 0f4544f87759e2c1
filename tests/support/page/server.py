"""An API that answers from a scene, with the page: what the page gets from `maar web`, without a cluster.

It makes the same views by the same code. A test changes the scene with `change`, and the page hears of it by the
stream.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec
from aiohttp import web
from msgspec.structs import replace
from tests.support.page.scenes import NOW

from maar.config.file import default_config
from maar.decide import decide
from maar.model.plan import Plan
from maar.model.snapshot import Cluster, Snapshot
from maar.registry import catalog
from maar.shards.sharing import Sharing
from maar.views.answers import ShiftsView, ShiftView, what_if_view
from maar.views.cluster import cluster_view
from maar.views.decisions import ShownCycle, decision_view
from maar.views.jobs import job_detail, job_views
from maar.views.nodes import node_views
from maar.views.queues import queue_views
from maar.views.records import ForecastView, JobView, QualityView, StartView, StoryView, UtilisationView, View
from maar.views.sight import ALL, Sight
from maar.views.tally import Tally
from maar.web.api.answers import CreatedAnswer, CreatedView
from maar.web.api.question import WebEdit
from maar.web.api.server import HEADERS, KINDS, PAGE, content, files_of
from maar.whatif.answer import what_if
from maar.whatif.edit import EditError
from maar.whatif.why import why

MOST = 10_000
PULSE = 1.0
"""Seconds between two signs of life on a stream."""
LISTS: dict[str, Callable[[Tally, Sight], Sequence[View]]] = {
    "nodes": node_views,
    "jobs": job_views,
    "queues": queue_views,
}
CONFIG = default_config(catalog())
STORY = (
    StoryView(at=NOW - 9000, what="Admitted", words="its group is admitted", source="event"),
    StoryView(at=NOW - 6990, what="Started", words="started with 2 workers", source="history", workers=2),
    StoryView(at=NOW - 5000, what="Resized", words="resized from 2 to 6 workers", source="history", workers=6),
    StoryView(at=NOW - 1000, what="Evicted", words="2 pods evicted for ann/llama: reclaimed", source="event"),
    StoryView(at=NOW - 900, what="Resized", words="resized from 6 to 4 workers", source="history", workers=4),
)
QUALITY = QualityView(
    queue="language", age="at submission", judged=40, censored=2, coverage_p90=0.9, median_error=300.0
)
FORECAST = ForecastView(
    known=True,
    verdict="expected",
    start_p50=NOW + 1200,
    start_p90=NOW + 4200,
    within_hour=0.75,
    rollouts=32,
    age=30.0,
    trust=QUALITY,
)
NEVER = ForecastView(verdict="never", words="never: needs 8 pods together, the queue may have 4")
FORECASTS = {"madeAt": NOW, "rollouts": 32, "finishedJobs": 500, "arrivals": True, "notKept": "", "quality": [QUALITY]}
SHIFT = ShiftView(
    job="bob/probe",
    before=StartView(verdict="expected", start_p50=NOW + 7200, start_p90=NOW + 9000),
    after=StartView(verdict="expected", start_p50=NOW + 3600, start_p90=NOW + 5000),
)


class PageServer:
    """Serves one scene on a port of the loopback interface, in a thread of its own."""

    def __init__(
        self,
        scene: Cluster,
        *,
        tokens: dict[str, Sight] | None = None,
        writes: bool = True,
        plan: Plan | None = None,
        sharing: Sharing | None = None,
        page: Path = PAGE,
    ) -> None:
        self._page = page
        self._tokens = tokens  # None: no token is needed
        self._port = 0
        self._streams: dict[asyncio.Queue[bytes], Sight] = {}
        self.cycles: list[ShownCycle] = []
        self.scenes: list[Cluster] = []  # of the cycles
        self.submitted: list[str] = []
        self.past: list[UtilisationView] = []
        self.requests: list[str] = []
        self.story: tuple[StoryView, ...] = STORY
        self.age = 0.0
        """Seconds since the data was current, as answers say."""
        self._hangs = False
        self.writes = writes
        self._plan = plan  # None: decide
        self._sharing = sharing
        self._known: dict[tuple[str, Sight], bytes] = {}  # lists of this scene, so that measurements are of the page
        self._set(scene)

    def _set(self, scene: Cluster) -> None:
        snapshot = Snapshot(scene)
        plan = decide(snapshot, CONFIG, NOW) if self._plan is None else self._plan
        self.scene, self.tally = scene, Tally(snapshot, plan, NOW, sharing=self._sharing)
        self._known.clear()
        self.scenes.append(scene)
        jobs = {task.key: task.job for task in scene.tasks}
        self.cycles.append(ShownCycle(len(self.cycles) + 1, NOW + len(self.cycles), 0.012, plan, jobs))

    def __enter__(self) -> PageServer:
        ready: Future[int] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(ready)))
        self._thread.start()
        self.url = f"http://127.0.0.1:{ready.result(10)}/"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    async def _serve(self, ready: Future[int]) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        app = web.Application()
        app.router.add_route("*", "/api/v1/{path:.*}", self._api)
        app.router.add_get("/{path:.*}", self._file)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", self._port, reuse_address=True)
        await site.start()
        self._port = runner.addresses[0][1]  # the same one if it is started again
        ready.set_result(self._port)
        await self._stop.wait()
        await runner.cleanup()

    # -- for tests

    def change(self, scene: Cluster) -> None:
        """Another scene: the page hears of everything that differs."""

        def go() -> None:
            before = self.tally
            self._set(scene)
            for queue, sight in self._streams.items():
                queue.put_nowait(self._event(before, sight))

        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(go)
        else:
            self._set(scene)  # before it is started again

    def cut(self) -> None:
        """End all streams, as a restart does."""
        for queue in tuple(self._streams):
            self._loop.call_soon_threadsafe(queue.put_nowait, b"")

    def hang(self) -> None:
        """Keep all connections open and send nothing any more, as a process that is stopped does."""
        self._hangs = True

    def go_on(self) -> None:
        """Answer again; streams that hung have ended."""
        self._hangs = False
        self.cut()

    def _event(self, before: Tally | None, sight: Sight) -> bytes:
        after = self.tally
        event: dict[str, Any] = {"all": before is None, "jobs": [], "gone": [], "nodes": [], "goneNodes": []}
        if before is not None:
            key: Callable[[JobView], str] = lambda view: f"{view.namespace}/{view.name}"  # noqa: E731
            jobs, known = ({key(view): view for view in job_views(each, sight)} for each in (after, before))
            nodes, there = ({view.name: view for view in node_views(each, sight)} for each in (after, before))
            event["jobs"] = [view for name, view in jobs.items() if known.get(name) != view]
            event["gone"] = sorted(known.keys() - jobs.keys())
            event["nodes"] = [view for name, view in nodes.items() if there.get(name) != view]
            event["goneNodes"] = sorted(there.keys() - nodes.keys())
        return b"event: change\ndata: " + msgspec.json.encode({**self._stamp(), **event}) + b"\n\n"

    def _stamp(self) -> dict[str, float]:
        at = NOW + len(self.cycles)
        return {"asOf": at - self.age, "age": self.age, "decidedAt": at}

    # -- requests

    async def _file(self, request: web.Request) -> web.Response:
        files = files_of(self._page)
        file = files.get("/index.html" if request.path == "/" else request.path)
        if file is None:
            return web.Response(status=404)
        return web.Response(body=content(file, files), headers={**HEADERS, "Content-Type": KINDS[file.suffix]})

    async def _api(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(f"{request.method} {request.match_info['path']}")
        while self._hangs:
            await asyncio.sleep(0.1)
        sight = ALL
        if self._tokens is not None:
            found = self._tokens.get(request.headers.get("Authorization", "").removeprefix("Bearer "))
            if found is None:
                return _json({"error": "the API server does not accept the token"}, 401)
            sight = found
        if request.match_info["path"] == "stream":
            return await self._stream(request, sight)
        return await self._answer(request, sight)

    async def _answer(self, request: web.Request, sight: Sight) -> web.Response:
        tally, stamp = self.tally, self._stamp()
        match [request.method, *request.match_info["path"].split("/")]:
            case ["GET", "whoami"]:
                return _json({"user": "ann", "everything": sight.everything, "namespaces": [], "writes": self.writes})
            case ["GET", "cluster"]:
                return _json({**stamp, "cluster": cluster_view(tally, sight)})
            case ["GET", "utilisation"]:
                return _json({**stamp, "every": 60.0, "items": self.past})
            case ["GET", "nodes" | "jobs" | "queues" as kind]:
                known = self._known.get((request.path_qs, sight))
                if known is None:
                    known = msgspec.json.encode({**stamp, **_part(request, LISTS[kind](tally, sight))})
                    self._known[request.path_qs, sight] = known
                return web.Response(body=known, content_type="application/json")
            case ["GET", "jobs", namespace, name]:
                key = f"{namespace}/{name}"
                if key not in tally.snapshot.jobs.number or not sight.of(key):
                    return _json({"error": "no such job that you may see"}, 404)
                searched = request.query.get("unblock") != "false"
                answer = why(self.scene, CONFIG, NOW, key, lambda effort: searched)
                found = NEVER if key == "bob/probe" else FORECAST
                without = ("events",) if key == "bob/probe" else ()
                return _json({**stamp, "detail": job_detail(tally, answer, sight, self.story, found, without)})
            case ["GET", "recordings"]:
                return _json({**stamp, "items": []})
            case ["GET", "decisions"]:
                return _json({**stamp, "items": [decision_view(cycle, sight) for cycle in reversed(self.cycles)]})
            case ["POST", "what-if"]:
                try:
                    asked = await request.json()
                    edits = msgspec.convert(asked["edits"], list[WebEdit])
                    scene = self.scenes[asked["decision"] - 1] if "decision" in asked else self.scene
                    view = what_if_view(what_if(scene, CONFIG, NOW, edits), sight)
                    view = replace(view, forecasts=(SHIFT,), forecast=ShiftsView(rollouts=8, others=1))
                except (EditError, msgspec.ValidationError) as error:
                    return _json({"error": str(error), "field": "edits"}, 422)
                return _json({**stamp, "whatIf": view})
            case ["GET", "forecasts"]:
                return _json({**stamp, **FORECASTS})
            case ["POST", "jobs"]:
                self.submitted.append((await request.json())["manifests"])
                made = CreatedView(api_version="batch/v1", kind="Job", namespace="ann", name="new", forecast=FORECAST)
                return _json(CreatedAnswer(created=(made,)), 201)
        return _json({"error": "not found"}, 404)

    async def _stream(self, request: web.Request, sight: Sight) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._streams[queue] = sight
        try:
            await response.write(self._event(None, sight))
            while body := await self._next(queue):
                await response.write(body)
        except ConnectionError:
            pass  # the page is closed
        finally:
            del self._streams[queue]
        return response

    async def _next(self, queue: asyncio.Queue[bytes]) -> bytes:
        """What the stream sends next; a sign of life if nothing happens."""
        while True:
            try:
                return await asyncio.wait_for(queue.get(), PULSE)
            except TimeoutError:
                if not self._hangs:
                    return b"event: pulse\ndata: " + msgspec.json.encode(self._stamp()) + b"\n\n"


def _part(request: web.Request, views: Sequence[View]) -> dict[str, Any]:
    """A page of a list, as the query asks for; at most `MOST`, so that large lists need several."""
    offset, limit = int(request.query["offset"]), min(int(request.query["limit"]), MOST)
    end = offset + limit
    return {"items": views[offset:end], "total": len(views), "next": end if end < len(views) else None}


def _json(data: object, status: int = 200) -> web.Response:
    return web.Response(status=status, body=msgspec.json.encode(data), content_type="application/json")
