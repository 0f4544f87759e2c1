"""Verdicts: the one condition that pods and groups of a waiting job get, from its reasons.

A condition is for programs: `Unschedulable` makes autoscalers create nodes, so only reasons that new nodes would remove
have it. What each code means is declared where it arises (`model.codes`); the documentation lists the table. A job has
several reasons at once: the one with the smallest rank decides, because the later ones do not matter until it is gone.
"""

from __future__ import annotations

from typing import NamedTuple

from maar.model import codes
from maar.model.codes import CONDITION, CORE, KEPT, UNSCHEDULABLE, Meaning
from maar.model.reasons import Reason

NOMINATED, BLOCKED, MEMBERS = codes.NOMINATED.condition, codes.BLOCKED.condition, codes.MEMBERS.condition
SURPLUS = "Surplus"
PROVISIONING = "Provisioning"
"""Nodes are missing, and are being asked for by a ProvisioningRequest."""
OTHER = "Waiting"

_CORE = {code.name: code.meaning for code in CORE}


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
    declared: bool = True
    """Whether the code is declared: its text then changes only with the job. False also for a proof of "never"."""

    @property
    def key(self) -> tuple[str, str]:
        """Another key is worth a write; another text alone is not."""
        return self.condition, self.code


def verdict(reasons: tuple[Reason, ...]) -> Verdict:
    """The verdict on a job with these reasons, of which there is at least one."""
    ranked = sorted(reasons, key=lambda r: meaning_of(r).rank) if len(reasons) > 1 else list(reasons)
    if meaning_of(ranked[0]) == codes.NODES_LOCKED and (lacks := [r for r in ranked if _lacks_nodes(r)]):
        ranked = [*lacks, *(r for r in ranked if r not in lacks)]  # some of its pods fit nowhere, locked or not
    first = ranked[0]
    lasting = [r for r in ranked if meaning_of(r) != codes.VICTIMS] or ranked
    details = "; ".join(dict.fromkeys(r.on_objects for r in lasting))
    code = first.code if first.never is None else first.never.code
    return Verdict(
        meaning_of(first).condition,
        code,
        first.on_objects,
        details,
        first.never is None and _declared(first) is not None,
    )


def _lacks_nodes(reason: Reason) -> bool:
    meaning = meaning_of(reason)
    return meaning.condition == UNSCHEDULABLE and meaning != codes.VICTIMS


def _declared(reason: Reason) -> Meaning | None:
    return reason.meaning or _CORE.get(reason.code)


def meaning_of(reason: Reason) -> Meaning:
    """What a reason means: as its plugin or the core declares its code.

    A code that nobody declares is its own condition, unless nodes refuse the job.
    """
    if known := _declared(reason):
        return known
    if reason.nodes:
        return codes.NODES
    is_word = CONDITION.fullmatch(reason.code) and reason.code not in KEPT
    return Meaning(reason.code if is_word else OTHER, "")
