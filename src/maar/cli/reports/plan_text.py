"""A plan as text: started and evicted pods, waiting jobs with reasons, and the use of the cluster after the plan.

Readable without colour. Without a terminal nothing is wrapped, so that a reason stays on one line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from maar.cli.support.printing import apart, printed, table
from maar.kube.picture.expected import Skipped
from maar.model.plan import Plan
from maar.model.reasons import in_one_line
from maar.model.resources import Mask, in_words, total
from maar.model.snapshot import Snapshot
from maar.model.topology import pools
from maar.model.words import count as counted
from maar.shards.shard import Step

RULE = 100
"""Maximum length of the rule under a heading. Tuned by hand."""
FEW = 6
"""Maximum names in a row; the rest is counted. Tuned by hand."""


class Cycle(NamedTuple):
    """One cycle: the plan, and the cluster before and after it."""

    plan: Plan
    before: Snapshot
    after: Snapshot
    step: Step | None = None
    """For one of several shards: its step, with what it wants and lends."""


class WithoutPods(NamedTuple):
    """Jobs in the input that have no pods: planned as if they had this many, or skipped."""

    expected: dict[str, int]
    skipped: tuple[Skipped, ...]


def as_text(cycles: Iterable[Cycle], count: int, without_pods: WithoutPods | None = None, head: str = "") -> str:
    """The text of all `count` cycles, after the head and the jobs without pods."""
    return "\n".join(map(_tidy, printed(_all(cycles, count, without_pods, head)).split("\n")[:-1])) + "\n"


def _all(cycles: Iterable[Cycle], count: int, without_pods: WithoutPods | None, head: str) -> Iterator[RenderableType]:
    if head:
        yield Text(f"{head}\n")
    if without_pods is not None:
        yield from apart(_without_pods(without_pods))
    for i, cycle in enumerate(cycles, 1):
        if count > 1:
            yield Text(f"cycle {i} of {count}\n", style="bold")
        yield from apart(_parts(cycle))
        yield from usage(cycle.after)
        yield ""


def _tidy(line: str) -> str:
    """Shorten a rule that is wider than a screen."""
    return line[:RULE] if set(line) == {"─"} else line


def _parts(cycle: Cycle) -> Iterator[RenderableType]:
    plan = cycle.plan
    starts = _by_job(cycle, "starts", {bind.task: bind.node for bind in plan.bind})
    promised = _by_job(cycle, "waits for room", {nominate.task: nominate.node for nominate in plan.nominate})
    admitted = table(("admitted",), ((job,) for job in sorted(admit.job for admit in plan.admit)))
    pods = (starts, _evicted(cycle), promised)
    tables = (*pods, admitted, _ungated(cycle), _resized(plan), _locked(plan), *_shared(cycle.step))
    yield from (made for made in tables if made.row_count)
    if not plan.moves and not (cycle.step and (cycle.step.wants or cycle.step.lends)):
        yield Text("nothing to do now")
    if plan.waiting:
        yield _waiting(plan)


def _without_pods(found: WithoutPods) -> Iterator[RenderableType]:
    if found.expected:
        heads = ("no pods yet, planned as if created", "pods")
        yield table(heads, ((job, str(count)) for job, count in found.expected.items()))
    if found.skipped:
        yield table(("skipped", "kind", "why"), ((skip.job, skip.kind, skip.why) for skip in found.skipped))


def _by_job(cycle: Cycle, title: str, placed: dict[str, str]) -> Table:
    """One row per job: its number of pods, and their nodes."""
    jobs: dict[str, Counter[str]] = {}
    for task, node in sorted(placed.items()):
        jobs.setdefault(_job_of(cycle, task), Counter())[node] += 1
    rows = (
        (job, str(nodes.total()), _few(n if k == 1 else f"{n} x{k}" for n, k in sorted(nodes.items())))
        for job, nodes in sorted(jobs.items())
    )
    return table((title, "pods", "nodes"), rows)


def _evicted(cycle: Cycle) -> Table:
    victims: dict[tuple[str, str, str], list[str]] = {}
    for e in sorted(cycle.plan.evict, key=lambda e: e.task):
        victims.setdefault((_job_of(cycle, e.task), e.beneficiary, e.reason), []).append(e.task.partition("/")[2])
    rows = ((job, f"{len(pods)}: {_few(pods)}", whom, why) for (job, whom, why), pods in sorted(victims.items()))
    return table(("evicted", "pods", "for", "why"), rows)


def _ungated(cycle: Cycle) -> Table:
    pods: dict[str, list[str]] = {}
    for task in sorted(u.task for u in cycle.plan.ungate):
        pods.setdefault(_job_of(cycle, task), []).append(task.partition("/")[2])
    return table(
        ("gate removed", "pods"), ((job, f"{len(names)}: {_few(names)}") for job, names in sorted(pods.items()))
    )


def _resized(plan: Plan) -> Table:
    rows = [
        *((r.job, f"{r.before} -> {r.after}", r.why) for r in plan.resize),
        *((s.job, "suspended", s.why) for s in plan.suspend),
        *((r.job, f"resumed with {r.size}", r.why) for r in plan.resume),
    ]
    kept: dict[str, list[str]] = {}
    for reserve in plan.reserve:
        kept.setdefault(reserve.job, []).append(
            reserve.node if reserve.count == 1 else f"{reserve.node} x{reserve.count}"
        )
    changed = {job for job, _, _ in rows}
    rows += [(job, "are being made", "") for job in kept if job not in changed]
    heads = ("resized", "workers", "room kept on", "why")
    return table(heads, ((job, workers, _few(kept.get(job, ())), why) for job, workers, why in sorted(rows)))


def _locked(plan: Plan) -> Table:
    jobs = {lock.job for lock in plan.locks} | ({plan.elect.job} if plan.elect is not None else set())
    rows = (
        (job, _few(sorted(lock.node for lock in plan.locks if lock.job == job)) or "none yet") for job in sorted(jobs)
    )
    return table(("elected", "nodes locked for it"), rows)


def _shared(step: Step | None) -> Iterator[Table]:
    """What a shard asks of others, and gives them."""
    if step is None:
        return
    wants = (w for w in step.wants if w.elected is None)
    rows = ((w.job, _few(w.nodes), _few(v.task for v in w.victims) if w.asks else "") for w in wants)
    yield table(("wants, until it is bound", "nodes", "pods that must leave"), rows)
    takers: dict[int, list[str]] = {}
    for lend in step.lends:
        takers.setdefault(lend.to, []).append(lend.node)
    yield table(("lends", "nodes"), ((f"to shard {shard}", _few(nodes)) for shard, nodes in sorted(takers.items())))


def _waiting(plan: Plan) -> Table:
    waiting = sorted(plan.waiting, key=lambda w: w.job)
    return table(("waits", "why"), ((wait.job, in_one_line(wait.reasons)) for wait in waiting))


def usage(snapshot: Snapshot) -> list[str]:
    """The use of the nodes: one line for all, and one per pool if there are several."""
    nodes = snapshot.nodes
    lines = [_usage("all", snapshot, np.ones(len(nodes), dtype=np.bool_))]
    found = pools(nodes)
    rest = np.ones(len(nodes), dtype=np.bool_)
    for pool in found:
        lines.append(_usage(pool.name, snapshot, pool.rows(nodes)))
        rest &= ~pool.rows(nodes)
    if found and rest.any():
        lines.append(_usage("no accelerator", snapshot, rest))
    return lines if len(lines) > 2 else lines[:1]


def _usage(title: str, snapshot: Snapshot, rows: Mask) -> str:
    axes = snapshot.axes
    has = axes.amounts(total(snapshot.nodes.allocatable[rows]))
    used = axes.amounts(total(snapshot.used[rows]))
    amounts = [f"{name} {in_words(name, used.get(name, 0))}/{in_words(name, has[name])}" for name in has]
    count = int(rows.sum())
    nodes = counted(count, "node")
    return f"{title}: {nodes}" + (f", in use: {', '.join(amounts)}" if amounts else "")


def _job_of(cycle: Cycle, task: str) -> str:
    tasks = cycle.before.tasks
    return tasks.tasks[tasks.number[task]].job if task in tasks.number else task


def _few(names: Iterable[str]) -> str:
    listed = list(names)
    more = len(listed) - FEW
    return ", ".join(listed) if more <= 0 else f"{', '.join(listed[:FEW])} and {more} more"
