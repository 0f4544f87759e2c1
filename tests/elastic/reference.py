"""The rules of the algorithms in the simplest form: one job, one worker, one step at a time.

Slow and without numpy; the real algorithms are compared with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import inf

from maar.elastic.jobs import Jobs

Plan = dict[str, int]


@dataclass
class Job:
    name: str
    min: int
    max: int
    requested: int
    gpus: int
    priority: int
    submit: float
    remaining: float
    attained: float
    first_start: float
    waited: float
    ran: float
    speedup: list[float]


def rows(jobs: Jobs) -> list[Job]:
    """The rows of a table that can run."""
    found = [
        Job(
            name,
            int(jobs.min[i]),
            int(jobs.max[i]),
            int(jobs.requested[i]),
            int(jobs.gpus[i]),
            int(jobs.priority[i]),
            float(jobs.submit[i]),
            float(jobs.remaining[i]),
            float(jobs.attained[i]),
            float(jobs.first_start[i]),
            float(jobs.waited[i]),
            float(jobs.ran[i]),
            jobs.speedup(i).tolist(),
        )
        for i, name in enumerate(jobs.names)
    ]
    return [job for job in found if job.max >= job.min]


def ordered(jobs: Jobs, key: Callable[[Job], tuple[float, ...]] = lambda job: ()) -> list[Job]:
    return sorted(rows(jobs), key=lambda job: (-job.priority, *key(job), job.submit, job.name))


def pass_over(order: list[Job], gpus: int, size: Callable[[Job], int]) -> tuple[Plan, int]:
    plan = {}
    for job in order:
        fits = size(job) * job.gpus <= gpus
        plan[job.name] = size(job) if fits else 0
        gpus -= plan[job.name] * job.gpus
    return plan, gpus


def least(job: Job) -> int:
    return job.min


def asked(job: Job) -> int:
    return job.requested


def fifo(jobs: Jobs, gpus: int) -> Plan:
    return pass_over(ordered(jobs), gpus, least)[0]


def srjf(jobs: Jobs, gpus: int) -> Plan:
    return pass_over(ordered(jobs, lambda job: (job.remaining,)), gpus, least)[0]


def by_turns(order: list[Job], plan: Plan, gpus: int) -> Plan:
    grew = True
    while grew:
        grew = False
        for job in order:
            if 0 < plan[job.name] < job.max and job.gpus <= gpus:
                plan[job.name] += 1
                gpus -= job.gpus
                grew = True
    return plan


def elastic_fifo(jobs: Jobs, gpus: int) -> Plan:
    return by_turns(ordered(jobs), *pass_over(ordered(jobs), gpus, least))


def elastic_srjf(jobs: Jobs, gpus: int) -> Plan:
    order = ordered(jobs, lambda job: (job.remaining,))
    return by_turns(order, *pass_over(order, gpus, least))


def level(job: Job) -> int:
    if job.ran > 0 and job.waited >= 8 * job.ran:
        return 0
    return 1 if job.attained > 3600 else 0


def tiresias(jobs: Jobs, gpus: int) -> Plan:
    return pass_over(ordered(jobs, lambda job: (level(job), job.first_start)), gpus, asked)[0]


def elastic_tiresias(jobs: Jobs, gpus: int) -> Plan:
    order = ordered(jobs, lambda job: (level(job), job.first_start))
    plan, gpus = pass_over(order, gpus, asked)
    if sum(size == 0 for size in plan.values()) > 10:
        for job in order:
            if plan[job.name] and (level(job) > 0 or job.priority < order[0].priority):
                gpus += (plan[job.name] - job.min) * job.gpus
                plan[job.name] = job.min

    def gain(job: Job) -> float:
        return job.speedup[plan[job.name] + 1] - job.speedup[plan[job.name]]

    def step(job: Job) -> int:
        return 1 if plan[job.name] else job.min

    while True:
        able = [j for j in order if plan[j.name] < j.max and step(j) * j.gpus <= gpus and gain(j) > 0]
        if not able:
            return plan
        best = min(able, key=lambda job: (-job.priority, level(job), -gain(job), job.submit, job.name))
        gpus -= step(best) * best.gpus
        plan[best.name] += step(best)


def ffdl(jobs: Jobs, gpus: int) -> Plan:
    """By trying everything. Among equally good plans: the smallest size of the last job, then of the one before, ..."""
    plan = {job.name: 0 for job in rows(jobs)}
    first = ordered(jobs)[:gpus]
    for priority in sorted({job.priority for job in first}, reverse=True):
        stratum = [job for job in first if job.priority == priority]
        choices = [[0, *range(job.min, job.max + 1)] for job in stratum]
        best: tuple[Fraction, tuple[int, ...]] | None = None
        for sizes in product(*choices):
            if sum(size * job.gpus for size, job in zip(sizes, stratum, strict=True)) <= gpus:
                speed = sum((nearly(job.speedup[n]) for n, job in zip(sizes, stratum, strict=True)), Fraction())
                if best is None or (speed, [-n for n in sizes[::-1]]) > (best[0], [-n for n in best[1][::-1]]):
                    best = speed, sizes
        assert best is not None
        for size, job in zip(best[1], stratum, strict=True):
            plan[job.name] = size
            gpus -= size * job.gpus
    return plan


def nearly(speed: float) -> Fraction:
    """A speed rounded to the billionth, the unit of sums."""
    return Fraction(round(speed * 2**30), 2**30)


def afs_l(jobs: Jobs, gpus: int) -> Plan:
    order = ordered(jobs)
    plan = {job.name: 0 for job in order}
    while True:
        able = [j for j in order if plan[j.name] < j.max and (1 if plan[j.name] else j.min) * j.gpus <= gpus]
        if not able:
            return plan
        winner = able[0]
        for job in able[1:]:
            winner = afs_l_better(winner, job, plan)
        more = 1 if plan[winner.name] else winner.min
        gpus -= more * winner.gpus
        plan[winner.name] += more


def afs_l_better(first: Job, second: Job, plan: Plan) -> Job:
    """Which of two jobs gets the next GPU; `first` comes before `second`."""
    if first.priority != second.priority:
        return first if first.priority > second.priority else second
    if plan[first.name] == plan[second.name] == 0:
        return second if second.remaining < first.remaining else first

    def length(job: Job) -> float:
        return job.remaining / job.speedup[plan[job.name]] if plan[job.name] else inf

    a, b = (second, first) if length(second) < length(first) else (first, second)
    n_a, n_b = plan[a.name], plan[b.name]
    gain_a, gain_b = a.speedup[n_a + 1] - a.speedup[n_a], b.speedup[n_b + 1] - b.speedup[n_b]
    of_a = gain_a / a.speedup[n_a] if n_a else inf
    return b if gain_b / b.speedup[n_b + 1] > of_a else a


def srtf(jobs: Jobs, gpus: int) -> Plan:
    return pass_over(ordered(jobs, lambda job: (job.remaining / job.speedup[job.requested],)), gpus, asked)[0]


def srsf(jobs: Jobs, gpus: int) -> Plan:
    def service(job: Job) -> tuple[float]:
        return (job.remaining / job.speedup[job.requested] * (job.requested * job.gpus),)

    return pass_over(ordered(jobs, service), gpus, asked)[0]


def optimus(jobs: Jobs, gpus: int) -> Plan:
    order = ordered(jobs)
    plan, gpus = pass_over(order, gpus, least)

    def drop(job: Job) -> tuple[bool, float]:
        now, then = job.speedup[plan[job.name]], job.speedup[plan[job.name] + 1]
        if job.remaining == inf:
            return True, 1 / now - 1 / then
        return False, job.remaining / now - job.remaining / then

    while True:
        able = [j for j in order if 0 < plan[j.name] < j.max and j.gpus <= gpus and drop(j)[1] > 0]
        if not able:
            return plan
        best = max(able, key=drop)  # the first of equals
        plan[best.name] += 1
        gpus -= best.gpus


def max_min(jobs: Jobs, gpus: int) -> Plan:
    order = ordered(jobs)
    plan, gpus = pass_over(order, gpus, least)
    while True:
        able = [job for job in order if 0 < plan[job.name] < job.max and job.gpus <= gpus]
        if not able:
            return plan
        poorest = min(able, key=lambda job: plan[job.name] * job.gpus)  # the first of equals
        plan[poorest.name] += 1
        gpus -= poorest.gpus


REFERENCE: dict[str, Callable[[Jobs, int], Plan]] = {
    "fifo": fifo,
    "srjf": srjf,
    "elastic-fifo": elastic_fifo,
    "elastic-srjf": elastic_srjf,
    "tiresias": tiresias,
    "elastic-tiresias": elastic_tiresias,
    "ffdl": ffdl,
    "afs-l": afs_l,
    "srtf": srtf,
    "srsf": srsf,
    "optimus": optimus,
    "max-min": max_min,
}
