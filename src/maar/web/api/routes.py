"""Everything that is served under /api/v1: one table, and a method for each row.

Views are made in threads, from a snapshot that does not change, so that the watches are read meanwhile. Nothing here
checks what a viewer may see: `maar.views` does, by the sight that it gets.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from maar.config.config import Config
from maar.controller.record import RecordingError
from maar.history.forecasts import ForecastLog
from maar.history.history import History
from maar.kube.client.api import Api
from maar.kube.client.errors import ApiError
from maar.kube.kinds import AnyKind
from maar.kube.kinds.cluster import PRIORITY_CLASSES
from maar.kube.submit.changes import Change
from maar.kube.submit.errors import SubmitError
from maar.kube.submit.service import Submitted
from maar.kube.wire.base import Object
from maar.model.snapshot import Cluster
from maar.views.answers import ShiftsView, WhatIfView
from maar.views.cluster import cluster_view
from maar.views.decisions import Cycle, decision_view
from maar.views.jobs import job_detail, job_view, job_views, visible_rows
from maar.views.nodes import node_state, node_views
from maar.views.queues import queue_views
from maar.views.records import ForecastView, JobDetail, JobView, OwnerView, State, View
from maar.views.sight import Sight
from maar.web.api.access import Access, User
from maar.web.api.answers import (
    ChangedAnswer,
    ChangeEvent,
    ClusterAnswer,
    CreatedAnswer,
    DecisionsAnswer,
    DeletedAnswer,
    ForecastsAnswer,
    JobAnswer,
    JobsAnswer,
    NodesAnswer,
    QueuesAnswer,
    RecordingsAnswer,
    UtilisationAnswer,
    WhatIfAnswer,
    WhoAmI,
)
from maar.web.api.asking import Question, answered_with, namespaces_of, with_manifests
from maar.web.api.errors import Refused
from maar.web.api.limits import Guard
from maar.web.api.mirror import POINT_EVERY, Changes, Mirror, Moment
from maar.web.api.queries import DecisionQuery, DetailQuery, JobQuery, KindQuery, NodeQuery, NoQuery, chosen_jobs
from maar.web.api.recordings import Recording, Recordings
from maar.web.api.story import story_of
from maar.web.api.writing import Submission, Token, Writer, refusal
from maar.web.forecasting.keeper import Keeper, Latest
from maar.web.forecasting.process import Failed
from maar.web.forecasting.view import (
    forecast_view,
    of_job,
    quality_view,
    trusted,
    with_forecast,
    with_forecasts,
    with_shifts,
)
from maar.whatif.edit import Scene
from maar.whatif.why import Why, why

logger = logging.getLogger("maar.web")

NO_FORECASTS = "this `maar web` makes no forecasts"
REMEMBERED = 64
"""Answers about single jobs that are kept: the search for changes is expensive."""
GOOD_FOR = 10.0
"""Seconds for which such an answer is given again."""
PULSE = 15.0
"""Seconds between two signs of life on a stream."""
AGAIN = 60.0
"""Seconds after which a stream checks its token again."""
PACE = 0.2
"""Minimum seconds between two events of a stream."""
READ = 2.0
"""Seconds for which one request reads on in a recording. Tuned by hand."""
PUT_TOGETHER = 15.0
"""Seconds for the whole cluster of one recorded cycle. Tuned by hand."""


class Asked(msgspec.Struct, frozen=True):
    """A request of a user."""

    user: User
    sight: Sight
    moment: Moment
    query: Any
    parts: dict[str, str]
    """The variable parts of the path."""
    body: Any = None
    token: Token | None = None
    """Of a user who may write; only for routes that write."""
    writes: bool = False
    """Whether this user could write here."""


class Route(msgspec.Struct, frozen=True):
    """A row of the table."""

    method: str
    path: str
    """Under the prefix; `{name}` is a variable part."""
    handle: Callable[[Api1, Asked], Awaitable[View]]
    answer: type[View]
    summary: str
    query: type[Any] = NoQuery
    body: type[Any] | None = None
    writes: bool = False
    """It writes to the cluster, with the caller's own token."""
    status: int = 200
    """Of a success."""


class Api1:
    """Answers questions about one cluster."""

    def __init__(
        self,
        mirror: Mirror,
        access: Access,
        guard: Guard,
        api: Api,
        history: History,
        writer: Writer | None = None,
        recordings: Recordings | None = None,
        keeper: Keeper | None = None,
    ) -> None:
        self.recordings = recordings or Recordings()
        self.mirror = mirror
        self.keeper = keeper
        self.access = access
        self.guard = guard
        self._api = api
        self._history = history
        self.writer = writer
        """`None`: writes are off."""
        self._views = asyncio.Semaphore(2)
        self._known: OrderedDict[tuple[str, bool, float, State], tuple[int, float, Why]] = OrderedDict()

    async def asked(
        self,
        user: User,
        query: Any,
        parts: dict[str, str],
        body: Any = None,
        token: Token | None = None,
        writes: bool = False,
    ) -> Asked:
        """The request, with what the user may see now."""
        moment = self.mirror.moment
        if moment is None:
            raise Refused(503, f"not ready: {self.mirror.not_ready()}", after=2)
        names = moment.tally.namespaces
        if namespace := parts.get("namespace"):
            names = names | {namespace}
        return Asked(user, await self.access.sight(user, names), moment, query, parts, body, token, writes)

    def _stamp(self, moment: Moment) -> dict[str, float]:
        as_of = self.mirror.as_of()
        return {
            "as_of": round(as_of, 3),
            "age": round(max(time.time() - as_of, 0.0), 3),
            "decided_at": round(moment.tally.now, 3),
        }

    async def _made(self, make: Callable[[], Any]) -> Any:
        async with self._views:
            return await asyncio.to_thread(make)

    # -- reading

    async def who(self, asked: Asked) -> WhoAmI:
        sight = asked.sight
        return WhoAmI(
            user=asked.user.username,
            everything=sight.everything,
            namespaces=sorted(sight.namespaces),
            writes=asked.writes,
        )

    async def cluster(self, asked: Asked) -> ClusterAnswer:
        view = await self._made(lambda: cluster_view(asked.moment.tally, asked.sight))
        return ClusterAnswer(**self._stamp(asked.moment), cluster=view)

    async def utilisation(self, asked: Asked) -> UtilisationAnswer:
        points = list(self.mirror.utilisation.points)
        return UtilisationAnswer(**self._stamp(asked.moment), every=POINT_EVERY, items=points)

    async def queues(self, asked: Asked) -> QueuesAnswer:
        views = await self._made(lambda: queue_views(asked.moment.tally, asked.sight))
        return QueuesAnswer(**self._stamp(asked.moment), items=views)

    async def nodes(self, asked: Asked) -> NodesAnswer:
        query: NodeQuery = asked.query
        tally = asked.moment.tally

        def make() -> tuple[list[Any], int]:
            rows = list(range(len(tally.snapshot.nodes)))
            if query.state:
                locked = {lock.node for lock in tally.snapshot.cluster.locks}
                wanted, nodes = set(query.state.split(",")), tally.snapshot.nodes.nodes
                rows = [row for row in rows if node_state(nodes[row], nodes[row].name in locked) in wanted]
            part = rows[query.offset : query.offset + query.limit]
            return node_views(tally, asked.sight, part), len(rows)

        items, total = await self._made(make)
        return NodesAnswer(**self._stamp(asked.moment), items=items, total=total, next=_next(query, total))

    async def jobs(self, asked: Asked) -> JobsAnswer:
        query: JobQuery = asked.query
        tally = asked.moment.tally

        def make() -> tuple[list[Any], int, dict[str, int]]:
            seen = visible_rows(tally, asked.sight)
            rows = chosen_jobs(tally, seen, query)
            hidden = tally.by_state(~tally.seen(asked.sight))
            part = rows[query.offset : query.offset + query.limit]
            views = with_forecasts(job_views(tally, asked.sight, part), self._latest)
            return views, len(rows), {state: n for state, n in hidden.items() if n}

        items, total, others = await self._made(make)
        return JobsAnswer(
            **self._stamp(asked.moment), items=items, total=total, next=_next(query, total), others=others
        )

    async def job(self, asked: Asked) -> JobAnswer:
        query: DetailQuery = asked.query
        key = f"{asked.parts['namespace']}/{asked.parts['name']}"
        tally, sight = asked.moment.tally, asked.sight
        row = tally.snapshot.jobs.number.get(key)
        if row is None or not sight.of(key):
            raise Refused(404, "no such job that you may see")
        found = await self._why(asked, key, query)
        job = tally.snapshot.jobs.jobs[row]
        story = await story_of(
            self._api, self._history, key, job.created, tally.owners.get(key), sight, tally.namespaces
        )

        def make() -> JobDetail:
            view = job_detail(tally, found, sight, story)
            forecast = self._forecast_of(view.job, sight, tally.namespaces)
            return replace(view, job=with_forecast(view.job, self._latest), forecast=forecast)

        return JobAnswer(**self._stamp(asked.moment), detail=await self._made(make))

    @property
    def _latest(self) -> Latest | None:
        return None if self.keeper is None else self.keeper.latest

    def _forecast_of(self, job: JobView, sight: Sight, namespaces: frozenset[str]) -> ForecastView:
        if self.keeper is None:
            return ForecastView(words=f"unknown: {NO_FORECASTS}")
        keeper = self.keeper
        problem = "the forecast failed" if keeper.counts.problem else ""
        return of_job(job, keeper.latest, keeper.verdicts, time.time(), sight, namespaces, problem)

    async def forecasts(self, asked: Asked) -> ForecastsAnswer:
        keeper, latest = self.keeper, self._latest
        return ForecastsAnswer(
            **self._stamp(asked.moment),
            made_at=None if latest is None else latest.made.at,
            rollouts=0 if latest is None else latest.made.rollouts,
            wanted=0 if latest is None else latest.made.wanted,
            seconds=0.0 if latest is None else round(latest.seconds, 3),
            finished_jobs=0 if latest is None else latest.samples,
            made=0 if keeper is None else keeper.counts.made,
            failed=0 if keeper is None else keeper.counts.failed,
            problem=NO_FORECASTS if keeper is None else keeper.counts.problem and "the last forecast failed",
            not_kept=NO_FORECASTS if keeper is None else _not_kept(keeper.log),
            quality=[] if keeper is None else [quality_view(one) for one in keeper.verdicts.judged],
        )

    async def _why(self, asked: Asked, key: str, query: DetailQuery) -> Why:
        """Everything about a job, computed once for all viewers while little time passes."""
        tally = asked.moment.tally
        asking = (key, query.unblock, query.budget, tally.state(tally.snapshot.jobs.number[key]))
        known = self._known.get(asking)
        if known is not None and (known[0] == asked.moment.number or time.monotonic() - known[1] < GOOD_FOR):
            return known[2]
        async with self.guard.computing(asked.user.username):
            cluster, config, now = self.mirror.cluster(), asked.moment.config, asked.moment.tally.now
            if not any(job.key == key for job in cluster.jobs):
                raise Refused(404, "no such job that you may see")
            ends = time.monotonic() + (query.budget if query.unblock else 0.0)
            found = await asyncio.to_thread(why, cluster, config, now, key, lambda: time.monotonic() < ends)
        self._known[asking] = (asked.moment.number, time.monotonic(), found)
        self._known.move_to_end(asking)
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return found

    async def decisions(self, asked: Asked) -> DecisionsAnswer:
        query: DecisionQuery = asked.query
        sight, about = asked.sight, None
        cycles: Iterable[Cycle] = self.mirror.cycles
        if query.recording:
            recording, sight = await self._recorded(asked, query.recording)
            cycles, about = tuple(recording.cycles), recording.view()
        if query.job and not sight.of(query.job):
            raise Refused(404, "no such job that you may see")
        found = [
            cycle
            for cycle in reversed(tuple(cycles))
            if (not query.job or query.job in cycle.jobs.values()) and (not query.before or cycle.number < query.before)
        ]
        part = found[: query.limit]
        items = [decision_view(cycle, sight, None if cycle.recording else self.mirror) for cycle in part]
        rest = part[-1].number if len(found) > len(part) else None
        return DecisionsAnswer(**self._stamp(asked.moment), items=items, next=rest, recording=about)

    async def recorded(self, asked: Asked) -> RecordingsAnswer:
        return RecordingsAnswer(**self._stamp(asked.moment), items=await self._made(self.recordings.listed))

    async def _recorded(self, asked: Asked, name: str) -> tuple[Recording, Sight]:
        """A recording, read on for a moment, and what the user may see of it with the rights that she has now."""
        async with self.guard.computing(asked.user.username):
            try:
                recording = await asyncio.to_thread(self.recordings.read, name, READ)
            except KeyError:
                raise Refused(404, "no such recording", "query.recording") from None
            except RecordingError as error:
                raise Refused(422, f"the recording cannot be read: {error}", "query.recording") from None
        return recording, await self.access.sight(asked.user, recording.namespaces | asked.moment.tally.namespaces)

    # -- what if

    async def what_if(self, asked: Asked) -> WhatIfAnswer:
        question: Question = asked.body
        moment = asked.moment
        async with self.guard.computing(asked.user.username):
            cluster, config, now = await self._asked_about(question, moment)
            names = moment.tally.namespaces
            if question.recording:
                names |= {job.namespace for job in cluster.jobs}
            sight = await self.access.sight(asked.user, names) if question.recording else asked.sight
            make = partial(answered_with, question, cluster, config, now, beside=self._beside())
            try:
                try:
                    view, after = await asyncio.to_thread(make, sight=sight)
                except Refused as refused:
                    # A namespace without jobs: whether she may see it has not been asked yet.
                    more = namespaces_of(question.manifests) - names if refused.status == 403 else None
                    if not more:
                        raise
                    sight = await self.access.sight(asked.user, names | more)
                    view, after = await asyncio.to_thread(make, sight=sight)
            except Refused:
                raise
            except Exception as error:
                # A combination of edits that no decision can be made for. The text may have names: it is not shown.
                logger.warning("a what-if question failed: %s", type(error).__name__)
                raise Refused(422, "no decision can be made with these edits", "edits") from None
        view = await self._with_shifts(view, replace(asked, sight=sight), Scene(cluster, config), after)
        return WhatIfAnswer(**self._stamp(moment), what_if=view)

    def _beside(self) -> list[tuple[AnyKind, Object]]:
        """Objects of the cluster that manifests refer to."""
        return [
            (PRIORITY_CLASSES, item) for item in self.mirror.scheduler.picture.objects.of(PRIORITY_CLASSES).values()
        ]

    async def _with_shifts(self, view: WhatIfView, asked: Asked, before: Scene, after: Scene) -> WhatIfView:
        """The answer with the forecast starts of waiting jobs, without and with the edits."""
        keeper, question = self.keeper, asked.body
        if keeper is None or not question.seconds:
            words = NO_FORECASTS if keeper is None else "none was asked for"
            return replace(view, forecast=ShiftsView(words=words))
        if question.decision is not None:
            return replace(view, forecast=ShiftsView(words="an earlier decision has no forecast"))
        try:
            async with self.guard.computing(asked.user.username, forecast=True):
                answer = await keeper.compare(before, after, time.time(), question.seconds)
        except Refused as refused:
            return replace(view, forecast=ShiftsView(words=refused.view.error))
        except Failed as error:
            logger.warning("the forecast of a what-if question failed: %s", error)
            return replace(view, forecast=ShiftsView(words="the forecast failed"))
        first, second = answer.forecasts
        was, then = keeper.shown(first, before.cluster.jobs), keeper.shown(second, after.cluster.jobs)
        return with_shifts(view, answer, was, then, asked.sight)

    async def _asked_about(self, question: Question, moment: Moment) -> tuple[Cluster, Config, float]:
        """The cluster, the configuration and the time that a question is about: now, or those of a decision."""
        if question.recording:
            if question.decision is None:
                raise Refused(422, "expected the number of a recorded cycle", "decision")
            try:
                return await asyncio.to_thread(
                    self.recordings.whole, question.recording, question.decision, PUT_TOGETHER
                )
            except KeyError:
                raise Refused(422, "no such recording", "recording") from None
            except RecordingError as error:
                raise Refused(422, f"the recorded cycle cannot be decided again: {error}", "decision") from None
        if question.decision is None:
            return self.mirror.cluster(), moment.config, moment.tally.now
        found = self.mirror.scene(question.decision)
        if found is None:
            raise Refused(422, "no such decision that is still known", "decision")
        scene, at = found
        return scene.cluster, scene.config, at

    # -- the training service

    async def submit(self, asked: Asked) -> CreatedAnswer:
        submission: Submission = asked.body
        assert self.writer is not None
        with self.guard.paying(asked.user.username):
            manifests = await self._made(partial(self.writer.read, submission))
        async with self._writing(asked) as (writer, client):
            before = Scene(self.mirror.cluster(), asked.moment.config)
            made = await writer.create(client, manifests, submission.dry_run)
        documents = [_called(m.document, one.name) for m, one in zip(manifests, made.created, strict=True)]
        names = asked.moment.tally.namespaces | {one.namespace for one in made.created}
        told = await self._forecast_of_new(documents, before, asked.user, names, submission.seconds)
        views = (replace(one, forecast=told(f"{one.namespace}/{one.name}")) for one in made.created)
        return replace(made, created=tuple(views))

    async def _forecast_of_new(
        self, documents: list[dict[str, Any]], before: Scene, user: User, names: frozenset[str], seconds: float
    ) -> Callable[[str], ForecastView | None]:
        """What to tell about the start of jobs that were created just now. The write is done: nothing is raised."""
        keeper = self.keeper
        if keeper is None or not seconds:
            return lambda job: None
        try:
            sight = await self.access.sight(user, names)
            async with self.guard.computing(user.username, forecast=True):
                now, beside = time.time(), self._beside()
                after = await asyncio.to_thread(with_manifests, before, documents, now, sight, beside)
                made = await keeper.forecast(after, now, seconds)
        except Refused as refused:
            words = f"unknown: {refused.view.error}"
            return lambda job: ForecastView(words=words)
        except Exception as error:  # it may be an object that Maar cannot plan before its controller has seen it
            logger.warning("the forecast of a new job failed: %s", type(error).__name__)
            return lambda job: ForecastView(words="unknown: the forecast failed")
        shown = keeper.shown(made, after.cluster.jobs)

        def told(job: str) -> ForecastView:
            one = shown.get(job)
            if one is None:
                return ForecastView(words="unknown: its parts start one by one")
            trust = trusted(keeper.verdicts.judged, one.queue, 0.0)
            return forecast_view(one, made, now, sight, names, trust)

        return told

    async def change(self, asked: Asked) -> ChangedAnswer:
        what: Change = asked.body
        if what == Change():
            raise Refused(422, "expected at least one change")
        async with self._writing(asked) as (writer, client):
            return await writer.change(client, await self._found(asked, writer, client), what)

    async def cancel(self, asked: Asked) -> DeletedAnswer:
        async with self._writing(asked) as (writer, client):
            return await writer.cancel(client, await self._found(asked, writer, client))

    @asynccontextmanager
    async def _writing(self, asked: Asked) -> AsyncIterator[tuple[Writer, Api]]:
        """What writes, and a client with the caller's own token. What the API server refuses becomes `Refused`."""
        assert self.writer is not None
        assert asked.token is not None
        try:
            with self.guard.writing(asked.user.username):
                async with asked.token.client(self._api, asked.user) as client:
                    yield self.writer, client
        except (ApiError, SubmitError) as error:
            raise refusal(error, asked.sight, asked.moment.tally.namespaces) from None

    async def _found(self, asked: Asked, writer: Writer, client: Api) -> list[Submitted]:
        namespace, name = asked.parts["namespace"], asked.parts["name"]
        return await writer.find(client, namespace, name, asked.query.kind, _owner(asked, f"{namespace}/{name}"))

    # -- the stream

    async def stream(self, user: User, again: Callable[[], Awaitable[User]]) -> AsyncGenerator[bytes, None]:
        """Server-sent events for one viewer: what changes, while she may see it. `again` checks her token again."""
        changes, happened = Changes(all=True), asyncio.Event()
        happened.set()

        def note(more: Changes) -> None:
            changes.add(more)
            happened.set()

        self.mirror.readers.append(note)
        checked = time.monotonic()
        try:
            while True:
                try:
                    async with asyncio.timeout(PULSE):
                        await happened.wait()
                except TimeoutError:
                    yield b": still here\n\n"
                if time.monotonic() - checked > AGAIN:
                    user, checked = await again(), time.monotonic()
                if not happened.is_set():
                    continue
                happened.clear()
                now, changes = changes, Changes()
                asked = await self.asked(user, None, {})
                event = await self._made(partial(self._event, asked, now))
                yield b"event: change\ndata: " + msgspec.json.encode(event) + b"\n\n"
                await asyncio.sleep(PACE)
        finally:
            self.mirror.readers.remove(note)

    def _event(self, asked: Asked, changes: Changes) -> ChangeEvent:
        tally, sight = asked.moment.tally, asked.sight
        jobs, nodes = tally.snapshot.jobs.number, tally.snapshot.nodes.row
        mine = sorted(sight.only(changes.jobs))
        here = sorted(changes.nodes)
        return ChangeEvent(
            **self._stamp(asked.moment),
            all=changes.all,
            jobs=tuple(
                with_forecast(job_view(tally, jobs[k], sight), self._latest)
                for k in mine
                if k in jobs and not tally.is_foreign[jobs[k]]
            ),
            gone=tuple(key for key in mine if key not in jobs),
            nodes=tuple(node_views(tally, sight, [nodes[name] for name in here if name in nodes])),
            gone_nodes=tuple(name for name in here if name not in nodes),
        )


def _owner(asked: Asked, job: str) -> OwnerView | None:
    """The object that stands for a job, if the caller may see it. One that stands for several jobs must be named."""
    owners = asked.moment.tally.owners
    owner = owners.get(job) if asked.sight.of(job) else None
    if owner is None:
        return None
    namespace = f"{asked.parts['namespace']}/"
    shared = sum(key.startswith(namespace) and other == owner for key, other in owners.items()) > 1
    return None if shared else owner


def _called(document: dict[str, Any], name: str) -> dict[str, Any]:
    """A manifest with the name that the API server gave it."""
    return {**document, "metadata": {**document["metadata"], "name": name}}


def _not_kept(log: ForecastLog) -> str:
    """Why forecasts are not kept, without the address of the database."""
    if not log.on:
        return "no history is configured"
    return "the history cannot be written" if log.problem else ""


def _next(query: Any, total: int) -> int | None:
    end = query.offset + query.limit
    return end if end < total else None


ROUTES: tuple[Route, ...] = (
    Route("GET", "/whoami", Api1.who, WhoAmI, "Who asks, and which namespaces she may see"),
    Route("GET", "/cluster", Api1.cluster, ClusterAnswer, "The whole cluster"),
    Route("GET", "/utilisation", Api1.utilisation, UtilisationAnswer, "GPUs in use over the last day, by queue"),
    Route("GET", "/queues", Api1.queues, QueuesAnswer, "All queues"),
    Route("GET", "/nodes", Api1.nodes, NodesAnswer, "Nodes, by name", NodeQuery),
    Route("GET", "/jobs", Api1.jobs, JobsAnswer, "The jobs that the user may see", JobQuery),
    Route(
        "GET",
        "/jobs/{namespace}/{name}",
        Api1.job,
        JobAnswer,
        "Everything about one job: needs, place, reasons, what would start it, story",
        DetailQuery,
    ),
    Route(
        "GET",
        "/decisions",
        Api1.decisions,
        DecisionsAnswer,
        "The last decisions of the shadow, and what really happened; or those of a recording",
        DecisionQuery,
    ),
    Route("GET", "/recordings", Api1.recorded, RecordingsAnswer, "Recordings of the scheduler that can be opened"),
    Route("GET", "/forecasts", Api1.forecasts, ForecastsAnswer, "How forecasts are made, and how good they were"),
    Route(
        "POST", "/what-if", Api1.what_if, WhatIfAnswer, "What edits would change; nothing is written", NoQuery, Question
    ),
    Route(
        "POST",
        "/jobs",
        Api1.submit,
        CreatedAnswer,
        "Check, complete and create jobs, with the caller's own token",
        NoQuery,
        Submission,
        writes=True,
        status=201,
    ),
    Route(
        "PATCH",
        "/jobs/{namespace}/{name}",
        Api1.change,
        ChangedAnswer,
        "Hold, release or change a job, with the caller's own token",
        KindQuery,
        Change,
        writes=True,
    ),
    Route(
        "DELETE",
        "/jobs/{namespace}/{name}",
        Api1.cancel,
        DeletedAnswer,
        "Cancel a job, with the caller's own token",
        KindQuery,
        writes=True,
    ),
)
STREAM = "/stream"
OPENAPI = "/openapi.json"
