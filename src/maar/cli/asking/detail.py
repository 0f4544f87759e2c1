"""Everything about one job as text: what it needs, why it waits, its place, what would start it, and when it starts.

Without a terminal it has at most 80 columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table

from maar.cli.support.output import escaped
from maar.cli.support.printing import UNWRAPPED, apart, facts, lines, printed, table, when
from maar.model.words import count, number, span
from maar.sim.report.scales import duration
from maar.views.records import (
    AheadView,
    ChangeView,
    ForecastView,
    JobDetail,
    NeedsView,
    PlaceView,
    QualityView,
    SpeedView,
    UnblockView,
)
from maar.views.sight import ANOTHER

WIDTH = 80
MOST = 10
"""Jobs that are listed as being ahead; the rest is counted. Tuned by hand."""
RUNS, WAITS, NOMINATED, ADMITTED = "runs", "waits", "nominated", "admitted"
STATES = {
    WAITS: "waits",
    ADMITTED: "is admitted: its pods are to be created",
    NOMINATED: "waits for room that is being freed for it",
    "starts": "starts in the next cycle",
    RUNS: "runs",
}


def detail_text(found: JobDetail, now: float, wide: bool) -> str:
    return printed(apart(_parts(found, now, wide)), UNWRAPPED if wide else WIDTH)


def _name(found: JobDetail) -> str:
    return f"{found.job.namespace}/{found.job.name}"


def _parts(found: JobDetail, now: float, wide: bool) -> Iterator[RenderableType]:
    yield f"{_name(found)} {STATES[found.start]}"
    yield facts(_facts(found, now))
    if found.reasons:
        words = dict.fromkeys(reason.message for reason in found.reasons)
        yield Group("why", *(Padding(text, (0, 0, 0, 2)) for text in words))
    if found.place is not None:
        yield from _ahead(found.place, wide)
    if found.start == WAITS and (found.place is not None or found.unblock.changes or found.unblock.complete):
        yield from _unblocked(found.unblock)
    if wide and found.speeds:
        yield table(("workers", "speed-up", ""), ((str(s.workers), f"{s.speed:.2f}", _basis(s)) for s in found.speeds))
    if wide and found.story:
        yield table(("story", "", ""), ((when(one.at), one.what, one.words) for one in found.story))
    if wide and found.story_without:
        yield f"the story is not complete: {' and '.join(found.story_without)} cannot be read now"


def _basis(speed: SpeedView) -> str:
    return "measured" if speed.measured else "computed"


def _facts(found: JobDetail, now: float) -> Iterator[tuple[str, RenderableType]]:
    job, place = found.job, found.place
    where = f", place {number(place.number)} of {number(place.waiting)}" if place is not None else ""
    yield "queue", f"{job.queue or '-'}{where}"
    yield "priority", str(job.priority)
    yield "since", f"{when(job.since)}, {duration(max(now - job.since, 0.0))} ago"
    yield "needs", lines([*map(_needs, found.needs), *_declared(found), _minimum(found)])
    yield "has", ", ".join(f"{number(n)} {status}" for status, n in job.pods.items()) or "no pods"
    if found.forecast.known:
        yield "starts" if found.start != RUNS else "ends", _by(found.forecast, found.start == RUNS, now)


def _needs(needs: NeedsView) -> str:
    each = ", ".join(f"{amount} {name}" for name, amount in needs.requests.items())
    pods = count(needs.pods, "pod") + (f" `{needs.role}`" if needs.role else "")
    return f"{pods} with {each}{' each' if needs.pods > 1 else ''}" if each else pods


def _declared(found: JobDetail) -> list[str]:
    amounts = ", ".join(f"{amount} {name}" for name, amount in found.declared.items())
    return [f"declared for the minimum: {amounts}"] if amounts else []


def _minimum(found: JobDetail) -> str:
    elastic = found.job.elastic
    if elastic is None:
        there, least = sum(needs.pods for needs in found.needs), found.job.minimum
        missing = f", of which {count(least - there, 'does', 'do')} not exist yet" if there < least else ""
        return f"minimum: {count(least, 'pod')}{missing}"
    return f"workers: {span(number(elastic.min), number(elastic.max))}, now {number(elastic.now)}"


def _ahead(place: PlaceView, wide: bool) -> Iterator[RenderableType]:
    for title, ahead in (
        ("namespaces that go first", place.namespaces_ahead),
        ("queues that go first", place.queues_ahead),
        (f"jobs of queue {place.queue} that go first", place.ahead),
    ):
        if ahead:
            yield _table(title, ahead, len(ahead) if wide else MOST)


def _table(title: str, ahead: Sequence[AheadView], most: int) -> Table:
    made = table((escaped(title), "because", "by"), ((one.name or ANOTHER, one.words, one.by) for one in ahead[:most]))
    if len(ahead) > most:
        made.add_row(f"and {number(len(ahead) - most)} more")
    return made


def _unblocked(found: UnblockView) -> Iterator[RenderableType]:
    if found.changes:
        heads = ("each of these alone would start it", "and then")
        yield table(heads, ((change.words, _effect(change)) for change in found.changes))
    elif found.complete:
        yield "no change that Maar can try would start it"
    if not found.complete:
        what = "more changes may start it" if found.changes else "no change found that would start it"
        yield f"{what}: the search ended early (--seconds)"


def _effect(change: ChangeView) -> str:
    parts = []
    if change.start == NOMINATED:
        parts.append("it waits for room to be freed")
    if change.start == ADMITTED:
        parts.append("it is admitted")
    if change.evicts:
        parts.append(f"evicts or shrinks {_few(change.evicts)}")
    if change.delays:
        parts.append(f"{_few(change.delays)} does not start now")
    if change.others_lose:
        parts.append(count(change.others_lose, "job of others loses", "jobs of others lose") + " by it")
    return "; ".join(parts) or "it starts"


def _few(jobs: Sequence[str]) -> str:
    more = f" and {len(jobs) - 2} more" if len(jobs) > 2 else ""
    return ", ".join(f"`{job}`" for job in jobs[:2]) + more


def when_text(found: JobDetail, now: float) -> str:
    """When a job starts and ends, and why that is not known if it is not."""
    forecast = found.forecast
    head = f"{_name(found)} {STATES[found.start]}"
    if not forecast.known:
        return printed([head, Padding(forecast.words or "unknown", (0, 0, 0, 2))], WIDTH)
    return printed([head, facts(_times(forecast, found.start == RUNS, now))], WIDTH)


def _times(forecast: ForecastView, runs: bool, now: float) -> Iterator[tuple[str, str]]:
    if not runs:
        yield "starts", _by(forecast, False, now)
    yield "ends", _by(forecast, True, now)
    if forecast.within_hour is not None and not runs:
        yield "chance", f"{forecast.within_hour:.0%} to start within an hour"
    yield "from", _source(forecast)
    if forecast.trust is not None and not runs:
        yield "trust", _trust(forecast.trust)


def _source(forecast: ForecastView) -> str:
    of = f" of {number(forecast.wanted)}" if forecast.wanted > forecast.rollouts else ""
    ago = f", made {duration(forecast.age)} ago" if forecast.age is not None and forecast.age >= 1 else ""
    later = "with" if forecast.arrivals else "without"
    later += " jobs that come later"
    rollouts = "roll-out" if max(forecast.rollouts, forecast.wanted) == 1 else "roll-outs"
    return f"{number(forecast.rollouts)}{of} {rollouts} {later}{ago}"


def _trust(of: QualityView) -> str:
    """How good forecasts of such jobs were."""
    if of.coverage_p90 is None or of.judged == of.censored:
        return "none of its queue was judged yet"
    error = "" if of.median_error is None else f"; the median error of the first time was {duration(of.median_error)}"
    return f"{of.coverage_p90:.0%} of {count(of.judged, 'job')} of its queue started by the second time{error}"


def _by(forecast: ForecastView, end: bool, now: float) -> str:
    """Two times, with their chances."""
    half, most = (forecast.finish_p50, forecast.finish_p90) if end else (forecast.start_p50, forecast.start_p90)
    known = ((half, "50 %"), (most, "90 %"))
    said = [f"by {_clock(at, now)} with a chance of {chance}" for at, chance in known if at is not None]
    return "; ".join(said) or "unknown"


def _clock(at: float, now: float) -> str:
    moment = datetime.fromtimestamp(at, UTC)
    day = "" if at - now < 72000 else f"{moment:%Y-%m-%d} "
    return f"{day}{moment:%H:%M} UTC (in {duration(max(at - now, 0.0))})"
