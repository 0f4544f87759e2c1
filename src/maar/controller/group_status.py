"""The status of a PodGroup in the words of its own dialect: what its users' tools look at.

Volcano's has phases and conditions, scheduler-plugins' phases, upstream's one condition; the first two count pods.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from maar.controller.tallies import Tally
from maar.kube.wire.base import Object
from maar.kube.wire.groups import GroupStatus, PluginsGroup, UpstreamGroup, VolcanoGroup
from maar.model.jobs import Phase
from maar.model.plan import Wait

COUNTING = ("volcano_groups", "plugins_groups")
"""Homes of groups whose status counts pods."""
SCHEDULED = "PodGroupScheduled"
"""Upstream's condition."""
UNSCHEDULABLE = "Unschedulable"
"""Volcano's, of a group that waits."""
PLUGINS_PHASES = {Phase.RUNNING: "Running", Phase.COMPLETED: "Finished"}
"""Those of scheduler-plugins; before them a group is `Scheduling`."""


def status_of(group: Object, phase: Phase, line: str, wait: Wait | None, now: float) -> dict[str, Any]:
    """What is to be written of a group that stands at a phase, or waits for the reasons in a line."""
    runs = _runs(phase)
    reason = "Scheduled" if runs or wait is None else wait.reasons[0].code
    if isinstance(group, UpstreamGroup):
        said = {"type": SCHEDULED, "status": "True" if runs else "False", "reason": reason}
        said["message"] = line or "the gang runs"
        # Another reason is no transition: the time of the last one stays, as what is not in the patch does.
        changed = {} if says(group, phase) else {"lastTransitionTime": text_of(now)}
        return {"conditions": [{**said, **changed}]}
    if isinstance(group, PluginsGroup):
        return {"phase": _plugins_phase(phase)}
    condition = {
        "type": "Scheduled" if runs else UNSCHEDULABLE,
        "status": "True",
        "reason": "tasks in gang are ready to be scheduled" if runs else reason,
        "message": line,
        "lastTransitionTime": text_of(now),
        "transitionID": f"{now:.3f}",
    }
    return {"phase": str(phase), **({"conditions": [condition]} if runs or line else {})}


def says(group: Object, phase: Phase) -> bool:
    """Whether a group's object says already that it stands there."""
    match group:
        case VolcanoGroup(status=status):
            return status.phase == str(phase)
        case PluginsGroup(status=status):
            return status.phase == _plugins_phase(phase)
        case UpstreamGroup(status=upstream):
            wanted = "True" if _runs(phase) else "False"
            return any(c.type == SCHEDULED and c.status == wanted for c in upstream.conditions)
    return False


def says_why(group: Object, phase: Phase, line: str) -> bool:
    """Whether a group's object says already that it waits there for the reasons in a line."""
    match group:
        case VolcanoGroup(status=status):
            said = any(c.type == UNSCHEDULABLE and c.message == line for c in status.conditions)
        case UpstreamGroup(status=upstream):
            said = any(c.type == SCHEDULED and c.message == line for c in upstream.conditions)
        case _:
            said = True  # It has no place for reasons.
    return said and says(group, phase)


def counted_before(group: Object) -> Tally:
    """What a group's object says of its pods."""
    status = getattr(group, "status", None)
    return Tally(status.running, status.succeeded, status.failed) if isinstance(status, GroupStatus) else Tally()


def text_of(now: float) -> str:
    """A time as Kubernetes writes it."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _runs(phase: Phase) -> bool:
    return phase in (Phase.RUNNING, Phase.COMPLETED)


def _plugins_phase(phase: Phase) -> str:
    return PLUGINS_PHASES.get(phase, "Scheduling")
