"""Verdicts: the one condition that pods and groups of a waiting job get, from its reasons.

A condition is for programs: `Unschedulable` makes autoscalers create nodes, so only reasons that new nodes would remove
have it. Every other reason has a CamelCase word of ours. `CODES` is the one table from codes to conditions; the
documentation lists it. A job has several reasons at once: the one that comes first in the table decides, because the
later ones do not matter until it is gone.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from maar.model.reasons import LOCKED, Reason

UNSCHEDULABLE = "Unschedulable"
"""Nodes are missing. Cluster Autoscaler and Karpenter create nodes for pods with this reason."""
NOMINATED = "Nominated"
BLOCKED = "Blocked"
SURPLUS = "Surplus"
PROVISIONING = "Provisioning"
"""Nodes are missing, and are being asked for by a ProvisioningRequest."""
MEMBERS = "WaitingForMembers"
OTHER = "Waiting"
VICTIMS = ("NoVictims", "NotEnoughVictims")
"""Why no room is made: these come and go with other jobs, so they are written only if there is no other reason."""


class Row(NamedTuple):
    """A row of the table."""

    codes: tuple[str, ...]
    condition: str
    about: str
    """What the owner of the job or of the cluster can do, for users."""


ROWS = (
    Row(
        ("Invalid", "NoDomain", "NotWithinOneDomain", "PoolNotFound", "InvalidPlan"),
        "Invalid",
        "the owner corrects the object; the message names the field",
    ),
    Row(
        (
            "QueueNotFound",
            "QueueInvalid",
            "QueueNotLeaf",
            "NamespaceNotAccepted",
            "PriorityClassNotAccepted",
            "QueueWithoutNodeGroup",
        ),
        "InvalidQueue",
        "the owner names another queue, or a priority class that the queue accepts",
    ),
    Row(
        (
            "Settling",
            "NoPods",
            "NotEnoughTasks",
            "NotEnoughPodsOfTask",
            "NotEnoughSubgroups",
            "NotEnoughPodsOfSubgroup",
        ),
        MEMBERS,
        "its controller creates the other pods, or the pods that are blocked are freed",
    ),
    Row(("QueueClosed",), "QueueClosed", "the cluster's owner opens the queue"),
    Row(("Refused", "NotAdmitted"), "NotAdmitted", "wait, until a plugin admits the group"),
    Row(("QuotaExceeded",), "QuotaExceeded", "wait for other pods of the namespace, or raise its ResourceQuota"),
    Row(("Held",), "Held", "the owner removes the annotation `maar.dev/hold` (`maar release`)"),
    Row(("Braked",), "Held", "the cluster's owner releases the brakes"),
    Row(("Changing",), "Changing", "the owner, or a program of hers, leaves the job and its pods alone until they run"),
    Row(("NotResumed",), "Held", "the cluster's owner configures the action `resize`, or the owner resumes the job"),
    Row(("Nominated",), NOMINATED, "wait: victims are leaving"),
    Row(("Borrowing",), "Borrowing", "wait: its shard gets nodes from other shards"),
    Row(("OverCapability", "NodeGroupLimit"), "QueueLimit", "wait for other jobs of the queue, or use another queue"),
    Row((LOCKED,), "Reserved", "wait, or state a `maar.dev/max-runtime`: nodes are kept for a job that waited longer"),
    Row(("NodeName",), "NodeNotFound", "the owner names nodes that exist"),
    Row(("PodAffinity",), "NeighbourNotFound", "the pods that it must be near have to run first"),
    Row(("NoFreeVolume",), "VolumeNotFound", "the cluster's owner adds volumes"),
    Row(
        (
            "NotEnoughResources",
            "NotTogether",
            "NotEnoughIdle",
            "Overcommitted",
            "NodeSelector",
            "NodeAffinity",
            "NodeGroup",
            "NoNodeGroup",
            "RevocableZone",
            "RevocableZoneClosed",
            "TaintToleration",
            "NodeUnschedulable",
            "VolumeBinding",
            "NodeVolumeLimits",
            "NodePorts",
            "KeptForDevices",
            "CpuLoad",
            "MemoryLoad",
            "PodAntiAffinity",
            "ExistingPodsAntiAffinity",
            "PodTopologySpread",
            "OtherDomain",
            "NoNodeInDomain",
            "PodAffinityLabel",
        ),
        UNSCHEDULABLE,
        "wait, or an autoscaler or the cluster's owner adds nodes",
    ),
    Row(
        ("OverDeserved", "QueueOverused", "GuaranteedToOthers"),
        "QueueLimit",
        "wait: nodes have room, but the queue has its share",
    ),
    Row(("GangWaits",), "Reserved", "wait: the room is left for a gang that waits for it"),
    Row(("NoWorkers",), "NoWorkers", "wait: the pool's algorithm gives the elastic job no workers now"),
    Row(("GaveWay", "NotReached", "Unread"), "WaitingForTurn", "wait: a more important job goes first"),
    Row(("Gated",), "NotAdmitted", "wait, until the queue has quota for its pods"),
    Row(("Blocked",), BLOCKED, "remove the scheduling gate, or create the claim that the message names"),
    Row(VICTIMS, UNSCHEDULABLE, "wait, or an autoscaler adds nodes"),
    Row(("TaskTopologyIgnored",), OTHER, "the owner corrects the annotation; the job is scheduled without it"),
)
"""The first row that has one of a job's codes decides. Shares come after nodes: with more nodes each queue has more."""

CODES = {code: row.condition for row in ROWS for code in row.codes}
_RANK = {code: rank for rank, row in enumerate(ROWS) for code in row.codes}
_CAMEL = re.compile(r"[A-Z][A-Za-z0-9]{0,127}")
_KEPT = frozenset({"SchedulingGated", UNSCHEDULABLE})
"""Words that have a meaning of their own in Kubernetes: no other code may become one of them."""


class Verdict(NamedTuple):
    """What is written about a waiting job."""

    condition: str
    """The `reason` of its conditions."""
    code: str
    """The code that decided."""
    text: str
    """For its pods: why it waits, as far as other jobs do not change it."""
    details: str = ""
    """For the object that its owner submitted: all reasons."""

    never: str = ""
    """Why it can never start as things are; empty: it is not proved."""

    @property
    def says(self) -> str:
        """What a reader acts on: the code, and whether waiting helps."""
        return f"{self.code}/{self.never}" if self.never else self.code

    @property
    def key(self) -> tuple[str, str]:
        """Another key is worth a write; another text alone is not."""
        return self.condition, self.says


def verdict(reasons: tuple[Reason, ...]) -> Verdict:
    """The verdict on a job with these reasons, of which there is at least one."""
    ranked = sorted(reasons, key=_rank) if len(reasons) > 1 else list(reasons)
    if ranked[0].code == LOCKED and (lacks := [r for r in ranked if _lacks_nodes(r)]):
        ranked = [*lacks, *(r for r in ranked if r not in lacks)]  # some of its pods fit nowhere, locked or not
    first = ranked[0]
    lasting = [r for r in ranked if r.code not in VICTIMS] or ranked
    details = "; ".join(dict.fromkeys(r.on_objects for r in lasting))
    code = first.code if first.never is None else first.never.code
    return Verdict(condition_of(first), code, first.on_objects, details)


def _lacks_nodes(reason: Reason) -> bool:
    return reason.code not in VICTIMS and condition_of(reason) == UNSCHEDULABLE


def condition_of(reason: Reason) -> str:
    """The condition for a reason. A code of another plugin is its own, unless it is a refusal by nodes."""
    known = CODES.get(reason.code)
    if known is not None:
        return known
    if reason.nodes:
        return UNSCHEDULABLE
    return reason.code if _CAMEL.fullmatch(reason.code) and reason.code not in _KEPT else OTHER


def _rank(reason: Reason) -> int:
    """Refusals by other plugins come before nodes: new nodes do not remove them."""
    nodes = _RANK["NotEnoughResources"]
    return _RANK.get(reason.code, nodes if reason.nodes else nodes - 1)
