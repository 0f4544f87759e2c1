"""One state: objects in the API server, requests on their way, and what processes remember.

Four things keep states few, and lose no behaviour:

- A process is known by the shard and the epoch in which it holds its Lease: `A2` is the second holder of shard A. A
  process that holds several shards is several minds. One that lost a Lease and wins it again is a new mind. How many
  processes exist only decides how soon a Lease is won.
- Versions are not counted. If the version of an object moves, requests for its old version leave the wire.
- A write is on the wire as soon as it is announced. Until it takes effect, it does not matter where it is: in a frozen
  process, in a proxy, or at the server. The answer of the server comes with the effect, because a sender that has no
  answer yet does nothing that it would not do a moment earlier.
- The Lease names only what is not settled. A real Lease may name more until its next renewal, which causes needless
  fences and nothing else.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.shards.model.setting import Setting

ABSENT, DONE, WAITING = -3, -2, -1
"""Places of a pod that has no node: not created yet, ended, waiting."""

BIND, EVICT, SURPLUS, RELEASE = "bind", "evict", "evict surplus", "release"
"""Writes on pods: SURPLUS evicts one that its gang can spare, RELEASE frees a gang that cannot be finished."""

WON, RAISED, ACTIVE = 0, 1, 2
"""Stages of a take-over: has the Lease; has its epoch in the map; decides."""

NO_WANT, PAUSED = 0, -1
"""A want is the set of nodes that it names, as a bit mask, or one of these."""
ASKED = 1 << 8
"""A bit of a want: its shard uses all of its nodes, and asks for evictions on them."""
ELECTED = 1 << 9
"""A bit of a want: its job does not fit yet, so its nodes are locked, and lent as they empty."""


class Lease(NamedTuple):
    epoch: int
    intents: int
    """Pods, as a bit mask."""
    decided: int = 0
    """Pods with decided evictions, as a bit mask: those that still have the uid of the intent."""
    seen: int = -1
    """Intents that a candidate has read too early (only if that rule is broken)."""


class Request(NamedTuple):
    """A write on a pod that was announced, and may be anywhere: still in its sender, on its way, or at the server."""

    shard: int
    epoch: int
    pod: int
    what: str
    node: int
    """The node to bind to, or that a victim leaves."""
    gain: int
    """The gang that it is for."""
    known: bool = True
    """Whether its sender reckons with it (only without fences it forgets one too early)."""
    valid: bool = True
    """Whether the pod still has the version of the intent (only if retries need no intent, others stay on the wire)."""
    decided: bool = False
    """Whether it names only the uid: no change of the version stops it."""


class MapWrite(NamedTuple):
    """A write of the ShardMap on its way: one entry gets another shard."""

    shard: int
    epoch: int
    queue: bool
    """The entry of a queue; otherwise of a node."""
    entry: int
    to: int


class Mind(NamedTuple):
    """What the holder of one shard remembers."""

    shard: int
    epoch: int
    stage: int
    to_fence: int
    usable: int
    """Nodes that it uses, as a bit mask."""
    queues: int
    """Queues that it decides for, as a bit mask."""
    leaving: MapWrite | None
    """The entry that it is giving away."""
    view: tuple[int, ...]
    """Where the pods were when it last saw them."""
    to_evict: int = 0
    """Pods with decided evictions that it has to carry out, as a bit mask."""


class State(NamedTuple):
    leases: tuple[Lease, ...]
    epochs: tuple[int, ...]
    """ShardMap: epoch of each shard."""
    owner: tuple[int, ...]
    """ShardMap: shard of each node."""
    route: tuple[int, ...]
    """ShardMap: shard of each queue."""
    proposed: tuple[int, ...]
    """The shard that each queue's pin or parent asks for."""
    present: int
    """Nodes that exist, as a bit mask."""
    pods: tuple[int, ...]
    """The node or the place of each pod."""
    wants: tuple[int, ...]
    """Shards: the want of each gang."""
    owed: tuple[int, ...]
    """For each node the gang for which a pod was evicted there, and which is not bound yet."""
    minds: tuple[Mind, ...]
    wire: frozenset[Request]
    map_wire: frozenset[MapWrite]
    left: tuple[int, int, int]
    """Faults that may still happen: take-overs, deletions, moves of queues."""


def first(setting: Setting) -> State:
    """The state in which exploration begins: each shard has a holder that decides."""
    pods: list[int] = []
    for gang in setting.gangs:
        rest = gang.size - len(gang.on)
        pods += [*gang.on, *[ABSENT if gang.late else WAITING] * rest]
    places = tuple(pods)
    view = places if setting.lag else ()
    owner = tuple(node.home for node in setting.nodes)
    route = tuple(queue.shard for queue in setting.queues)
    minds = tuple(
        Mind(shard, 1, ACTIVE, 0, bits(owner, shard), bits(route, shard), None, view) for shard in range(setting.shards)
    )
    return State(
        leases=(Lease(1, 0),) * setting.shards,
        epochs=(1,) * setting.shards,
        owner=owner,
        route=route,
        proposed=route,
        present=(1 << len(setting.nodes)) - 1,
        pods=places,
        wants=(NO_WANT,) * len(setting.gangs),
        owed=(-1,) * len(setting.nodes),
        minds=minds,
        wire=frozenset(),
        map_wire=frozenset(),
        left=(setting.take_overs, setting.deletions, setting.moves),
    )


def bits(values: tuple[int, ...], value: int) -> int:
    """The places at which a value stands, as a bit mask."""
    return sum(1 << i for i, one in enumerate(values) if one == value)


def put(values: tuple[int, ...], place: int, value: int) -> tuple[int, ...]:
    return values[:place] + (value,) + values[place + 1 :]


def shard_name(shard: int) -> str:
    return "ABCD"[shard]
