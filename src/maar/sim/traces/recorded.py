"""recorded: one's own week, from what `maar run --record` or shadow mode recorded of a live cluster.

A recording has a picture of the cluster for every cycle; `lives` follows each job through them. The recording's
beginning is the trace's: jobs that were there before count from then on. What a recording cannot know is said in
`Trace.notes`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from maar.model.tasks import Task
from maar.sim.trace import Trace, TraceJob
from maar.sim.traces.lives import Life
from maar.sim.traces.problems import TraceError
from maar.sim.traces.source import Cycle, Source

NAME = "recorded"
ABOUT = "what `maar run --record` wrote, also in shadow mode"


def recognises(source: Source) -> bool:
    """Whether whoever opened it found a recording."""
    return source.cycles is not None


def read(source: Source) -> Trace:
    """The jobs of a recording."""
    if source.cycles is None:
        raise TraceError([f"{source.name}: expected what `maar run --record` writes, got another file"])
    return of_cycles(source.cycles(), source.name)


def of_cycles(cycles: Iterable[Cycle], name: str) -> Trace:
    """The jobs that were seen in these cycles, in the order of their submission."""
    there: dict[str, Life] = {}
    over: list[Life] = []
    begin: float | None = None
    for cycle in cycles:
        begin = cycle.now if begin is None else begin
        over += _look(there, cycle, begin)
    # A name that was used again keeps its order: lives are over one after the other.
    found = sorted([*over, *there.values()], key=lambda life: (life.submit, life.job.key))
    any_gpus = any(life.gpus for life in found)
    told: Counter[str] = Counter()
    jobs: list[TraceJob] = []
    for life in found:
        if any_gpus and not life.gpus:
            told["asked for no GPUs: left out"] += 1
        elif not life.ran:
            told["never ran: left out"] += 1
        else:
            told["there before the recording began: counted from then on"] += life.was_there
            told["had not ended when the recording did: counted as far as seen or foretold"] += not life.ended
            jobs.append(life.trace_job())
    notes = tuple(f"{count} {'job' if count == 1 else 'jobs'} {what}" for what, count in sorted(told.items()) if count)
    if not jobs:
        raise TraceError([f"{name}: no jobs in it that ran" + "".join(f"; {note}" for note in notes)])
    return Trace(tuple(_told_apart(jobs)), name, notes)


def _look(there: dict[str, Life], cycle: Cycle, begin: float) -> list[Life]:
    """Take one cycle into account: who is there now, and whose lives are over."""
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
            continue  # only pods that belong to their nodes
        seen.add(job.key)
        life = there.get(job.key)
        if life is not None and not life.is_of(job, members):
            over.append(life)
            life = None
        if life is None:
            submit = max(job.created, begin) if job.created else now
            life = there[job.key] = Life(job, submit, was_there=now == begin)
        life.look(job, members, starting, now)
    over += [there.pop(key) for key in there.keys() - seen]
    for life in over:
        life.leave(now)
    return over


def _told_apart(jobs: Iterable[TraceJob]) -> Iterable[TraceJob]:
    """A name that was used again gets a number."""
    times: Counter[str] = Counter()
    for job in jobs:
        times[job.name] += 1
        again = times[job.name]
        yield job if again == 1 else msgspec.structs.replace(job, name=f"{job.name} ({again})")
