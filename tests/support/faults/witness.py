"""The witness: sees every write to a cluster and says what went wrong. One witness for all faults.

At every revision: no node holds more than it has after a bind, no queue uses more than its limit after a bind or a
larger size, and no pod moves to another node. With a limit on the time in part, also: no gang is in part for longer. At
quiet moments: no gang runs in part. At the end: every pod and job that is gone was deleted for a reason, every gang has
run, and no lock, hold, nomination, election or intent is left. It has its own readers and uses no code of Maar.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Callable, Collection, Set
from contextlib import asynccontextmanager
from decimal import Decimal
from enum import StrEnum

import msgspec
from tests.support.faults.gangs import ENDED, OWNERS, Gangs, gang_of
from tests.support.faults.holders import SHARD_MAPS, SHARDS, Holders, moves
from tests.support.faults.left_over import left_over
from tests.support.faults.limits import QUEUES, Limits, User
from tests.support.faults.quantities import amount, requests
from tests.support.faults.writes import Etcd, Json, Write, ended
from tests.support.patience import until
from tests.support.real.cluster import RealCluster

KEPT = (*OWNERS, "nodes", "pods", "configmaps", "leases", QUEUES, SHARD_MAPS, SHARDS)
"""Resources whose objects the witness keeps."""
FINISH_S = 5.0
"""How long a gang may be in part after a take-over is complete: its pods are bound, maybe to borrowed nodes, in about a
second on an idle machine."""
MOST_S = 30.0
"""A take-over that lasts longer has failed, and is no excuse for gangs in part."""
QUIET_S = 1.0
"""How long no gang may be in part before the cluster counts as quiet."""


class Wrong(StrEnum):
    """What can go wrong."""

    OVER_COMMIT = "over-commit"
    BOUND_TWICE = "bound twice"
    IN_PART = "gang in part"
    ABOVE_LIMIT = "queue above its limit"
    LOST = "lost"
    DODGED = "dodged its eviction"
    UNDONE = "left undone"
    LEFT_OVER = "left over"


class Finding(msgspec.Struct, frozen=True):
    """One thing that went wrong, and the writes before it."""

    wrong: Wrong
    what: str
    story: tuple[str, ...] = ()


class Witness:
    """Takes all writes of one cluster."""

    def __init__(self, longest_part: float = math.inf) -> None:
        """No gang may be in part for longer than this, or than the longest take-over if that is more."""
        self.findings: list[Finding] = []
        self.gangs = Gangs()
        self.limits = Limits()
        self.expected: set[str] = set()
        """Objects that users delete: their uids, or resource and key."""
        self.evictions: Set[str] = frozenset()
        """Uids of pods whose eviction was requested, from a proxy."""
        self.objects: dict[str, dict[str, Json]] = defaultdict(dict)
        """All objects of `KEPT` as they are now, by resource and key."""
        self.nodes: dict[str, set[str]] = {}
        """All nodes that each pod was ever on, by uid."""
        self.most = 0
        """The highest number of pods that any node ever had at once."""
        self.revision = 0
        self.counts: Counter[str] = Counter()
        """Binds, evictions, deletions, pods that gangs lost, and moves of nodes, queues and slots between shards."""
        self._on: dict[str, dict[str, dict[str, Decimal]]] = defaultdict(dict)
        """What the pods on each node take, by uid."""
        self._story: deque[str] = deque(maxlen=60)
        self.shards = Holders(self.objects)
        self.longest_part = 0.0
        """How long a gang was in part at most, in seconds since the last fault that hit its shard."""
        self.longest_part_in_all = 0.0
        """The same from the beginning, however many faults there were."""
        self._allowed_part = longest_part
        self._parts: dict[str, float] = {}
        """Since when each gang is in part."""
        self._told: set[str] = set()
        """Gangs that were in part for too long, until they are whole again."""

    def take(self, write: Write, now: float | None = None) -> None:
        """Take one more write."""
        self.revision = write.revision
        at = time.monotonic() if now is None else now
        if write.resource in KEPT:
            self._keep(write, at)
        self._too_long_in_part(at)

    def _keep(self, write: Write, now: float) -> None:
        kept = self.objects[write.resource]
        before = kept.pop(write.key, None)
        if write.after is not None:
            kept[write.key] = write.after
        if before is not None and write.after is None:
            self._removed(write, before)
        if write.resource in OWNERS:
            self._owner(write, now)
        if write.resource == "leases":
            self.shards.lease(write.key, before, write.after, now)
        if write.resource == SHARDS:
            self.shards.shard(write.key, write.after, now)
        if write.resource == SHARD_MAPS:
            self.counts["moves"] += moves(before, write.after)
        if write.resource == QUEUES:
            self.limits.queue(write.key, write.after)
        if write.resource == "pods":
            self._pod(write, before)
            for pod in (before, write.after):
                if pod is not None and (gang := gang_of(pod)):
                    self._look_at(gang, now)

    def _owner(self, write: Write, now: float) -> None:
        gang = f"{write.resource}/{write.key}"
        size = self.gangs.size(gang) or 0
        self.gangs.owner(write.resource, write.key, write.after)
        self._look_at(gang, now)
        if (self.gangs.size(gang) or 0) > size:
            self._within(self.gangs.queue(gang), f"{write.key} grew at {write.revision}")

    def _look_at(self, gang: str, now: float) -> None:
        if self.gangs.part(gang):
            self._parts.setdefault(gang, now)
        else:
            self._parts.pop(gang, None)
            self._told.discard(gang)

    def _too_long_in_part(self, now: float) -> None:
        for gang, since in list(self._parts.items()):
            queue = self.gangs.queue(gang)
            lasts = now - max(since, self.shards.disturbed(queue))
            part = self.gangs.part(gang)
            if not part:  # its user deletes it now
                del self._parts[gang]
                continue
            self.longest_part = max(self.longest_part, lasts)
            self.longest_part_in_all = max(self.longest_part_in_all, now - since)
            if lasts > self.allowed_part(now) and gang not in self._told:
                self._told.add(gang)
                self.found(Wrong.IN_PART, f"{gang}: {part} for {lasts:.1f} s, queue {queue} of {self._shard(queue)}")

    def allowed_part(self, now: float) -> float:
        """How long a gang may be in part: as long as a take-over in this run, and the time to finish the gang."""
        return max(self._allowed_part, min(self.shards.longest_take_over(now), MOST_S) + FINISH_S)

    def _shard(self, queue: str) -> str:
        shard = self.shards.shard_of(queue)
        return f"shard {shard}, held by {self.shards.by_shard().get(shard, 'nobody')}"

    def found(self, wrong: Wrong, what: str) -> None:
        """Record something that went wrong."""
        self.findings.append(Finding(wrong, what, tuple(self._story)))

    # -- at every revision

    def _pod(self, write: Write, before: Json | None) -> None:
        after = write.after
        pod = after if after is not None else before
        assert pod is not None, write
        uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName", "")
        had = "" if before is None else before["spec"].get("nodeName", "")
        self.gangs.pod(uid, write.key, before, after)
        phase = (pod.get("status") or {}).get("phase")
        self._on[had or node].pop(uid, None)
        if after is not None and had and not node:
            self.found(Wrong.BOUND_TWICE, f"{write.key} was on {had}, and on no node at {write.revision}")
        if after is None or not node or phase in ENDED:
            self.limits.drop(uid)
            if after is None and node:
                self._tell(write, "removed from", node)
            return
        self._on[node][uid] = requests(after["spec"])
        self.nodes.setdefault(uid, set()).add(node)
        self.most = max(self.most, len(self._on[node]))
        if len(self.nodes[uid]) > 1 and had != node:
            self.found(Wrong.BOUND_TWICE, f"{write.key} on {sorted(self.nodes[uid])} at {write.revision}")
        if not had and before is not None:  # bound by a scheduler; a pod may also be created on a node
            self.counts["binds"] += 1
            self._tell(write, "bound to", node)
            self._fits(node, f"{write.key} was bound at {write.revision}")
        queue = self._uses(uid, after)
        if not had and before is not None:
            self._within(queue, f"{write.key} was bound at {write.revision}")

    def _uses(self, uid: str, pod: Json) -> str:
        """A pod uses its queue, which is returned."""
        gang, leaving = gang_of(pod), "deletionTimestamp" in pod["metadata"]
        queue = self.limits.queue_of(uid) or self.gangs.queue(gang)
        self.limits.put(uid, User(gang, queue, requests(pod["spec"]), leaving))
        return queue

    def _within(self, queue: str, why: str) -> None:
        for name in self.limits.line(queue):
            if (above := self.limits.above(name, self.gangs.size)) is not None:
                tree = {below: self.shards.shard_of(below) for below in self.limits.below(name)}
                what = f"queue {name} uses {above.used} {above.resource} of {above.limit} after {why}"
                self.found(Wrong.ABOVE_LIMIT, f"{what}; shards: {tree}; {above.gangs}")

    def _fits(self, node: str, why: str) -> None:
        wire = self.objects["nodes"].get(node)
        if wire is None:  # it was removed while the bind was on its way
            return
        has = {name: amount(value) for name, value in ((wire.get("status") or {}).get("allocatable") or {}).items()}
        taken: dict[str, Decimal] = defaultdict(Decimal)
        for one in self._on[node].values():
            for name, value in one.items():
                taken[name] += value
        over = {name: f"{value} of {has.get(name, 0)}" for name, value in taken.items() if value > has.get(name, 0)}
        if over:
            self.found(Wrong.OVER_COMMIT, f"{node} holds {over} after {why}: {len(self._on[node])} pods")

    def _removed(self, write: Write, before: Json) -> None:
        meta, status = before["metadata"], before.get("status") or {}
        marked = any(c["type"] == "DisruptionTarget" for c in status.get("conditions") or ())
        evicted = marked or meta["uid"] in self.evictions
        self.counts["evicted" if evicted else "removed"] += write.resource == "pods"
        if write.resource == "pods" and before["spec"].get("nodeName") and self.gangs.lives(gang_of(before)):
            self.counts["displaced"] += 1
        owned = any(owner.get("controller") for owner in meta.get("ownerReferences") or ())
        if write.resource not in ("pods", *OWNERS) or owned or evicted:
            return
        if self.expected & {meta["uid"], f"{write.resource}/{write.key}"}:
            return
        node = before["spec"].get("nodeName")
        if status.get("phase") in ENDED or (node and node not in self.objects["nodes"]):
            return
        self.found(Wrong.LOST, f"{write.resource} {write.key} was removed at {write.revision}")

    def _tell(self, write: Write, what: str, node: str) -> None:
        self._story.append(f"{write.revision} {write.key} {what} {node}")

    # -- at quiet moments, and at the end

    def left_over(self) -> list[str]:
        """Locks, holds, nominations, elections and intents that exist now."""
        return left_over(self.objects)

    def count(self, wrong: Wrong) -> int:
        return sum(finding.wrong is wrong for finding in self.findings)

    def check(self, but: Collection[Wrong] = ()) -> None:
        """Fail if anything went wrong, except for some kinds."""
        if found := [finding for finding in self.findings if finding.wrong not in but]:
            told = "\n".join(f"{f.wrong}: {f.what}" for f in found[:20])
            raise AssertionError("\n".join([told, "Before the first:", *found[0].story]))


class Watching:
    """A witness that watches a real cluster."""

    def __init__(self, etcd: Etcd, longest_part: float = math.inf) -> None:
        self.witness = Witness(longest_part)
        self._etcd = etcd
        self._marked = 0

    async def __aenter__(self) -> Watching:
        self._task = asyncio.create_task(self._watch())
        await self.caught_up()
        return self

    async def __aexit__(self, *_: object) -> None:
        await ended(self._task)

    async def _watch(self) -> None:
        async for write in self._etcd.writes():
            if isinstance(write, int):
                self._marked = write
            else:
                self.witness.take(write)

    async def caught_up(self) -> None:
        """Wait until the witness has seen every write that was made before this call."""
        mark = await self._etcd.mark()

        def seen() -> bool:
            if self._task.done():
                self._task.result()
            return self._marked >= mark

        await until(seen, "the witness has seen every write")

    async def quiet(self, patience: float) -> None:
        """Wait until no gang is in part for a moment; what still is after a while went wrong."""
        for gang in await self._outlasts(self.witness.gangs.in_part, patience):
            self.witness.found(Wrong.IN_PART, gang)

    async def nothing_left(self, patience: float) -> None:
        """Wait until no lock, hold, nomination, election or intent is left; what still is went wrong."""
        for what in await self._outlasts(self.witness.left_over, patience):
            self.witness.found(Wrong.LEFT_OVER, what)

    async def _outlasts(self, look: Callable[[], list[str]], patience: float) -> list[str]:
        ends, since = time.monotonic() + patience, time.monotonic()
        while True:
            await self.caught_up()
            found = look()
            now = time.monotonic()
            since = now if found else since
            if now - since >= QUIET_S or now > ends:
                return found
            await asyncio.sleep(0.1)


@asynccontextmanager
async def watching(cluster: RealCluster) -> AsyncIterator[Watching]:
    """A witness of a cluster that stores JSON (`STORED_AS_JSON`)."""
    async with Etcd(cluster.etcd) as etcd, Watching(etcd) as made:
        yield made
