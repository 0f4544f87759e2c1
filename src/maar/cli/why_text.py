"""The answer of `maar why` as text: what the job needs, why it waits, its place, and what would start it.

Without a terminal it has at most 80 columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table

from maar.cli.output import escaped
from maar.cli.printing import apart, lines, printed, when
from maar.sim.report.scales import duration
from maar.whatif.place import Ahead, Place
from maar.whatif.started import Start
from maar.whatif.unblock import Change, Unblocked
from maar.whatif.why import Needs, Why

WIDTH = 80
MOST = 10
"""Jobs that are listed as being ahead; the rest is counted. Tuned by hand."""

STATES = {
    Start.WAITS: "waits",
    Start.ADMITTED: "is admitted: its pods are to be created",
    Start.NOMINATED: "waits for room that is being freed for it",
    Start.STARTS: "starts in the next cycle",
    Start.RUNS: "runs",
}


def as_text(found: Why, now: float) -> str:
    return printed(apart(_parts(found, now)), WIDTH)


def _parts(found: Why, now: float) -> Iterator[RenderableType]:
    yield f"{found.job} {STATES[found.start]}"
    yield _facts(found, now)
    if found.reasons:
        words = dict.fromkeys(reason.words for reason in found.reasons)
        yield Group("why", *(Padding(text, (0, 0, 0, 2)) for text in words))
    if found.place is not None:
        yield from _ahead(found.place)
    if not found.start.ok:
        yield from _unblocked(found.unblock)


def _facts(found: Why, now: float) -> Padding:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column()
    table.add_column(overflow="fold")
    place = found.place
    where = f", place {place.number} of {place.waiting}" if place is not None else ""
    table.add_row("queue", f"{found.queue or '-'}{where}")
    table.add_row("priority", str(found.priority))
    table.add_row("since", f"{when(found.since)}, {duration(max(now - found.since, 0.0))} ago")
    table.add_row("needs", lines([*map(_needs, found.needs), *_declared(found), _minimum(found)]))
    table.add_row("has", ", ".join(f"{count} {status}" for status, count in found.pods.items()) or "no pods")
    return Padding(table, (0, 0, 0, 2))


def _needs(needs: Needs) -> str:
    each = ", ".join(f"{amount} {name}" for name, amount in needs.requests.items())
    pods = f"{needs.pods} {'pod' if needs.pods == 1 else 'pods'}" + (f" `{needs.role}`" if needs.role else "")
    return f"{pods} with {each}{' each' if needs.pods > 1 else ''}" if each else pods


def _declared(found: Why) -> list[str]:
    amounts = ", ".join(f"{amount} {name}" for name, amount in found.declared.items())
    return [f"declared for the minimum: {amounts}"] if amounts else []


def _minimum(found: Why) -> str:
    if found.elastic is None:
        return f"minimum: {found.minimum}"
    return f"workers: {found.elastic.min} to {found.elastic.max}, now {found.elastic.now}"


def _ahead(place: Place) -> Iterator[RenderableType]:
    for title, ahead in (
        ("namespaces that go first", place.namespaces_ahead),
        ("queues that go first", place.queues_ahead),
        (f"jobs of queue {place.queue} that go first", place.ahead),
    ):
        if ahead:
            yield _table(title, ahead)


def _table(title: str, ahead: Sequence[Ahead]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in (escaped(title), "because", "by"):
        table.add_column(column, overflow="fold")
    for one in ahead[:MOST]:
        table.add_row(one.name, one.words, one.by)
    if len(ahead) > MOST:
        table.add_row(f"and {len(ahead) - MOST} more")
    return table


def _unblocked(found: Unblocked) -> Iterator[RenderableType]:
    if found.changes:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        table.add_column("each of these alone would start it", overflow="fold")
        table.add_column("and then", overflow="fold")
        for change in found.changes:
            table.add_row(change.words, _effect(change))
        yield table
    elif found.complete:
        yield "no change that Maar can try would start it"
    if not found.complete:
        what = "more changes may start it" if found.changes else "no change found that would start it"
        yield f"{what}: the search ended early (--seconds)"


def _effect(change: Change) -> str:
    parts = []
    if change.start is Start.NOMINATED:
        parts.append("it waits for room to be freed")
    if change.start is Start.ADMITTED:
        parts.append("it is admitted")
    if change.evicts:
        parts.append(f"evicts or shrinks {_few(change.evicts)}")
    if change.delays:
        parts.append(f"{_few(change.delays)} does not start now")
    return "; ".join(parts) or "it starts"


def _few(jobs: Sequence[str]) -> str:
    more = f" and {len(jobs) - 2} more" if len(jobs) > 2 else ""
    return ", ".join(f"`{job}`" for job in jobs[:2]) + more
