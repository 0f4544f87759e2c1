"""The output of `maar history` as data, and its JSON."""

from __future__ import annotations

import msgspec

from maar.elastic.steps import Steps
from maar.history.accounting import Account, accounts
from maar.history.estimates import Estimates
from maar.history.model import Key, Model
from maar.history.records import Event, Measurement, Record, time_of


class Size(msgspec.Struct, frozen=True):
    """Measurements of one number of workers."""

    workers: int
    curve: float
    """The speed-up of the fitted curve."""
    epochs: int = 0
    epoch_seconds: float | None = None
    """The median, if measured."""
    speedup: float | None = None
    """The measured speed-up."""


class Fit(msgspec.Struct, frozen=True):
    """Step times fitted to the epochs of a category."""

    error: float
    """Typical relative error."""
    epochs: int
    settings: int
    """Different numbers of workers, nodes and samples behind it."""
    compute: float
    inside_nodes: float
    between_nodes: float
    """Parts of a step at the largest measured size."""
    why_not: str = ""
    """Why measured points are used instead."""


class Category(msgspec.Struct, frozen=True):
    """Jobs of one category on one accelerator."""

    category: str
    accelerator: str
    measurements: int
    sizes: tuple[Size, ...]
    restart_seconds: float | None = None
    curve_from: str = ""
    """The accelerator whose curve is used, if it is another one."""
    basis: str = ""
    """What the curve is made from."""
    fit: Fit | None = None
    noise_scale: float | None = None
    """The median of the newest reports, in samples."""


class Happened(msgspec.Struct, frozen=True):
    """One event of a job."""

    at: float
    kind: str
    before: int
    after: int
    how: str


class Job(msgspec.Struct, frozen=True):
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
    evictions: int
    waited_seconds: float
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
        jobs = tuple(j for j in self.jobs if what in (j.job, j.job.partition("/")[2], j.category))
        wanted = {what} | {j.category for j in jobs}
        return Everything(jobs, tuple(c for c in self.categories if c.category in wanted))

    def names(self) -> list[str]:
        return sorted({j.job for j in self.jobs} | {c.category for c in self.categories})


def view(events: list[Event], measurements: list[Measurement], now: float) -> Everything:
    """Everything that is recorded, at the time `now`."""
    model = Model()
    records: list[Record] = [*events, *measurements]
    for record in sorted(records, key=time_of):
        model.feed(record)
    estimates = Estimates(model)
    kept = accounts(events, now)
    measured = {m.job: m for m in measurements}
    known = {account.job for account in kept}
    unaccounted = {job: _account(m) for job, m in measured.items() if job not in known}
    lives: dict[tuple[str, str], list[Event]] = {}
    for event in events:
        lives.setdefault((event.job, event.uid), []).append(event)
    jobs = [_job(account, lives, measured, estimates) for account in (*kept, *unaccounted.values())]
    return Everything(tuple(jobs), tuple(_category(key, model, estimates) for key in model.measured()))


def _account(m: Measurement) -> Account:
    """The account of a job with epochs only: another program than the scheduler reported it."""
    return Account(m.namespace, m.name, m.uid, m.category, m.accelerator, workers=m.workers)


def _job(
    account: Account,
    lives: dict[tuple[str, str], list[Event]],
    measured: dict[str, Measurement],
    estimates: Estimates,
) -> Job:
    last = measured.get(account.job)
    if last is not None and last.uid and account.uid and last.uid != account.uid:
        last = None  # another job with the same name
    runs = account.ended is None and last is not None
    return Job(
        **{name: getattr(account, name) for name in Job.__struct_fields__ if hasattr(account, name)},
        waited_seconds=account.waited,
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
    speeds, source = estimates.speeds(key), model.source(key)
    sizes = sorted({*times, *model.points_for(key)} | _doublings(2 * max(speeds.measured, *times, 0)))
    curve = estimates.curve(key).values(max(sizes, default=0))
    return Category(
        *key,
        measurements=model.count(key),
        sizes=tuple(Size(n, float(curve[n]), samples.get(n, 0), times.get(n), points.get(n)) for n in sizes),
        restart_seconds=model.restart(key),
        curve_from="" if source == key else source[1],
        basis=str(speeds.basis),
        fit=_fit(model.steps(source)),
        noise_scale=model.noise(key[0]),
    )


def _fit(steps: Steps | None) -> Fit | None:
    if steps is None:
        return None
    return Fit(steps.error, steps.epochs, steps.settings, *steps.shares(), why_not=steps.why_not)


def _doublings(most: int) -> set[int]:
    return {1 << i for i in range(most.bit_length()) if 1 << i <= most}
