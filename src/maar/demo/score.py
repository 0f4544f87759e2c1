"""A ledger of every write that watches of the API server show, and the score computed from it.

The ledger does not depend on the scheduler or the story. It sees each pod, node and job as a watch does, and after each
event checks the pod's node, so that it notices even a short over-commit.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import msgspec

from maar.demo.picture import GPU, is_ready, owner
from maar.demo.sizes import ROLES, SizeLedger
from maar.kube.read.requests import pod_requests
from maar.kube.wire.pods import Pod
from maar.model.resources import allocatable
from maar.model.words import count as counted

Obj = dict[str, Any]

EVICTED, LOST = "EvictionByEvictionAPI", "DeletionByTaintManager"


@dataclass(slots=True)
class Life:
    """One pod, from its creation on."""

    name: str
    gang: str
    requests: dict[str, int]
    created: float
    bound: float | None = None
    node: str = ""
    phase: str = "Pending"
    going: bool = False
    gone: bool = False
    disrupted: str = ""
    """Why it was disrupted before its end."""

    @property
    def holds(self) -> bool:
        return bool(self.node) and not self.gone and self.phase not in ("Succeeded", "Failed")


@dataclass(slots=True)
class Ledger:
    """The events of a cluster's watches, summed up."""

    lives: dict[str, Life] = field(default_factory=dict)
    """By UID of the pod."""
    gangs: dict[str, int] = field(default_factory=dict)
    """Existing jobs, and the number of pods that each needs; for an elastic job, the minimum."""
    sizes: SizeLedger = field(default_factory=SizeLedger)
    nodes: dict[str, tuple[bool, dict[str, int]]] = field(default_factory=dict)
    """Whether a node is ready, and its allocatable resources."""
    used: dict[str, Counter[str]] = field(default_factory=dict)
    looks: int = 0
    over: list[str] = field(default_factory=list)
    """Each time that a node had more than its allocatable resources."""
    moved: list[str] = field(default_factory=list)
    """Pods that changed their node, which must never happen."""
    gpu_seconds: float = 0.0
    offered_seconds: float = 0.0
    last: float | None = None

    def take(self, table: str, type: str, obj: Obj, now: float) -> None:
        self.let_time_pass(now)
        gone = type == "DELETED"
        if table == "pods":
            self._pod(obj, gone, now)
        elif table == "nodes":
            name = obj["metadata"]["name"]
            self.nodes[name] = (is_ready(obj) and not gone, dict(allocatable(obj["status"].get("allocatable") or {})))
        elif table == "jobs":
            self.gangs[obj["metadata"]["name"]] = obj["spec"].get("parallelism", 1)
            if gone:
                del self.gangs[obj["metadata"]["name"]]
        elif table in ROLES:
            self.sizes.take(table, gone, obj)
            self._elastic(obj["metadata"]["name"])

    def _elastic(self, name: str) -> None:
        """An elastic job runs in part if it has fewer pods than its minimum plus the pods beside its workers."""
        job = self.sizes.jobs.get(name)
        self.gangs.pop(name, None)
        if job is not None:
            self.gangs[name] = job.low + job.beside

    def let_time_pass(self, now: float) -> None:
        """Add to utilisation: GPU seconds in use and offered by ready nodes, from the first pod on."""
        if self.last is not None:
            self.gpu_seconds += self.gpus_used * (now - self.last)
            self.offered_seconds += self.gpus_offered * (now - self.last)
        if self.lives:
            self.last = now

    def _pod(self, obj: Obj, gone: bool, now: float) -> None:
        uid = obj["metadata"]["uid"]
        life = self.lives.get(uid)
        if life is None:
            life = self.lives[uid] = Life(obj["metadata"]["name"], owner(obj), _requests(obj), now)
        held = life.holds
        if not life.node and obj["spec"].get("nodeName"):
            life.node, life.bound = obj["spec"]["nodeName"], now
        if life.node != obj["spec"].get("nodeName", ""):
            self.moved.append(life.name)
        life.phase = obj["status"].get("phase", "Pending")
        life.going = bool(obj["metadata"].get("deletionTimestamp"))
        life.gone = gone
        for condition in obj["status"].get("conditions") or ():
            if condition["type"] == "DisruptionTarget" and condition["status"] == "True":
                life.disrupted = condition.get("reason", "")
        if held != life.holds:
            use = self.used.setdefault(life.node, Counter())
            for name, amount in life.requests.items():
                use[name] += amount if life.holds else -amount
        if life.node:
            self._look_at(life.node)

    def _look_at(self, node: str) -> None:
        self.looks += 1
        offered = self.nodes.get(node, (False, {}))[1]
        for name, amount in self.used.get(node, Counter()).items():
            if amount > offered.get(name, 0):
                self.over.append(f"{node}: {name}: {amount} of {offered.get(name, 0)}")

    # -- sums

    @property
    def gpus_used(self) -> int:
        """GPUs that pods use on ready nodes."""
        return sum(use[GPU] for name, use in self.used.items() if self.nodes.get(name, (False, {}))[0])

    @property
    def gpus_offered(self) -> int:
        return sum(offered.get(GPU, 0) for ready, offered in self.nodes.values() if ready)

    @property
    def bound(self) -> list[Life]:
        return [life for life in self.lives.values() if life.bound is not None]

    def disrupted(self, why: str) -> list[Life]:
        """Bound pods that were disrupted for this reason."""
        return [life for life in self.bound if life.disrupted == why]

    @property
    def rejected(self) -> list[Life]:
        """Pods that a kubelet rejected, or that failed."""
        return [life for life in self.lives.values() if life.phase == "Failed"]

    def at_work(self, gang: str) -> int:
        """The number of pods of a gang that have a node and stay, or have succeeded."""
        return sum(
            life.phase == "Succeeded" or (life.holds and not life.going)
            for life in self.lives.values()
            if life.gang == gang
        )

    def in_part(self) -> list[str]:
        """Descriptions of the gangs of which only some pods run."""
        found = [(gang, self.at_work(gang), size) for gang, size in sorted(self.gangs.items())]
        return [f"{gang}: {count} of {size} pods" for gang, count, size in found if 0 < count < size]

    def evicted_in_part(self) -> list[str]:
        """Descriptions of the gangs that lost only some of their pods to evictions."""
        counts = Counter(life.gang for life in self.disrupted(EVICTED))
        return [
            f"{gang}: {count} of {self.gangs[gang]} pods"
            for gang, count in sorted(counts.items())
            if gang in self.gangs and count % self.gangs[gang]
        ]

    def problems(self) -> list[str]:
        """Violations of what must always hold. Valid only while nothing is in progress."""
        return [
            *(f"over-committed: {moment}" for moment in self.over),
            *(f"a gang runs in part: {gang}" for gang in self.in_part()),
            *(f"a gang was evicted in part: {gang}" for gang in self.evicted_in_part()),
            *(f"a pod was bound twice: {name}" for name in self.moved),
            *(f"a pod was bound but rejected: {life.name}" for life in self.rejected),
            *(f"an elastic job was out of its bounds: {moment}" for moment in self.sizes.outside),
        ]


def _requests(pod: Obj) -> dict[str, int]:
    """The requests of a pod; empty if they are invalid, because with `--keep` users may create any pod."""
    try:
        return dict(pod_requests(msgspec.convert(pod, Pod)))
    except ValueError:
        return {}


def scoreboard(ledger: Ledger) -> list[tuple[str, str]]:
    """The score as pairs of label and value."""
    bound = ledger.bound
    waits = sorted((life.bound - life.created, life.name) for life in bound if life.bound is not None)
    evicted, lost = ledger.disrupted(EVICTED), ledger.disrupted(LOST)
    part = ledger.in_part()
    area = ledger.gpu_seconds / ledger.offered_seconds if ledger.offered_seconds else 0.0
    lines = [
        ("bound", f"{counted(len(bound), 'pod')} of {counted(len({life.gang for life in bound}), 'gang')}"),
        (
            "evicted",
            f"{counted(len(evicted), 'pod')}{_named(evicted)}; lost with their node: {len(lost)}{_named(lost)}",
        ),
        ("over-commits", f"{len(ledger.over)} (checked after each of {ledger.looks} changes to pods on nodes)"),
        ("gangs in part", f"{len(part)} of {len(ledger.gangs)}{': ' + ', '.join(part) if part else ''}"),
        (
            "utilisation",
            f"{ledger.gpus_used} of {ledger.gpus_offered} GPUs now, {100 * area:.0f} % since the first pod",
        ),
    ]
    if waits:
        mean = sum(wait for wait, _ in waits) / len(waits)
        lines.append(("mean wait", f"{mean:.2f} s from created to bound (longest: {waits[-1][0]:.2f} s)"))
    return lines + ledger.sizes.score()


def _named(lives: list[Life]) -> str:
    gangs = sorted({life.gang for life in lives})
    return f" ({', '.join(gangs)})" if gangs else ""
