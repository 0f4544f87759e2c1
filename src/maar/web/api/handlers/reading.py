"""What GET answers: the cluster, its queues, nodes and jobs, decisions, forecasts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from maar.controller.record import RecordingError
from maar.history.forecasts import ForecastLog
from maar.views.cluster import cluster_view
from maar.views.decisions import ShownCycle, decision_view
from maar.views.jobs import NoJob, job_detail, job_named, job_views, visible_rows
from maar.views.nodes import node_views
from maar.views.queues import queue_views
from maar.views.records import ForecastView, JobDetail, JobView
from maar.views.sight import Sight
from maar.views.tally import Tally
from maar.web.api.answers import (
    ClusterAnswer,
    DecisionsAnswer,
    ForecastsAnswer,
    JobAnswer,
    JobsAnswer,
    NodesAnswer,
    QueuesAnswer,
    RecordingsAnswer,
    UtilisationAnswer,
    WhoAmI,
)
from maar.web.api.desk import GOOD_FOR, NO_FORECASTS, REMEMBERED, Api1, UserRequest, in_thread
from maar.web.api.errors import Refused
from maar.web.api.queries import DecisionQuery, DetailQuery, JobQuery, Query, chosen_jobs, chosen_nodes, chosen_queues
from maar.web.api.recordings import Recording
from maar.web.api.story import story_of
from maar.web.forecasting.view import of_job, quality_view, with_forecast, with_forecasts
from maar.web.workers.tasks import WhyWaits
from maar.whatif.answer import Decided
from maar.whatif.started import PlanOutcome
from maar.whatif.why import Why, told

READ = 2.0
"""Seconds for which one request reads on in a recording. Tuned by hand."""


async def who(api: Api1, asked: UserRequest) -> WhoAmI:
    sight = asked.sight
    return WhoAmI(
        user=asked.user.username,
        everything=sight.everything,
        namespaces=sorted(sight.namespaces),
        writes=asked.writes,
    )


async def cluster(api: Api1, asked: UserRequest) -> ClusterAnswer:
    view = await api.made(lambda: cluster_view(asked.moment.tally, asked.sight))
    return ClusterAnswer(**api.stamp(asked.moment), cluster=view)


async def utilisation(api: Api1, asked: UserRequest) -> UtilisationAnswer:
    series = api.mirror.utilisation
    return UtilisationAnswer(**api.stamp(asked.moment), every=series.every, items=series.points())


async def queues(api: Api1, asked: UserRequest) -> QueuesAnswer:
    return QueuesAnswer(**await _listed(api, asked, chosen_queues, queue_views))


async def nodes(api: Api1, asked: UserRequest) -> NodesAnswer:
    return NodesAnswer(**await _listed(api, asked, chosen_nodes, node_views))


async def _listed(
    api: Api1, asked: UserRequest, chosen: Callable[[Tally, Any], list[int]], views: Callable[..., list[Any]]
) -> dict[str, Any]:
    """The fields of an answer with the wanted part of a list."""
    query, tally = asked.query, asked.moment.tally

    def make() -> tuple[list[Any], int]:
        rows = chosen(tally, query)
        return views(tally, asked.sight, _part(query, rows)), len(rows)

    items, total = await api.made(make)
    return {**api.stamp(asked.moment), "items": items, "total": total, "next": _next(query, total)}


async def jobs(api: Api1, asked: UserRequest) -> JobsAnswer:
    query: JobQuery = asked.query
    tally = asked.moment.tally

    def make() -> tuple[list[JobView], int, dict[str, int]]:
        rows = chosen_jobs(tally, visible_rows(tally, asked.sight), query)
        hidden = tally.by_state(~tally.seen(asked.sight))
        views = with_forecasts(job_views(tally, asked.sight, _part(query, rows)), api.latest)
        return views, len(rows), {state: n for state, n in hidden.items() if n}

    items, total, others = await api.made(make)
    return JobsAnswer(**api.stamp(asked.moment), items=items, total=total, next=_next(query, total), others=others)


async def job(api: Api1, asked: UserRequest) -> JobAnswer:
    query: DetailQuery = asked.query
    tally, sight = asked.moment.tally, asked.sight
    try:
        key = job_named(tally, f"{asked.parts['namespace']}/{asked.parts['name']}", sight)
    except NoJob as error:
        raise Refused(404, str(error)) from None
    found = await _why(api, asked, key, query)
    job = tally.snapshot.jobs.jobs[tally.snapshot.jobs.number[key]]
    story = await story_of(api.kube, api.history, job, tally.owners.get(key), sight, tally.namespaces)

    def make() -> JobDetail:
        view = job_detail(tally, found, sight, story.entries, story_without=story.without)
        forecast = _forecast_of(api, view.job, sight, tally.namespaces)
        return replace(view, job=with_forecast(view.job, api.latest), forecast=forecast)

    return JobAnswer(**api.stamp(asked.moment), detail=await api.made(make))


def _forecast_of(api: Api1, job: JobView, sight: Sight, namespaces: frozenset[str]) -> ForecastView:
    if api.keeper is None:
        return ForecastView(words=f"unknown: {NO_FORECASTS}")
    keeper = api.keeper
    problem = "the forecast failed" if keeper.counts.problem else ""
    return of_job(job, keeper.latest, keeper.verdicts, time.time(), sight, namespaces, problem)


async def forecasts(api: Api1, asked: UserRequest) -> ForecastsAnswer:
    keeper, latest = api.keeper, api.latest
    return ForecastsAnswer(
        **api.stamp(asked.moment),
        made_at=None if latest is None else latest.made.at,
        rollouts=0 if latest is None else latest.made.rollouts,
        wanted=0 if latest is None else latest.made.wanted,
        seconds=0.0 if latest is None else round(latest.seconds, 3),
        finished_jobs=0 if latest is None else latest.samples,
        arrivals=latest is not None and latest.made.arrivals,
        made=0 if keeper is None else keeper.counts.made,
        failed=0 if keeper is None else keeper.counts.failed,
        problem=NO_FORECASTS if keeper is None else keeper.counts.problem and "the last forecast failed",
        not_kept=NO_FORECASTS if keeper is None else _not_kept(keeper.log),
        quality=[] if keeper is None else [quality_view(one) for one in keeper.verdicts.judged],
    )


async def _why(api: Api1, asked: UserRequest, key: str, query: DetailQuery) -> Why:
    """Everything about a job, computed once for all viewers while little time passes."""
    tally = asked.moment.tally
    asking = (key, query.unblock, query.budget, tally.state(tally.snapshot.jobs.number[key]))
    known = api.known.get(asking)
    if known is not None and (known[0] == asked.moment.number or time.monotonic() - known[1] < GOOD_FOR):
        return known[2]
    found: Why
    _, plan = api.known_plan(asked.moment)
    if plan is not None and not query.unblock:
        snapshot, config = tally.snapshot, asked.moment.config
        decided = Decided(snapshot, plan, PlanOutcome(snapshot, config, plan))
        found = await api.made(lambda: told(decided, config, tally.now, key))
    else:
        async with api.guard.computing(asked.user.username) as bill:
            scene, plans = api.about(asked.moment)
            if not any(job.key == key for job in scene.cluster.jobs):
                raise Refused(404, "no such job that you may see")
            task = WhyWaits(key, tally.now, query.budget if query.unblock else 0.0)
            found, bill.seconds = await api.pool.ask(task, scene, plans)
    api.known[asking] = (asked.moment.number, time.monotonic(), found)
    api.known.move_to_end(asking)
    while len(api.known) > REMEMBERED:
        api.known.popitem(last=False)
    return found


async def decisions(api: Api1, asked: UserRequest) -> DecisionsAnswer:
    query: DecisionQuery = asked.query
    sight, about = asked.sight, None
    cycles: Iterable[ShownCycle] = api.mirror.cycles
    if query.recording:
        recording, sight = await _recorded(api, asked, query.recording)
        cycles, about = tuple(recording.cycles), recording.view()
    if query.job and not sight.of(query.job):
        raise Refused(404, "no such job that you may see")
    found = [
        cycle
        for cycle in reversed(tuple(cycles))
        if (not query.job or query.job in cycle.jobs.values()) and (not query.before or cycle.number < query.before)
    ]
    part = found[: query.limit]
    items = [decision_view(cycle, sight, None if cycle.recording else api.mirror) for cycle in part]
    rest = part[-1].number if len(found) > len(part) else None
    return DecisionsAnswer(**api.stamp(asked.moment), items=items, next=rest, recording=about)


async def recorded(api: Api1, asked: UserRequest) -> RecordingsAnswer:
    return RecordingsAnswer(**api.stamp(asked.moment), items=await api.made(api.recordings.listed))


async def _recorded(api: Api1, asked: UserRequest, name: str) -> tuple[Recording, Sight]:
    """A recording, read on for a moment, and what the user may see of it with the rights that she has now."""
    async with api.guard.computing(asked.user.username):
        try:
            recording = await in_thread(lambda wanted: api.recordings.read(name, READ, wanted))
        except KeyError:
            raise Refused(404, "no such recording", "query.recording") from None
        except RecordingError as error:
            raise Refused(422, f"the recording cannot be read: {error}", "query.recording") from None
    return recording, await api.access.sight(asked.user, recording.namespaces | asked.moment.tally.namespaces)


def _not_kept(log: ForecastLog) -> str:
    """Why forecasts are not kept, without the address of the database."""
    if not log.on:
        return "no history is configured"
    return "the history cannot be written" if log.problem else ""


def _part(query: Query, rows: list[int]) -> list[int]:
    return rows[query.offset : query.offset + query.limit]


def _next(query: Query, total: int) -> int | None:
    end = query.offset + query.limit
    return end if end < total else None
