"""What `maar history` shows, as data: also its JSON."""

from __future__ import annotations

import msgspec

from maar.history.accounting import Account, accounts
from maar.history.estimates import Estimates
from maar.history.model import Key, Model
from maar.history.records import Event, Measurement, Record, time_of


class Size(msgspec.Struct, frozen=True):
    """A number of workers."""

    workers: int
    curve: float
    """The speed-up that is believed."""
    epochs: int = 0
    epoch_seconds: float | None = None
    """The median, if it was measured."""
    speedup: float | None = None
    """What was measured."""


class Category(msgspec.Struct, frozen=True):
    """Jobs of one category on one accelerator."""

    category: str
    accelerator: str
    measurements: int
    sizes: tuple[Size, ...]
    restart_seconds: float | None = None
    curve_from: str = ""
    """The accelerator whose curve is believed, where it is another."""


class Happened(msgspec.Struct, frozen=True):
    """One line of a job's life."""

    at: float
    kind: str
    before: int
    after: int
    how: str


class Job(msgspec.Struct, frozen=True):
    """One job."""

    job: str
    uid: str
    category: str
    accelerator: str
    state: str
    submitted: float | None
    first_start: float | None
    ended: float | None
    workers: int
    resizes: int
    suspensions: int
    gpu_hours: float
    epoch: int | None = None
    total_epochs: int | None = None
    remaining_seconds: float | None = None
    events: tuple[Happened, ...] = ()


class Everything(msgspec.Struct, frozen=True):
    """All jobs and all categories."""

    jobs: tuple[Job, ...]
    categories: tuple[Category, ...]

    def only(self, what: str) -> Everything:
        """What belongs to a job or a category."""
        jobs = tuple(j for j in self.jobs if what in (j.job, j.job.partition("/")[2], j.category))
        wanted = {what} | {j.category for j in jobs}
        return Everything(jobs, tuple(c for c in self.categories if c.category in wanted))

    def names(self) -> list[str]:
        """All that can be asked for."""
        return sorted({j.job for j in self.jobs} | {c.category for c in self.categories})


def view(events: list[Event], measurements: list[Measurement], now: float) -> Everything:
    """All that is known now."""
    model = Model()
    records: list[Record] = [*events, *measurements]
    for record in sorted(records, key=time_of):
        model.feed(record)
    estimates = Estimates(model)
    kept = accounts(events, now)
    told = {m.job: m for m in measurements}
    known = {account.job for account in kept}
    silent = {job: _account(m) for job, m in told.items() if job not in known}
    lives: dict[tuple[str, str], list[Event]] = {}
    for event in events:
        lives.setdefault((event.job, event.uid), []).append(event)
    jobs = [_job(account, lives, told, estimates) for account in (*kept, *silent.values())]
    return Everything(tuple(jobs), tuple(_category(key, model, estimates) for key in model.measured()))


def _account(m: Measurement) -> Account:
    """Of a job of which nothing but epochs is known: it was told of by others than the scheduler."""
    return Account(m.namespace, m.name, m.uid, m.category, m.accelerator, workers=m.workers)


def _job(
    account: Account,
    lives: dict[tuple[str, str], list[Event]],
    told: dict[str, Measurement],
    estimates: Estimates,
) -> Job:
    last = told.get(account.job)
    if last is not None and last.uid and account.uid and last.uid != account.uid:
        last = None  # another job of the same name
    runs = account.ended is None and last is not None
    return Job(
        job=account.job,
        uid=account.uid,
        category=account.category,
        accelerator=account.accelerator,
        state=account.state,
        submitted=account.submitted,
        first_start=account.first_start,
        ended=account.ended,
        workers=account.workers,
        resizes=account.resizes,
        suspensions=account.suspensions,
        gpu_hours=account.gpu_seconds / 3600,
        epoch=None if last is None else last.epoch,
        total_epochs=None if last is None else last.total_epochs,
        remaining_seconds=(
            estimates.remaining(account.job, account.category, account.accelerator, None) if runs else None
        ),
        events=tuple(
            Happened(e.at, str(e.kind), e.before, e.after, e.how)
            for e in sorted(lives.get((account.job, account.uid), ()), key=lambda e: (e.at, e.id))
        ),
    )


def _category(key: Key, model: Model, estimates: Estimates) -> Category:
    times, samples, points = model.epoch_times(key), model.samples(key), model.points().get(key, {})
    believed = model.points_for(key)
    sizes = sorted({*times, *believed} | _doublings(2 * max({*times, *believed}, default=0)))
    curve = estimates.curve(key).values(max(sizes, default=0))
    return Category(
        *key,
        measurements=model.count(key),
        sizes=tuple(Size(n, float(curve[n]), samples.get(n, 0), times.get(n), points.get(n)) for n in sizes),
        restart_seconds=model.restart(key),
        curve_from="" if believed is points or not believed else _source(key, model),
    )


def _source(key: Key, model: Model) -> str:
    believed = model.points_for(key)
    return next((k[1] for k, points in model.points().items() if points is believed and k != key), "")


def _doublings(most: int) -> set[int]:
    return {1 << i for i in range(most.bit_length()) if 1 << i <= most}
