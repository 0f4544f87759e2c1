"""What must be true in every state, and what must be reachable from every state."""

from __future__ import annotations

from tests.shards.model.setting import Setting
from tests.shards.model.state import ACTIVE, BIND, DONE, State

OVER_COMMIT = "a node is over-committed"
TWO_OWNERS = "a node has two owners that may bind"
TWO_BINDERS = "a pod may be bound by two processes"
OVER_LIMIT = "a queue exceeds its limit"
BROKEN_GANG = "a gang loses pods that it needs"
LATE = "a former holder may evict a pod"
FOR_NOTHING = "a victim was evicted for nothing"
HOPELESS = "a hopeless want keeps nodes from other jobs"
IN_PART = "a gang is held in part for ever"
NEVER = "a want is never served"
STARVED = "a job is passed over again and again"


def broken(setting: Setting, state: State, effects_only: bool = False) -> str:
    """The first invariant that a state breaks; empty if it breaks none.

    `effects_only`: what may happen does not count, only what has happened.
    """
    for n, node in enumerate(setting.nodes):
        if state.pods.count(n) > node.room:
            return OVER_COMMIT
    for q, queue in enumerate(setting.queues):
        bound = sum(p >= 0 and setting.gangs[setting.pods[pod]].queue == q for pod, p in enumerate(state.pods))
        if bound > queue.limit:
            return OVER_LIMIT
    return "" if effects_only else _two(setting, state)


def _two(setting: Setting, state: State) -> str:
    """Binds that can still succeed, and nodes that the holder of a Lease uses: each from one process only."""
    owners: dict[int, tuple[int, int]] = {}
    binders: dict[int, tuple[int, int]] = {}
    for request in state.wire:
        if request.what == BIND and request.valid and state.pods[request.pod] < 0:
            who = (request.shard, request.epoch)
            if binders.setdefault(request.pod, who) != who:
                return TWO_BINDERS
            if owners.setdefault(request.node, who) != who:
                return TWO_OWNERS
    for mind in state.minds:
        if mind.stage == ACTIVE and state.leases[mind.shard].epoch == mind.epoch:
            if any(r.decided and r.shard == mind.shard and r.epoch < mind.epoch for r in state.wire):
                return LATE
            who = (mind.shard, mind.epoch)
            for n in range(len(setting.nodes)):
                if mind.usable >> n & 1 and owners.setdefault(n, who) != who:
                    return TWO_OWNERS
    return ""


def is_good(setting: Setting, state: State) -> bool:
    """Whether all gangs that fit on the nodes that exist have run (streams never end), and the others hold nothing."""
    room = sum(node.room for n, node in enumerate(setting.nodes) if state.present >> n & 1 and not node.kept)
    for gang, it in enumerate(setting.gangs):
        if it.again:
            continue
        places = [place for place, of in zip(state.pods, setting.pods, strict=True) if of == gang]
        if setting.least(gang) <= room:
            if places[0] != DONE:
                return False
        elif any(place >= 0 for place in places):
            return False
    return True


def is_in_part(setting: Setting, state: State) -> bool:
    """Whether some gang has pods bound, but fewer than it needs."""
    for gang in range(len(setting.gangs)):
        bound = sum(place >= 0 and of == gang for place, of in zip(state.pods, setting.pods, strict=True))
        if 0 < bound < setting.least(gang):
            return True
    return False
