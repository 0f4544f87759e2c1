"""Codes: the fixed words by which a refusal is known, and what each means to those who act on it.

The core declares its codes here, and a plugin in its own file and in its registration. A `Meaning` says which condition
the pods and the group of the job get, what its owner can do, and which of several reasons decides.
`Unschedulable` makes autoscalers create nodes, so only codes that new nodes would remove have it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

UNSCHEDULABLE = "Unschedulable"
"""Nodes are missing. Cluster Autoscaler and Karpenter create nodes for pods with this reason."""
KEPT = frozenset({"SchedulingGated", UNSCHEDULABLE})
"""Words that have a meaning of their own in Kubernetes: no code becomes one of them by itself."""
CONDITION = re.compile(r"[A-Z][A-Za-z0-9]{0,127}")
BEFORE_NODES = 160
"""The rank of refusals that new nodes do not remove: they come before nodes."""


class Meaning(msgspec.Struct, frozen=True):
    """What a code means to programs and to people."""

    condition: str
    """The `reason` of the conditions of pods and groups: a CamelCase word for programs."""
    about: str
    """What the owner of the job or of the cluster can do, for users."""
    rank: int = BEFORE_NODES
    """Of several reasons the one with the smallest rank decides: the later ones do not matter until it is gone."""

    def __post_init__(self) -> None:
        if not CONDITION.fullmatch(self.condition) or self.condition == "SchedulingGated":
            raise ValueError(
                f"not a condition of Maar: `{self.condition}`; expected a CamelCase word, such as `NoLicence`"
            )


INVALID = Meaning("Invalid", "the owner corrects the object; the message names the field", 0)
WRONG_QUEUE = Meaning("InvalidQueue", "the owner names another queue, or a priority class that the queue accepts", 10)
MEMBERS = Meaning(
    "WaitingForMembers", "its controller creates the other pods, or the pods that are blocked are freed", 20
)
CLOSED = Meaning("QueueClosed", "the cluster's owner opens the queue", 30)
NOT_ADMITTED = Meaning("NotAdmitted", "wait, until a plugin admits the group", 40)
HELD = Meaning("Held", "the owner removes the annotation `maar.dev/hold` (`maar release`)", 60)
BY_BRAKES = Meaning("Held", "the cluster's owner releases the brakes", 70)
CHANGING = Meaning("Changing", "the owner, or a program of hers, leaves the job and its pods alone until they run", 80)
NOT_RESUMED = Meaning("Held", "the cluster's owner configures the action `resize`, or the owner resumes the job", 90)
NOMINATED = Meaning("Nominated", "wait: victims are leaving", 100)
BORROWING = Meaning("Borrowing", "wait: its shard gets nodes from other shards", 110)
QUEUE_LIMIT = Meaning("QueueLimit", "wait for other jobs of the queue, or use another queue", 120)
NODES_LOCKED = Meaning(
    "Reserved", "wait, or state a `maar.dev/max-runtime`: nodes are kept for a job that waited longer", 130
)
NODES = Meaning(UNSCHEDULABLE, "wait, or an autoscaler or the cluster's owner adds nodes", 170)
"""New nodes help."""
QUEUE_SHARE = Meaning("QueueLimit", "wait: nodes have room, but the queue has its share", 180)
"""Shares come after nodes: with more nodes each queue has more."""
LEFT_FOR_GANG = Meaning("Reserved", "wait: the room is left for a gang that waits for it", 190)
NO_WORKERS = Meaning("NoWorkers", "wait: the pool's algorithm gives the elastic job no workers now", 200)
TURN = Meaning("WaitingForTurn", "wait: a more important job goes first", 210)
GATED = Meaning("NotAdmitted", "wait, until the queue has quota for its pods", 220)
BLOCKED = Meaning("Blocked", "remove the scheduling gate, or create the claim that the message names", 230)
VICTIMS = Meaning(UNSCHEDULABLE, "wait, or an autoscaler adds nodes", 240)
"""Why no room is made: these come and go with other jobs, so they are written only if there is no other reason."""
REMARK = 250
"""The rank of what does not keep a job from starting."""


class Code(msgspec.Struct, frozen=True):
    """One code, as it is declared."""

    name: str
    """The word in plans and for scripts."""
    meaning: Meaning
    lasting: bool = False
    """Whether it ends only if the job or the nodes change, whatever else leaves: if it refuses all nodes, the job never
    starts on them. A cordon or a taint is not lasting: it goes."""
    everywhere: bool = False
    """Whether it decides only if it refuses all nodes, and then before anything else that refuses some of them."""


LOCKED = Code("Locked", NODES_LOCKED)
"""Nodes that are locked for another job."""
GANG_WAITS = Code("GangWaits", LEFT_FOR_GANG)
"""Nodes that are kept for another gang."""
BRAKED = Code("Braked", BY_BRAKES)
"""Jobs that need evictions or room that the brakes block."""
SHORT = Code("NotEnoughResources", NODES)
"""Nodes that are short of a resource."""
NAMESPACE = Code("NamespaceNotAccepted", WRONG_QUEUE)
QUEUE_INVALID = Code("QueueInvalid", WRONG_QUEUE)
QUEUE_CLOSED = Code("QueueClosed", CLOSED)


def _all(meaning: Meaning, *names: str) -> tuple[Code, ...]:
    return tuple(Code(name, meaning) for name in names)


CORE: tuple[Code, ...] = (
    *_all(INVALID, "Invalid", "PoolNotFound", "InvalidPlan"),
    *_all(WRONG_QUEUE, "QueueNotFound"),
    QUEUE_INVALID,
    NAMESPACE,
    *_all(WRONG_QUEUE, "PriorityClassNotAccepted"),
    *_all(MEMBERS, "Settling", "NoPods", "NotEnoughPodsOfSubgroup"),
    QUEUE_CLOSED,
    *_all(NOT_ADMITTED, "Refused", "NotAdmitted"),
    *_all(HELD, "Held"),
    BRAKED,
    *_all(CHANGING, "Changing"),
    *_all(NOT_RESUMED, "NotResumed"),
    *_all(NOMINATED, "Nominated"),
    *_all(BORROWING, "Borrowing"),
    LOCKED,
    SHORT,
    *_all(NODES, "NotTogether", "NotEnoughIdle"),
    GANG_WAITS,
    *_all(NO_WORKERS, "NoWorkers"),
    *_all(TURN, "GaveWay", "NotReached", "Unread"),
    *_all(GATED, "Gated"),
    *_all(BLOCKED, "Blocked"),
    *_all(VICTIMS, "NoVictims", "NotEnoughVictims", "NotYetEvicting"),
)
"""The codes of the core: sessions, actions, shards and brakes."""


def by_meaning(codes: Iterable[Code]) -> list[tuple[Meaning, list[str]]]:
    """The table for users: every meaning with its codes, the one that decides first."""
    rows: dict[Meaning, list[str]] = {}
    for code in codes:
        names = rows.setdefault(code.meaning, [])
        if code.name not in names:
            names.append(code.name)
    return sorted(rows.items(), key=lambda row: (row[0].rank, row[1]))
