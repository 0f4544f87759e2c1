"""Metrics of queues: what each queue's jobs have, from the last snapshot. Part of `maar.web.metrics`.

The text is written by hand: with 5,000 queues, prometheus_client takes 750 ms for it, in which the scheduler could do
nothing else, and this takes 25 ms.
"""

from __future__ import annotations

from maar.model.snapshot import Snapshot
from maar.session.state import queue_sums

ALLOCATED, SHARE = "maar_queue_allocated", "maar_queue_share"
HEADS = {
    ALLOCATED: "Resources allocated to the jobs of a queue",
    SHARE: "Largest share of any resource of all nodes that the jobs of a queue have",
}


def queue_text(snapshot: Snapshot | None) -> bytes:
    """The metrics of all queues in the format of Prometheus."""
    lines: dict[str, list[str]] = {
        name: [f"# HELP {name} {what}\n# TYPE {name} gauge\n"] for name, what in HEADS.items()
    }
    allocated, share = lines[ALLOCATED], lines[SHARE]
    if snapshot is not None:
        sums = queue_sums(snapshot, snapshot.jobs.allocated)
        totals = snapshot.nodes.allocatable.sum(axis=0).tolist()
        resources = [f'",resource="{escaped(resource)}"}} ' for resource in snapshot.axes.names]
        for queue, row in zip(snapshot.queues.queues, sums.tolist(), strict=True):
            name = escaped(queue.name)
            most = max((has / total for has, total in zip(row, totals, strict=True) if total), default=0.0)
            share.append(f'{SHARE}{{queue="{name}"}} {most}\n')
            head = f'{ALLOCATED}{{queue="{name}'
            allocated += [f"{head}{tail}{amount}\n" for tail, amount in zip(resources, row, strict=True)]
    return "".join(allocated + share).encode()


def escaped(label: str) -> str:
    """The value of a label, as the format wants it."""
    return label.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
