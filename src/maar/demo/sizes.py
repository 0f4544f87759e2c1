"""Elastic jobs as the API server's watches show them: how large each is, how often that changed, and bars of it.

Like the ledger it knows nothing of the scheduler or of the story: it reads the size and the bounds that stand in each
object, after every write.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from maar.demo.picture import GPU

Obj = dict[str, Any]

ROLES = {"pytorchjobs": "pytorchReplicaSpecs", "mpijobs": "mpiReplicaSpecs"}
"""The tables of elastic jobs, and where their pods are described."""
POOL = "maar.dev/accelerator"
"""The label by which nodes are of a pool, and jobs choose one."""
ENDS = ("Succeeded", "Failed")


class Breather(NamedTuple):
    """An elastic job at one moment."""

    name: str
    low: int
    high: int
    gpus: int
    """Of one worker."""
    beside: int
    """Pods beside its workers."""
    pool: str
    size: int
    """Workers that it shall have; none while it is suspended."""
    ended: bool

    @property
    def within(self) -> bool:
        """Whether its size is one that it can use."""
        return self.size == 0 or self.low <= self.size <= self.high


@dataclass(slots=True)
class SizeLedger:
    """All of them, and what was done to them."""

    jobs: dict[str, Breather] = field(default_factory=dict)
    """Those that exist and have not ended, by name."""
    known: set[str] = field(default_factory=set)
    """The names of all that ever were."""
    changes: Counter[str] = field(default_factory=Counter)
    """How often one was started, stopped, grown or shrunk."""
    outside: list[str] = field(default_factory=list)
    """Every moment at which one had a size out of its bounds."""

    def take(self, table: str, gone: bool, obj: Obj) -> None:
        """One event of a watch."""
        now = read(table, obj)
        before = self.jobs.pop(now.name, None)
        self.known.add(now.name)
        if gone or now.ended:
            return
        self.jobs[now.name] = now
        self.changes[_change(0 if before is None else before.size, now.size)] += 1
        if not now.within:
            self.outside.append(f"{now.name}: {now.size} workers, of {now.low} to {now.high}")

    def sizes(self) -> dict[str, int]:
        """How many workers each shall have now."""
        return {name: job.size for name, job in self.jobs.items()}

    def score(self) -> list[tuple[str, str]]:
        """Lines for the scoreboard, if there was any."""
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
    """A job as its object has it."""
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
    """A line for each job: a block for each worker, a dot for each more that it could use, and how it changed."""
    shown = sorted(jobs, key=lambda job: (job.pool, job.name))
    wide = max((job.high for job in shown), default=0)
    lines = []
    for job in shown:
        was = before.get(job.name, 0)
        change = f"{was} -> {job.size}" if was != job.size else f"{job.size}"
        bar = "■" * job.size + "·" * (job.high - job.size) + " " * (wide - job.high)
        asks = f"{job.low}..{job.high} x {job.gpus} GPUs"
        lines.append(f"{job.pool:<5} {job.name:<8} {bar}  {change:<9} ({asks})")
    return lines
