"""Metrics of queues: what each queue's jobs have and deserve, and which wait. Part of `maar.web.metrics`.

Every label `queue` is the name of a Queue that exists, which tenants cannot create. It is empty for jobs that no queue
pays for, whatever queue they name.

The text is written by hand: with 5,000 queues, prometheus_client takes 750 ms for it, in which the scheduler could do
nothing else, and this takes 25 ms.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Mapping

from maar.model.snapshot import Snapshot
from maar.session.state import queue_sums

ALLOCATED, DESERVED, SHARE = "maar_queue_allocated", "maar_queue_deserved", "maar_queue_share"
WAITING = "maar_queue_waiting_jobs"
HEADS = {
    ALLOCATED: "Resources allocated to the jobs of a queue",
    DESERVED: "Resources that a queue deserves, if a plugin divides the cluster",
    SHARE: "Largest share of any resource of all nodes that the jobs of a queue have",
    WAITING: "Waiting jobs of a queue by their first reason",
}
NO_AMOUNTS: Mapping[str, Mapping[str, int]] = {}
NO_CODES: Mapping[str, str] = {}


def queue_of(snapshot: Snapshot, job: str) -> str:
    """The queue that pays for a job; empty if none does, or the job is gone."""
    row = snapshot.jobs.number.get(job)
    number = -1 if row is None else int(snapshot.jobs.queue[row])
    return snapshot.queues.queues[number].name if number >= 0 else ""


def queue_text(
    snapshot: Snapshot | None,
    is_own: Callable[[str], bool] = lambda queue: True,
    deserved: Mapping[str, Mapping[str, int]] = NO_AMOUNTS,
    codes: Mapping[str, str] = NO_CODES,
) -> bytes:
    """The metrics of queues in the format of Prometheus: of all, or of those that this process decides for.

    `deserved` is by queue and resource; `codes` has the first reason of each waiting job of this process.
    """
    lines: dict[str, list[str]] = {
        name: [f"# HELP {name} {what}\n# TYPE {name} gauge\n"] for name, what in HEADS.items()
    }
    allocated, due, share = lines[ALLOCATED], lines[DESERVED], lines[SHARE]
    if snapshot is not None:
        sums = queue_sums(snapshot, snapshot.jobs.allocated)
        totals = snapshot.nodes.allocatable.sum(axis=0).tolist()
        resources = [f'",resource="{escaped(resource)}"}} ' for resource in snapshot.axes.names]
        for queue, row in zip(snapshot.queues.queues, sums.tolist(), strict=True):
            if not is_own(queue.name):
                continue
            name = escaped(queue.name)
            most = max((has / total for has, total in zip(row, totals, strict=True) if total), default=0.0)
            share.append(f'{SHARE}{{queue="{name}"}} {most}\n')
            head = f'{ALLOCATED}{{queue="{name}'
            allocated += [f"{head}{tail}{amount}\n" for tail, amount in zip(resources, row, strict=True)]
            for resource, amount in deserved.get(queue.name, {}).items():
                due.append(f'{DESERVED}{{queue="{name}",resource="{escaped(resource)}"}} {amount}\n')
        waiting = Tally((queue_of(snapshot, job), code) for job, code in codes.items())
        lines[WAITING] += [
            f'{WAITING}{{queue="{escaped(name)}",reason="{code}"}} {count}\n'
            for (name, code), count in sorted(waiting.items())
        ]
    return "".join(line for of in lines.values() for line in of).encode()


def escaped(label: str) -> str:
    """The value of a label, as the format wants it."""
    return label.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
