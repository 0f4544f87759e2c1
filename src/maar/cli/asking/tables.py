"""Answers as tables for people who know `squeue` and `kubectl`: at most 80 columns, unless `wide` asks for more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from rich.console import JustifyMethod, RenderableType
from rich.table import Table

from maar.cli.support.printing import UNWRAPPED, printed
from maar.model.resources import PODS, devices_first, quantity
from maar.model.words import count, number, span
from maar.views.records import Amounts, JobView, NodeView, QueueView, State

WIDTH = 80
ORDER = (State.RUNNING, State.STARTING, State.WAITING, State.SUSPENDED, State.INVALID, State.FINISHED)
PLAIN = ("cpu", "memory", PODS, "ephemeral-storage")
"""Resources that are no devices."""
NUMBERS = {"PODS", "PLACE", "AGE", "WEIGHT", "PRIO", "USED", "DESERVED", "LIMIT", "ASKED", "RUNNING", "WAITING"}
"""Columns that are aligned to the right."""
UNITS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def jobs_text(jobs: Sequence[JobView], others: dict[str, int], now: float, wide: bool) -> str:
    ordered = sorted(jobs, key=lambda j: (ORDER.index(j.state), j.queue, j.created, j.namespace, j.name))
    if not ordered:
        return _lines(["no jobs", *_others(others)], wide)
    main = main_resource(j.requests for j in ordered)
    more = ("PLACE", "STARTS (P50 TO P90)") if wide and any(j.place or j.forecast for j in ordered) else ()
    prio = ("PRIO",) if wide else ()
    shards = ("SHARD",) if wide and any(j.shard is not None for j in ordered) else ()
    table = _table("JOB", "QUEUE", *shards, "STATE", *prio, "PODS", short(main), "AGE", *more, "NODES OR WHY")
    for job in ordered:
        table.add_row(
            f"{job.namespace}/{job.name}",
            job.queue,
            *((_shard(job.shard),) if shards else ()),
            job.state.value,
            *((str(job.priority),) if wide else ()),
            pods_of(job),
            quantity(main, job.requests[main]) if main in job.requests else "-",
            age(now - (job.since if job.state is not State.RUNNING else job.created)),
            *(("-" if job.place is None else str(job.place), starts(job, now)) if more else ()),
            _where(job, wide),
        )
    states = Counter(job.state for job in ordered)
    counts = ", ".join(f"{number(states[state])} {state.value}" for state in ORDER if states[state])
    return _lines([table, "", f"{count(len(ordered), 'job')}: {counts}", *_others(others)], wide)


def starts(job: JobView, now: float) -> str:
    """When a waiting job starts, in short: `in 5m to 2h`, `never` or `unknown`."""
    forecast = job.forecast
    if forecast is None or forecast.start_p50 is None:
        return "-" if forecast is None else forecast.verdict
    last = "?" if forecast.start_p90 is None else age(forecast.start_p90 - now)
    return f"in {span(age(forecast.start_p50 - now), last)}"


def queues_text(queues: Sequence[QueueView], resource: str, wide: bool) -> str:
    """The tree of queues. Without `wide`, the amounts of one resource."""
    amounts = [a for q in queues for a in (q.deserved, q.allocated, q.capability, q.waiting)]
    main = resource or main_resource(amounts)
    names = devices_first({n for a in amounts for n in a if n != PODS}) if wide else [main]
    table = _table("QUEUE", "STATE", "WEIGHT", *(("RESOURCE",) if wide else ()), "USED", "DESERVED", "LIMIT", "ASKED",
                   "RUNNING", "WAITING")  # fmt: skip
    for depth, queue in _tree(queues):
        waiting = sum(queue.jobs.get(s.value, 0) for s in (State.WAITING, State.STARTING, State.SUSPENDED))
        for i, name in enumerate(names or [main]):
            state = "invalid" if queue.broken else "open" if queue.open else "closed"
            head = (f"{'  ' * depth}{queue.name}", state, str(queue.weight)) if i == 0 else ("", "", "")
            table.add_row(
                *head,
                *((name,) if wide else ()),
                *(_amount(name, of) for of in (queue.allocated, queue.deserved, queue.capability, queue.waiting)),
                *((str(queue.jobs.get(State.RUNNING.value, 0)), str(waiting)) if i == 0 else ("", "")),
            )
    foot = [] if wide else ["", f"amounts of {main}; -o wide shows all resources"]
    broken = [f"{queue.name}: {queue.broken}" for queue in queues if queue.broken]
    return _lines([table, *foot, *broken], wide)


def nodes_text(nodes: Sequence[NodeView], wide: bool) -> str:
    if not nodes:
        return _lines(["no nodes"], wide)
    devices = sorted({n for node in nodes for n in node.allocatable if n not in PLAIN})
    shards = ("SHARD",) if wide and any(node.shard is not None for node in nodes) else ()
    table = _table(
        "NODE", *shards, "STATE", *(short(n) for n in devices[: None if wide else 2]), "CPU", "MEMORY", "PODS", "JOBS"
    )
    for node in sorted(nodes, key=lambda n: n.name):
        names = (*devices[: None if wide else 2], "cpu", "memory")
        pods = sum(j.pods for j in node.jobs) + node.others.pods + node.system.pods
        table.add_row(
            node.name,
            *((_shard(node.shard),) if shards else ()),
            node.state,
            *(_part(name, node) for name in names),
            str(pods),
            _jobs_on(node, wide),
        )
    states = Counter(node.state for node in nodes)
    counts = ", ".join(f"{number(n)} {state}" for state, n in sorted(states.items()))
    return _lines([table, "", f"{count(len(nodes), 'node')}: {counts}"], wide)


def _shard(number: int | None) -> str:
    return "-" if number is None else str(number)


def pods_of(job: JobView) -> str:
    """The pods that have a node, of all; for an elastic job its workers and their bounds."""
    if job.elastic is not None:
        now, low, high = job.elastic.now, job.elastic.min, job.elastic.max
        return f"{now} ({low}-{high})" if low < high else f"{now}/{high}"
    all_ = sum(count for status, count in job.pods.items() if status not in ("failed", "releasing"))
    return f"{job.pods.get('bound', 0) + job.pods.get('succeeded', 0)}/{max(all_, job.minimum)}"


def age(seconds: float) -> str:
    """A time as `kubectl` shows it.

    >>> age(5), age(90), age(7300), age(200000), age(-3)
    ('5s', '1m', '2h', '2d', '0s')
    """
    left = max(int(seconds), 0)
    size, unit = next(((size, unit) for size, unit in UNITS if left >= size), (1, "s"))
    return f"{left // size}{unit}"


def main_resource(amounts: Iterable[Amounts]) -> str:
    """The resource that people ask about: the device of which there is most, else CPU."""
    total = Counter[str]()
    for of in amounts:
        total.update({name: amount for name, amount in of.items() if name not in PLAIN and _is_device(name)})
    return min(total, key=lambda name: (-total[name], name)) if total else "cpu"


def short(resource: str) -> str:
    """The heading of a resource.

    >>> short("nvidia.com/gpu"), short("cpu")
    ('GPU', 'CPU')
    """
    return resource.rpartition("/")[2].upper()


def _is_device(name: str) -> bool:
    return "/" in name and not name.startswith("hugepages")


def _amount(name: str, of: Amounts) -> str:
    return quantity(name, of[name]) if name in of else "-"


def _part(name: str, node: NodeView) -> str:
    used, has = node.used.get(name, 0), node.allocatable.get(name, 0)
    if name == "memory":
        return f"{used / 2**30:.0f}/{has / 2**30:.0f}Gi"
    if name == "cpu":
        return f"{used / 1000:.3g}/{has / 1000:.3g}"
    return f"{used}/{has}"


def _where(job: JobView, wide: bool) -> str:
    if job.state is State.RUNNING and not job.why:
        names = ",".join(job.nodes)
        return names if wide or len(names) <= 20 else count(len(job.nodes), "node")
    if job.state is State.FINISHED:
        return ""
    return job.why if wide else job.condition


def _jobs_on(node: NodeView, wide: bool) -> str:
    names = [j.job for j in node.jobs]
    others = [f"{count(node.others.pods, 'pod')} of others"] if node.others.pods else []
    if not wide and len(names) > 2:
        names = [*names[:2], f"and {number(len(names) - 2)} more"]
    return ", ".join([*names, *others])


def _tree(queues: Sequence[QueueView]) -> Iterator[tuple[int, QueueView]]:
    """Parents before children, each with its depth; queues of a missing parent come first."""
    known = {queue.name for queue in queues}
    below: dict[str, list[QueueView]] = {}
    for queue in sorted(queues, key=lambda q: q.name):
        below.setdefault(queue.parent if queue.parent in known else "", []).append(queue)
    todo = [(0, queue) for queue in reversed(below.get("", []))]
    seen: set[str] = set()
    while todo:
        depth, queue = todo.pop()
        if queue.name not in seen:
            seen.add(queue.name)
            yield depth, queue
            todo += [(depth + 1, inner) for inner in reversed(below.get(queue.name, []))]


def _others(others: dict[str, int]) -> list[str]:
    return [f"and {count(sum(others.values()), 'job')} that you may not see"] if sum(others.values()) else []


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False)
    for column in columns:
        side: JustifyMethod = "right" if column in NUMBERS else "left"
        table.add_column(column, overflow="fold", justify=side, header_style="")
    return table


def _lines(parts: Sequence[RenderableType], wide: bool) -> str:
    return printed(parts, UNWRAPPED if wide else WIDTH)
