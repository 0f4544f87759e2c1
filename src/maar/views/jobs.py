"""Jobs as items of a list, and everything about one job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np

from maar.model.codes import BRAKED
from maar.model.jobs import Job, OnHold
from maar.model.reasons import Reason, in_one_line
from maar.model.tasks import Status
from maar.model.verdicts import verdict
from maar.model.words import count as counted
from maar.model.words import meant, nearest
from maar.views.records import (
    AheadView,
    BoundsView,
    ChangeView,
    ForecastView,
    JobDetail,
    JobView,
    NeedsView,
    PlaceView,
    PodView,
    ReasonView,
    SpeedView,
    State,
    StoryView,
    UnblockView,
)
from maar.views.sight import Sight
from maar.views.tally import Tally, by_status
from maar.whatif.place import Ahead, Place
from maar.whatif.started import Start
from maar.whatif.unblock import Change, Unblocked
from maar.whatif.why import Why

WAITS = (State.WAITING, State.STARTING, State.SUSPENDED, State.INVALID)
SHOWN_AHEAD = 50
"""Jobs ahead that are listed by name; their number is in the place. Tuned by hand."""


def visible_rows(tally: Tally, sight: Sight) -> list[int]:
    """The rows of the jobs that a viewer may see, without those of other schedulers."""
    rows: list[int] = np.flatnonzero(tally.seen(sight) & ~tally.is_foreign).tolist()
    return rows


class NoJob(Exception):
    """No job of this name, or several."""


def job_named(tally: Tally, name: str, sight: Sight) -> str:
    """The key of the job that `namespace/name` names: its own name, or that of its object; raises `NoJob`."""
    namespace, _, last = name.partition("/")
    if sight.of(name) and name in tally.snapshot.jobs.number:
        return name
    owned = (key for key, owner in tally.owners.items() if owner.name == last and key.partition("/")[0] == namespace)
    mine = sorted(owned) if sight.of(name) else []
    if not mine:
        raise NoJob(f"no such job that you may see{meant(nearest(name, _visible_names(tally, namespace, sight)))}")
    if len(mine) > 1:
        more = f" and {len(mine) - 5} more" if len(mine) > 5 else ""
        raise NoJob(f"this object stands for {counted(len(mine), 'job')}: name one of {', '.join(mine[:5])}{more}")
    return mine[0]


def _visible_names(tally: Tally, first: str, sight: Sight) -> list[str]:
    """The names of all jobs that a viewer may see, those of one namespace first."""
    jobs = tally.snapshot.jobs.jobs
    keys = (jobs[row].key for row in visible_rows(tally, sight))
    names = {f"{key.partition('/')[0]}/{o.name}" if (o := tally.owners.get(key)) is not None else key for key in keys}
    return sorted(names, key=lambda name: (name.partition("/")[0] != first, name))


def job_view(tally: Tally, row: int, sight: Sight) -> JobView:
    """One job of the snapshot; the caller has checked that the viewer may see it."""
    snapshot = tally.snapshot
    job = snapshot.jobs.jobs[row]
    first, last = snapshot.jobs.members.span(row)
    nodes = snapshot.tasks.node[first:last]
    namespace, _, name = job.key.partition("/")
    state = tally.state(row)
    reasons = tally.reasons(row) if state in WAITS or snapshot.jobs.waits[row] else ()
    elastic = job.elastic if job.is_elastic else None
    return JobView(
        namespace=namespace,
        name=name,
        queue=job.queue,
        state=state,
        priority=job.priority,
        created=job.created,
        since=job.waits_since,
        minimum=job.min_member,
        pods=by_status(snapshot.tasks.status[first:last]),
        requests=tally.amounts(tally.alive[row]),
        allocated=tally.amounts(snapshot.jobs.allocated[row]),
        elastic=None if elastic is None else BoundsView(min=elastic.min, max=elastic.max, now=elastic.now),
        owner=tally.owners.get(job.key),
        condition=verdict(reasons).condition if reasons else "",
        why=sight.said(in_one_line(reasons), tally.namespaces),
        held=job.on_hold is not OnHold.NO,
        nodes=tuple(snapshot.nodes.names[i] for i in np.unique(nodes[nodes >= 0]).tolist()),
        shard=None if tally.sharing is None else tally.sharing.owners.shard_of(job.queue),
    )


def job_views(tally: Tally, sight: Sight, rows: Iterable[int] | None = None) -> list[JobView]:
    """The jobs that a viewer may see, by key."""
    return [job_view(tally, row, sight) for row in (visible_rows(tally, sight) if rows is None else rows)]


def job_detail(
    tally: Tally,
    why: Why,
    sight: Sight,
    story: Iterable[StoryView] = (),
    forecast: ForecastView | None = None,
    story_without: tuple[str, ...] = (),
) -> JobDetail:
    """Everything about one job, from the answer of `maar.whatif.why`; the viewer may see the job."""
    snapshot = tally.snapshot
    row = snapshot.jobs.number[why.job]
    first, last = snapshot.jobs.members.span(row)
    wait = tally.waits.get(why.job)
    # The answer knows no brakes, which keep back what the plan would do for the job.
    braked = wait.reasons if wait is not None and any(reason.code == BRAKED.name for reason in wait.reasons) else ()
    return JobDetail(
        job=job_view(tally, row, sight),
        needs=tuple(NeedsView(pods=n.pods, requests=n.requests, role=n.role) for n in why.needs),
        declared=why.declared,
        start=Start.WAITS.value if braked else why.start.value,
        place=None if why.place is None else place_view(why.place, sight),
        reasons=reason_views((*tally.borrowing(row), *(braked or why.reasons)), sight, tally.namespaces),
        unblock=unblock_view(why.unblock, sight, tally.namespaces),
        pods=tuple(_pod(tally, t) for t in range(first, last) if not snapshot.tasks.unborn[t]),
        speeds=_speeds(snapshot.jobs.jobs[row]),
        story=tuple(story),
        story_without=story_without,
        forecast=forecast or ForecastView(words="unknown"),
    )


def _speeds(job: Job) -> tuple[SpeedView, ...]:
    """The learnt speed-up of an elastic job, for the sizes that it may have."""
    elastic = job.elastic
    if elastic is None or not elastic.speedup:
        return ()
    largest = elastic.measured or elastic.speedup[-1][0]
    return tuple(
        SpeedView(workers=workers, speed=round(speed, 3), measured=workers <= largest)
        for workers, speed in elastic.speedup
        if workers <= elastic.max
    )


def _pod(tally: Tally, number: int) -> PodView:
    snapshot = tally.snapshot
    task, node = snapshot.tasks.tasks[number], int(snapshot.tasks.node[number])
    return PodView(
        name=task.key.partition("/")[2],
        status=Status(int(snapshot.tasks.status[number])).name.lower(),
        node="" if node < 0 else snapshot.nodes.names[node],
        role=task.role,
        started=task.started,
        amounts=tally.amounts(snapshot.shapes.requests[int(snapshot.tasks.shape[number])]),
    )


def reason_views(
    reasons: Iterable[Reason], sight: Sight, namespaces: frozenset[str] = frozenset()
) -> tuple[ReasonView, ...]:
    return tuple(
        ReasonView(
            plugin=reason.plugin,
            code=reason.code if reason.never is None else reason.never.code,
            message=sight.said(reason.words, namespaces),
            never=reason.never is not None,
            resource=reason.resource,
            needs=reason.needs,
            has=reason.has,
            limit=reason.limit,
            nodes=_causes(reason.nodes, sight, namespaces),
            queue=reason.queue,
            since=reason.since,
        )
        for reason in reasons
    )


def _causes(nodes: dict[str, int], sight: Sight, namespaces: frozenset[str]) -> dict[str, int]:
    causes = Counter[str]()
    for cause, count in nodes.items():
        causes[sight.said(cause, namespaces)] += count
    return dict(causes)


def place_view(place: Place, sight: Sight) -> PlaceView:
    """A place; jobs and namespaces ahead that the viewer may not see have no name."""

    def shown(ahead: Iterable[Ahead], named: Callable[[str], str | None]) -> tuple[AheadView, ...]:
        return tuple(AheadView(name=named(a.name), by=a.by, words=a.words) for a in ahead)

    return PlaceView(
        queue=place.queue,
        number=place.number,
        waiting=place.waiting,
        ahead=shown(place.ahead[:SHOWN_AHEAD], sight.named),
        queues_ahead=shown(place.queues_ahead, str),
        namespaces_ahead=shown(place.namespaces_ahead[:SHOWN_AHEAD], lambda n: n if sight.namespace(n) else None),
    )


def unblock_view(found: Unblocked, sight: Sight, namespaces: frozenset[str] = frozenset()) -> UnblockView:
    return UnblockView(
        changes=tuple(_change(change, sight, namespaces) for change in found.changes),
        complete=found.complete,
        decisions=found.decisions,
    )


def _change(change: Change, sight: Sight, namespaces: frozenset[str]) -> ChangeView:
    evicts, delays = sight.only(change.evicts), sight.only(change.delays)
    return ChangeView(
        kind=change.kind,
        words=sight.said(change.words, namespaces),
        start=change.start.value,
        evicts=evicts,
        delays=delays,
        others_lose=len(change.evicts) + len(change.delays) - len(evicts) - len(delays),
    )
