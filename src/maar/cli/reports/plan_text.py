"""A plan as text: started and evicted pods, waiting jobs with reasons, and the use of the cluster after the plan.

Readable without colour. Without a terminal nothing is wrapped, so that a reason stays on one line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from maar.cli.support.printing import apart, printed
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
    """Of one of several shards: also what it wants and lends."""


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
    pods = (_bound(cycle), _evicted(cycle), _nominated(cycle))
    tables = (*pods, _admitted(plan), _ungated(cycle), _resized(plan), _locked(plan), *_shared(cycle.step))
    for table in tables:
        if table.row_count:
            yield table
    if not plan.moves and not (cycle.step and (cycle.step.wants or cycle.step.lends)):
        yield Text("nothing to do now")
    if plan.waiting:
        yield _waiting(plan)


def _without_pods(found: WithoutPods) -> Iterator[RenderableType]:
    expected, skipped = _table("no pods yet, planned as if created", "pods"), _table("skipped", "kind", "why")
    for job, count in found.expected.items():
        expected.add_row(job, str(count))
    for skip in found.skipped:
        skipped.add_row(skip.job, skip.kind, skip.why)
    yield from (table for table in (expected, skipped) if table.row_count)


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _bound(cycle: Cycle) -> Table:
    return _by_job(cycle, "starts", {b.task: b.node for b in cycle.plan.bind})


def _nominated(cycle: Cycle) -> Table:
    return _by_job(cycle, "waits for room", {n.task: n.node for n in cycle.plan.nominate})


def _by_job(cycle: Cycle, title: str, placed: dict[str, str]) -> Table:
    """One row per job: its number of pods, and their nodes."""
    table = _table(title, "pods", "nodes")
    jobs: dict[str, Counter[str]] = {}
    for task, node in sorted(placed.items()):
        jobs.setdefault(_job_of(cycle, task), Counter())[node] += 1
    for job, nodes in sorted(jobs.items()):
        table.add_row(job, str(nodes.total()), _few([n if k == 1 else f"{n} x{k}" for n, k in sorted(nodes.items())]))
    return table


def _evicted(cycle: Cycle) -> Table:
    table = _table("evicted", "pods", "for", "why")
    victims: dict[tuple[str, str, str], list[str]] = {}
    for e in sorted(cycle.plan.evict, key=lambda e: e.task):
        victims.setdefault((_job_of(cycle, e.task), e.beneficiary, e.reason), []).append(e.task.partition("/")[2])
    for (job, beneficiary, reason), pods in sorted(victims.items()):
        table.add_row(job, f"{len(pods)}: {_few(pods)}", beneficiary, reason)
    return table


def _admitted(plan: Plan) -> Table:
    table = _table("admitted")
    for admit in sorted(plan.admit, key=lambda a: a.job):
        table.add_row(admit.job)
    return table


def _ungated(cycle: Cycle) -> Table:
    table = _table("gate removed", "pods")
    pods: dict[str, list[str]] = {}
    for task in sorted(u.task for u in cycle.plan.ungate):
        pods.setdefault(_job_of(cycle, task), []).append(task.partition("/")[2])
    for job, names in sorted(pods.items()):
        table.add_row(job, f"{len(names)}: {_few(names)}")
    return table


def _resized(plan: Plan) -> Table:
    table = _table("resized", "workers", "room kept on", "why")
    rows = [
        *((r.job, f"{r.before} -> {r.after}", r.why) for r in plan.resize),
        *((s.job, "suspended", s.why) for s in plan.suspend),
        *((r.job, f"resumed with {r.size}", r.why) for r in plan.resume),
    ]
    kept: dict[str, list[str]] = {}
    for hold in plan.hold:
        kept.setdefault(hold.job, []).append(hold.node if hold.count == 1 else f"{hold.node} x{hold.count}")
    changed = {job for job, _, _ in rows}
    rows += [(job, "are being made", "") for job in kept if job not in changed]
    for job, workers, why in sorted(rows):
        table.add_row(job, workers, _few(kept.get(job, ())), why)
    return table


def _locked(plan: Plan) -> Table:
    table = _table("elected", "nodes locked for it")
    jobs = {lock.job for lock in plan.locks} | ({plan.elect.job} if plan.elect is not None else set())
    for job in sorted(jobs):
        table.add_row(job, _few(sorted(lock.node for lock in plan.locks if lock.job == job)) or "none yet")
    return table


def _shared(step: Step | None) -> Iterator[Table]:
    """What a shard asks of others, and gives them."""
    wants, lends = _table("wants, until it is bound", "nodes", "pods that must leave"), _table("lends", "nodes")
    for want in (w for w in step.wants if w.elected is None) if step is not None else ():
        wants.add_row(want.job, _few(want.nodes), _few([v.task for v in want.victims]) if want.asks else "")
    takers: dict[int, list[str]] = {}
    for lend in step.lends if step is not None else ():
        takers.setdefault(lend.to, []).append(lend.node)
    for shard, nodes in sorted(takers.items()):
        lends.add_row(f"to shard {shard}", _few(nodes))
    yield from (wants, lends)


def _waiting(plan: Plan) -> Table:
    table = _table("waits", "why")
    for wait in sorted(plan.waiting, key=lambda w: w.job):
        table.add_row(wait.job, in_one_line(wait.reasons))
    return table


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
