"""recorded: a recording of a live cluster, written by `maar run --record`, also in shadow mode.

A recording has the cluster of every cycle, and `lives` follows each job through them. The trace begins with the
recording: earlier jobs count from then on. `Trace.notes` names what the recording does not contain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from maar.model.tasks import Task
from maar.model.words import count as counted
from maar.sim.trace import Trace, TraceJob
from maar.sim.traces.lives import Life
from maar.sim.traces.problems import TraceError
from maar.sim.traces.source import RecordedCycle, Source

NAME = "recorded"


def recognises(source: Source) -> bool:
    return source.cycles is not None


def read(source: Source) -> Trace:
    if source.cycles is None:
        raise TraceError([f"{source.name}: expected a recording by `maar run --record`, got another file"])
    return of_cycles(source.cycles(), source.name)


def of_cycles(cycles: Iterable[RecordedCycle], name: str) -> Trace:
    """The jobs of these cycles, in the order of submission."""
    present: dict[str, Life] = {}
    over: list[Life] = []
    begin: float | None = None
    for cycle in cycles:
        begin = cycle.now if begin is None else begin
        over += _look(present, cycle, begin)
    # Jobs with the same name stay in order: one ends before the next begins.
    found = sorted([*over, *present.values()], key=lambda life: (life.submit, life.job.key))
    any_gpus = any(life.gpus for life in found)
    counts: Counter[str] = Counter()
    jobs: list[TraceJob] = []
    for life in found:
        if any_gpus and not life.gpus:
            counts["requested no GPUs: left out"] += 1
        elif not life.ran:
            counts["never ran: left out"] += 1
        else:
            counts["existed before the recording: counted from its beginning"] += life.was_there
            counts["had not ended when the recording ended: counted as far as recorded or estimated"] += not life.ended
            jobs.append(life.trace_job())
    notes = tuple(f"{counted(n, 'job')} {what}" for what, n in sorted(counts.items()) if n)
    if not jobs:
        raise TraceError([f"{name}: contains no job that ran" + "".join(f"; {note}" for note in notes)])
    return Trace(tuple(_with_unique_names(jobs)), name, notes)


def _look(present: dict[str, Life], cycle: RecordedCycle, begin: float) -> list[Life]:
    """Update the present jobs from one cycle, and return the jobs that are gone."""
    now = cycle.now
    starting = {bind.task for bind in cycle.plan.bind}
    tasks: dict[str, list[Task]] = {}
    for task in cycle.cluster.tasks:
        if not task.resident:
            tasks.setdefault(task.job, []).append(task)
    over, seen = [], set()
    for job in cycle.cluster.jobs:
        members = tasks.get(job.key, [])
        if not members and not job.declared:
            continue  # it has only pods that belong to their nodes
        seen.add(job.key)
        life = present.get(job.key)
        if life is not None and not life.is_of(job, members):
            over.append(life)
            life = None
        if life is None:
            submit = max(job.created, begin) if job.created else now
            life = present[job.key] = Life(job, submit, was_there=now == begin)
        life.look(job, members, starting, now)
    over += [present.pop(key) for key in present.keys() - seen]
    for life in over:
        life.leave(now)
    return over


def _with_unique_names(jobs: Iterable[TraceJob]) -> Iterable[TraceJob]:
    """The jobs, with a number after a name that was used before."""
    times: Counter[str] = Counter()
    for job in jobs:
        times[job.name] += 1
        again = times[job.name]
        yield job if again == 1 else msgspec.structs.replace(job, name=f"{job.name} ({again})")
