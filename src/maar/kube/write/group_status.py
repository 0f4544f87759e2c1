"""The status of a PodGroup in the words of its own dialect: what its users' tools look at.

Volcano's has phases and conditions, scheduler-plugins' has phases, upstream's has one condition; the first two count
pods.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from maar.kube.client.api import PatchKind
from maar.kube.wire.base import Object
from maar.kube.wire.groups import PluginsGroup, UpstreamGroup, VolcanoGroup
from maar.kube.wire.resources import Resource
from maar.kube.write.status import time_text
from maar.kube.write.work import Patch
from maar.model.jobs import Phase

SCHEDULED = "PodGroupScheduled"
"""Upstream's condition."""
UNSCHEDULABLE = "Unschedulable"
"""Volcano's condition of a group that waits."""
PLUGINS_PHASES = {Phase.RUNNING: "Running", Phase.COMPLETED: "Finished"}
"""Those of scheduler-plugins; before them a group is `Scheduling`."""


class Tally(NamedTuple):
    """How many pods of a group run or have ended, named as every dialect that counts them does."""

    running: int = 0
    succeeded: int = 0
    failed: int = 0

    def since(self, before: Tally) -> dict[str, int]:
        """The counts to write: those that are not zero, or were not."""
        pairs = zip(self._fields, self, before, strict=True)
        return {name: now for name, now, then in pairs if now or then}


def status_patch(resource: Resource[Object], group: Object, status: dict[str, Any]) -> Patch:
    """The patch that writes a part of a group's status."""
    sub = None if isinstance(group, VolcanoGroup) else "status"
    # Custom resources know no strategic patches; upstream's conditions may be others' too, and those stay.
    kind: PatchKind = "strategic" if isinstance(group, UpstreamGroup) else "merge"
    return Patch(resource.path(group.namespace, group.name, sub), {"status": status}, kind)


def status_of(group: Object, phase: Phase, reason: str, code: str, now: float) -> dict[str, Any]:
    """The status of a group in a phase; `reason` and `code` say why it waits, if it does."""
    runs = _runs(phase)
    code = "Scheduled" if runs or not code else code
    if isinstance(group, UpstreamGroup):
        said = {"type": SCHEDULED, "status": "True" if runs else "False", "reason": code}
        said["message"] = reason or "the gang runs"
        # Another reason is no transition: the time of the last one stays, as what is not in the patch does.
        changed = {} if says(group, phase) else {"lastTransitionTime": time_text(now)}
        return {"conditions": [{**said, **changed}]}
    if isinstance(group, PluginsGroup):
        return {"phase": _plugins_phase(phase)}
    condition = {
        "type": "Scheduled" if runs else UNSCHEDULABLE,
        "status": "True",
        "reason": "tasks in gang are ready to be scheduled" if runs else code,
        "message": reason,
        "lastTransitionTime": time_text(now),
        "transitionID": f"{now:.3f}",
    }
    return {"phase": str(phase), **({"conditions": [condition]} if runs or reason else {})}


def says(group: Object, phase: Phase) -> bool:
    """Whether a group's object already has a phase."""
    match group:
        case VolcanoGroup(status=status):
            return status.phase == str(phase)
        case PluginsGroup(status=status):
            return status.phase == _plugins_phase(phase)
        case UpstreamGroup(status=upstream):
            wanted = "True" if _runs(phase) else "False"
            return any(c.type == SCHEDULED and c.status == wanted for c in upstream.conditions)
    return False


def says_why(group: Object, phase: Phase, reason: str) -> bool:
    """Whether a group's object already has a phase and a reason why it waits."""
    match group:
        case VolcanoGroup(status=status):
            said = any(c.type == UNSCHEDULABLE and c.message == reason for c in status.conditions)
        case UpstreamGroup(status=upstream):
            said = any(c.type == SCHEDULED and c.message == reason for c in upstream.conditions)
        case _:
            said = True  # It has no place for reasons.
    return said and says(group, phase)


def tally_of(group: Object) -> Tally | None:
    """The pods that a group's object counts; `None` where the dialect has no counts."""
    if not isinstance(group, VolcanoGroup | PluginsGroup):
        return None
    return Tally(group.status.running, group.status.succeeded, group.status.failed)


def _runs(phase: Phase) -> bool:
    return phase in (Phase.RUNNING, Phase.COMPLETED)


def _plugins_phase(phase: Phase) -> str:
    return PLUGINS_PHASES.get(phase, "Scheduling")
