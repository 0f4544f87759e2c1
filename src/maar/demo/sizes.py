"""Elastic jobs as watches of the API server show them: their sizes, the changes, and bars to print.

Like the ledger, this does not depend on the scheduler or the story: it reads the size and the bounds in each object
after every write.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from maar.demo.picture import GPU
from maar.model.words import count

Obj = dict[str, Any]

ROLES = {"pytorchjobs": "pytorchReplicaSpecs", "mpijobs": "mpiReplicaSpecs"}
"""The resources of elastic jobs, and the field that describes their pods."""
POOL = "maar.dev/accelerator"
"""The label that assigns a node to a pool, and by which a job selects one."""
ENDS = ("Succeeded", "Failed")


class Breather(NamedTuple):
    """The state of an elastic job."""

    name: str
    low: int
    high: int
    gpus: int
    """GPUs of one worker."""
    beside: int
    """Number of pods that are not workers."""
    pool: str
    size: int
    """Requested workers; 0 while suspended."""
    ended: bool

    @property
    def within(self) -> bool:
        return self.size == 0 or self.low <= self.size <= self.high


@dataclass(slots=True)
class SizeLedger:
    """All elastic jobs, and the changes of their sizes."""

    jobs: dict[str, Breather] = field(default_factory=dict)
    """Jobs that exist and have not ended, by name."""
    known: set[str] = field(default_factory=set)
    """The names of all jobs so far."""
    changes: Counter[str] = field(default_factory=Counter)
    """How often jobs were started, stopped, grown or shrunk."""
    outside: list[str] = field(default_factory=list)
    """Each time that a job's size was out of its bounds."""

    def take(self, table: str, gone: bool, obj: Obj) -> None:
        now = read(table, obj)
        before = self.jobs.pop(now.name, None)
        self.known.add(now.name)
        if gone or now.ended:
            return
        self.jobs[now.name] = now
        self.changes[_change(0 if before is None else before.size, now.size)] += 1
        if not now.within:
            self.outside.append(f"{now.name}: {count(now.size, 'worker')}, of {now.low} to {now.high}")

    def sizes(self) -> dict[str, int]:
        return {name: job.size for name, job in self.jobs.items()}

    def score(self) -> list[tuple[str, str]]:
        """Lines for the scoreboard; empty without elastic jobs."""
        if not self.known:
            return []
        words = [f"{self.changes[word]} {word}" for word in ("started", "grown", "shrunk", "stopped")]
        total = sum(self.changes[word] for word in ("started", "grown", "shrunk", "stopped"))
        outside = f": {', '.join(self.outside)}" if self.outside else f" ({len(self.known)} elastic jobs)"
        return [("resizes", f"{total} ({', '.join(words)})"), ("out of bounds", f"{len(self.outside)}{outside}")]


def _change(before: int, after: int) -> str:
    if before == after:
        return "same"
    if not before:
        return "started"
    if not after:
        return "stopped"
    return "grown" if after > before else "shrunk"


def read(table: str, obj: Obj) -> Breather:
    spec = obj["spec"]
    roles = spec[ROLES[table]]
    worker = roles["Worker"]
    pod = worker["template"]["spec"]
    policy, notes = spec.get("elasticPolicy") or {}, obj["metadata"].get("annotations") or {}
    size = worker.get("replicas", 1)
    conditions = (obj.get("status") or {}).get("conditions") or []
    return Breather(
        name=obj["metadata"]["name"],
        low=int(policy.get("minReplicas", notes.get("maar.dev/min-workers", size))),
        high=int(policy.get("maxReplicas", notes.get("maar.dev/max-workers", size))),
        gpus=sum(int(c.get("resources", {}).get("limits", {}).get(GPU, 0)) for c in pod["containers"]),
        beside=sum(role.get("replicas", 1) for name, role in roles.items() if name != "Worker"),
        pool=(pod.get("nodeSelector") or {}).get(POOL, ""),
        size=0 if (spec.get("runPolicy") or {}).get("suspend") else size,
        ended=any(c["type"] in ENDS and c["status"] == "True" for c in conditions),
    )


def bars(jobs: Iterable[Breather], before: Mapping[str, int]) -> list[str]:
    """A line for each job: a block for each worker, a dot for each further worker that it could use, and the change."""
    shown = sorted(jobs, key=lambda job: (job.pool, job.name))
    wide = max((job.high for job in shown), default=0)
    lines = []
    for job in shown:
        was = before.get(job.name, 0)
        change = f"{was} -> {job.size}" if was != job.size else f"{job.size}"
        bar = "■" * job.size + "·" * (job.high - job.size) + " " * (wide - job.high)
        asks = f"{job.low}..{job.high} x {count(job.gpus, 'GPU')}"
        lines.append(f"{job.pool:<5} {job.name:<8} {bar}  {change:<9} ({asks})")
    return lines
