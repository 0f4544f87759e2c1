"""What to write about one job: phases, conditions, notes, events and counts, each only when it changes.

`report` is pure: from one job after a plan, and the record of what was last written about it, to the writes that are
due and the new record. It writes again when the *verdict* changes, which is what a reader acts on; another text alone
is refreshed on one object, when `reports` finds that it is this job's turn. Changes cost tokens, so the writes about a
waiting job are bounded, whatever happens around it. Only the first condition of a pod is free.

After a restart there is no record: what the objects show counts as written.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from maar.controller.reporting.write_rates import WriteTokens
from maar.kube.kinds.status import Tally
from maar.kube.picture.job_objects import NotedObject, Subject
from maar.kube.picture.picture import PodGroup
from maar.kube.wire import annotations as known
from maar.kube.wire.pods import NO_CONDITION, PodCondition
from maar.kube.write.status import waits
from maar.kube.write.work import Patch
from maar.model.codes import UNSCHEDULABLE
from maar.model.jobs import Job, Phase
from maar.model.plan import Wait
from maar.model.verdicts import (
    BLOCKED,
    MEMBERS,
    NOMINATED,
    PROVISIONING,
    SURPLUS,
    Verdict,
    verdict,
)

STANDS = 0.5
"""Seconds for which a verdict must hold before it is written, so that autoscalers see it within a second; tuned by
hand."""
A_MOMENT = 1.5
"""Seconds by which the write of an admission is delayed if no controller waits for it: often the gang runs by then;
tuned by hand."""
A_WHILE = 5.0
"""Seconds of further delay once the group has pods: no reader needs it, and most gangs run by then. Also for a gang
whose pods are being created. Tuned by hand."""
AT_ONCE = 3
"""Changes of the verdict on one job that are written at once."""
PER_SECOND = 1 / 60
"""Changes after those."""
GATED = "SchedulingGated"
"""The reason that the API server gives to pods with scheduling gates; it stays when the gates are gone."""
FREEING = "room is being freed for it"


class Admission(msgspec.Struct, frozen=True):
    """A group's admission that is decided and not written yet."""

    due: float
    late: bool = False
    """The group has pods, so the write is delayed further."""


class Mark(msgspec.Struct, frozen=True):
    """What a pod shows."""

    uid: str
    condition: str
    code: str
    node: str
    """The node that is nominated for it."""


class Record(msgspec.Struct, frozen=True):
    """What was last written about one job, and what is still to be written."""

    group: str = ""
    """UID of the group that was last written."""
    in_status: str = ""
    """What the group's status shows: a phase, or a code."""
    pods: dict[str, Mark] = {}
    """What the job's waiting pods show, by key."""
    noted: tuple[str, str] | None = None
    """Code and text of the note to its owner; empty: it has none. `None`: not known yet."""
    details: str = ""
    """The text on the group."""
    in_event: str = ""
    """The code in the last event."""
    tally: Tally | None = None
    verdict: Verdict | None = None
    """Why the job waits, as of the last cycle that looked at it."""
    surplus: frozenset[str] = frozenset()
    stands_at: float = 0.0
    """When the verdict has held long enough to be written."""
    stood: bool = False
    """Whether it was."""
    bucket: WriteTokens | None = None
    """Tokens for changes; full if it is missing."""
    held_until: float | None = None
    """When a change is written for which there is no token now."""
    admission: Admission | None = None
    stale: bool = False
    """The text for the owner has changed, and nothing else: it is refreshed when it is this job's turn."""

    def unwritten(self) -> Record:
        """The record after a write that failed: only what the objects show is known."""
        return replace(self, group="", in_status="", pods={}, noted=None, details="", tally=None)

    def due(self, now: float) -> float | None:
        """When a write is due because of time alone."""
        moments = (self.verdict and self.stands_at, self.admission and self.admission.due, self.held_until)
        return min((moment for moment in moments if moment and moment > now), default=None)


class Waiting(msgspec.Struct, frozen=True):
    """A pod that waits."""

    key: str
    uid: str = ""
    created: float = 0.0
    blocked: str = ""
    """Why it cannot be placed, whatever room there is."""
    shown: PodCondition = NO_CONDITION
    nominated: str = ""
    """The nominated node, as the object of the pod shows it."""
    node: str = ""
    """The node that is nominated for it."""


class PlannedJob(msgspec.Struct, frozen=True):
    """One job after a plan."""

    job: Job
    phase: Phase
    """After the plan is carried out."""
    subject: Subject | None = None
    wait: Wait | None = None
    looked_at: bool = True
    """False if the plan has no decision about the job, so that its last reason still holds."""
    admitted: bool = False
    moved: bool = False
    """Pods have started or ended, so they must be counted."""
    tally: Tally = Tally()
    has_pods: bool = False
    alone: bool = False
    """The job is a pod that its owner submitted as it is: this pod has the details."""
    waiting: tuple[Waiting, ...] = ()
    """The job's waiting pods, without those that have scheduling gates."""
    may_ask: bool = True
    """False while its pods do not name their ProvisioningRequest: an autoscaler would add nodes for them as well."""
    noted: str | None = None
    """What the note says that is written with the size of a suspended job; `None`: it is not suspended."""
    found: str = ""
    """The same before this process wrote anything about the job."""
    refresh: bool = False
    """It is this job's turn to have its details refreshed."""


class Writes(msgspec.Struct, frozen=True):
    """The writes about one job."""

    patches: tuple[Patch, ...]
    subject: Subject | None
    event: str
    """The text of an event on the subject; empty: no event."""
    code: str = ""
    admitted: bool = False
    """Whether the group's status says from now on that it is admitted: an event on the subject says so too."""
    job: str = ""
    """Empty: the writes are about queues."""
    removes: NotedObject | None = None
    """The object whose note is removed because all of its jobs have gone."""


def report(seen: PlannedJob, record: Record, now: float) -> tuple[Writes, Record]:
    """The writes that are due, and the record once they are written."""
    record = _with_verdict(seen, record, now)
    standing = record.verdict if record.verdict is not None and now >= record.stands_at else None
    record = replace(record, stood=standing is not None)
    if standing is not None and standing.condition == UNSCHEDULABLE and not seen.may_ask:
        standing = standing._replace(condition=PROVISIONING)
    record = _with_group(seen, record, standing, now)
    record = _with_note(seen, record, standing)
    pods = _pods(seen, record, standing)
    allowed, record = True, replace(record, held_until=None, pods={key: one.mark for key, one in pods.items()})
    if standing is not None and _is_change(seen, record, standing, pods, now):
        allowed, record = _spend(record, now)
    admits = record.admission is not None
    status, record = _group_status(seen, record, standing, allowed, now)
    admitted = admits and status is not None and record.in_status == str(Phase.INQUEUE)
    note, record = _note(seen, record, standing, allowed)
    refreshes = seen.refresh and seen.alone and standing is not None
    due = {key: one for key, one in pods.items() if refreshes or (one.is_due and (allowed or one.is_first))}
    record.pods.update((key, one.wanted) for key, one in due.items())
    if seen.alone and standing is not None and allowed:
        shown = next((pod.shown.message for pod in seen.waiting), "")
        record = replace(record, details=standing.details if due else record.details or shown)
    patches = [patch for patch in (status, *(one.patch() for one in due.values()), note) if patch is not None]
    text, code = "", ""
    if standing is not None and allowed:
        told = due or note is not None or (status is not None and record.in_status == standing.code)
        told = told or seen.noted is not None
        if told and record.in_event != standing.code:
            text, code = standing.details, standing.code
        record = replace(record, in_event=standing.code)
    return Writes(tuple(patches), seen.subject, text, code, admitted, seen.job.key), replace(
        record, stale=_is_stale(seen, record, standing, now)
    )


def _with_verdict(seen: PlannedJob, record: Record, now: float) -> Record:
    if seen.wait is None:
        return replace(record, verdict=None, surplus=frozenset(), in_event="") if seen.looked_at else record
    found, before = verdict(seen.wait.reasons), record.verdict
    stands_at = record.stands_at
    if before is None and seen.found and seen.found.startswith(found.text):
        record = replace(record, in_event=found.code)  # a Maar before this one said so
    if before is None or before.key != found.key:
        # Most gangs lack pods only while these are being created.
        fresh = found.condition == MEMBERS and not any(pod.shown.reason for pod in seen.waiting)
        later = now + (A_WHILE if fresh else STANDS)
        # Verdicts that come and go do not delay each other: autoscalers would never see any of them.
        stands_at = min(stands_at, later) if before is not None and not record.stood else later
    if any(pod.node != _node_of(pod, record) for pod in seen.waiting):
        stands_at = now  # victims are leaving, or are spared
    return replace(record, verdict=found, surplus=frozenset(seen.wait.surplus), stands_at=stands_at)


def _spend(record: Record, now: float) -> tuple[bool, Record]:
    """Take a token for a change, or say when there is one."""
    bucket = (record.bucket or WriteTokens(AT_ONCE, now)).filled(now, AT_ONCE, PER_SECOND)
    if bucket.tokens < 1.0:
        return False, replace(record, bucket=bucket, held_until=bucket.next(PER_SECOND))
    return True, replace(record, bucket=bucket.taken())


def _is_change(seen: PlannedJob, record: Record, standing: Verdict, pods: dict[str, PodTexts], now: float) -> bool:
    """Whether an object shows another verdict."""
    if any(one.is_due and not one.is_first for one in pods.values()):
        return True
    if _shows_reason(seen, record, now) and record.in_status != standing.code:
        return True
    if seen.noted is not None and record.in_event not in ("", standing.code):
        return True
    return record.noted is not None and record.noted[0] != standing.code


def _is_stale(seen: PlannedJob, record: Record, standing: Verdict | None, now: float) -> bool:
    """Whether the owner's object shows this verdict with another text."""
    if standing is None or record.held_until is not None:
        return False
    if record.noted is not None:
        return record.noted != (standing.code, standing.details)
    return (seen.alone or _shows_reason(seen, record, now)) and record.details != standing.details


# -- pods


class PodTexts(msgspec.Struct, frozen=True):
    """What a pod shows, and what it should show."""

    pod: Waiting
    mark: Mark
    wanted: Mark
    text: str

    @property
    def is_due(self) -> bool:
        return self.mark != self.wanted

    @property
    def is_first(self) -> bool:
        """Whether it has no condition of ours yet, nor a nominated node."""
        return not self.mark.condition and not self.mark.node

    def patch(self) -> Patch:
        node = self.wanted.node if self.wanted.node != self.mark.node else None
        return waits(self.pod.key, self.wanted.condition, self.text, self.pod.created, node)


def _pods(seen: PlannedJob, record: Record, standing: Verdict | None) -> dict[str, PodTexts]:
    return {pod.key: _on_pod(seen, pod, record, standing) for pod in seen.waiting}


def _on_pod(seen: PlannedJob, pod: Waiting, record: Record, standing: Verdict | None) -> PodTexts:
    uid, mark = pod.uid, record.pods.get(pod.key)
    if mark is None or mark.uid != uid:
        mark = Mark(uid, "", "", pod.nominated)
    if standing is None:
        return PodTexts(pod, mark, mark, "")
    condition, code, text = _wanted(pod, record, standing)
    wanted = Mark(uid, condition, code, pod.node)
    if not mark.condition:
        # The object shows what a Maar before this one wrote, if anything.
        shown = pod.shown.reason if pod.shown.reason != GATED else ""
        fixed = standing.declared or code != standing.code
        same = shown == condition and (pod.shown.message.startswith(text) or not fixed)
        mark = Mark(uid, shown, code if same else "", pod.nominated)
    return PodTexts(pod, mark, wanted, standing.details if seen.alone and text == standing.text else text)


def _wanted(pod: Waiting, record: Record, standing: Verdict) -> tuple[str, str, str]:
    """Condition, code and text for one pod."""
    if pod.node:
        return NOMINATED, NOMINATED, standing.text if standing.code == NOMINATED else FREEING
    if pod.blocked:
        return BLOCKED, BLOCKED, f"held back: {pod.blocked}"
    if standing.condition in (UNSCHEDULABLE, NOMINATED) and pod.key in record.surplus:
        return SURPLUS, standing.code, f"above the minimum of its gang; {standing.text}"
    return standing.condition, standing.code, standing.text


def _node_of(pod: Waiting, record: Record) -> str:
    """The nominated node, as the pod shows it or will show it."""
    mark = record.pods.get(pod.key)
    return mark.node if mark is not None and mark.uid == pod.uid else pod.nominated


# -- the note to the owner


def _with_note(seen: PlannedJob, record: Record, standing: Verdict | None) -> Record:
    if seen.subject is None or seen.subject.note is None:
        return replace(record, noted=None)
    shown = seen.subject.note.shown
    if record.noted is not None:
        return record
    if standing is not None:
        return replace(record, noted=(standing.code if shown.startswith(standing.text) else "", shown))
    return replace(record, noted=("", shown)) if record.verdict is None and seen.looked_at else record


def _note(seen: PlannedJob, record: Record, standing: Verdict | None, allowed: bool) -> tuple[Patch | None, Record]:
    if record.noted is None or seen.subject is None or seen.subject.note is None:
        return None, record
    code, text = record.noted
    if standing is not None:
        due = code != standing.code if not seen.refresh else (code, text) != (standing.code, standing.details)
        if not due or not allowed:
            return None, record
        wanted = (standing.code, standing.details)
    elif record.verdict is None and text and seen.looked_at:
        wanted = ("", "")
    else:
        return None, record
    body = {"metadata": {"annotations": {known.WHY: wanted[1] or None}}}
    return Patch(seen.subject.note.path, body, "merge"), replace(record, noted=wanted)


# -- the group


def _with_group(seen: PlannedJob, record: Record, standing: Verdict | None, now: float) -> Record:
    """The record with what the group already shows, if nothing was written to it yet."""
    group = None if seen.subject is None else seen.subject.group
    if group is None:
        return record
    uid, rules = group.item.metadata.uid, group.kind.status
    if record.group != uid:
        # Another group of the same name, for example of an elastic job that was suspended and resumed.
        record = replace(record, group=uid, in_status="", details="", tally=None)
    record = replace(record, admission=_admission(seen, record, group, now))
    if record.in_status:
        return record
    if _tells_phase(seen, record, group, now):
        return replace(record, in_status=str(seen.phase)) if rules.says(group.item, seen.phase) else record
    if standing is None:
        return record
    if rules.says_why is None:
        return replace(record, in_status=str(seen.phase)) if rules.says(group.item, seen.phase) else record
    shown = rules.says_why(group.item, seen.phase, standing.condition)
    same = shown is not None and shown.startswith(standing.text)
    return replace(record, in_status=standing.code, details=shown or "") if same else record


def _tells_phase(seen: PlannedJob, record: Record, group: PodGroup, now: float) -> bool:
    """Whether the group's status is to show its phase, not why it waits."""
    admits = record.admission is not None and (_is_awaited(group) or now >= record.admission.due)
    return admits or seen.phase in (Phase.RUNNING, Phase.COMPLETED)


def _shows_reason(seen: PlannedJob, record: Record, now: float) -> bool:
    """Whether the group's status is to show why it waits."""
    group = None if seen.subject is None else seen.subject.group
    if group is None or group.kind.status.says_why is None:
        return False
    return not _tells_phase(seen, record, group, now)


def _group_status(
    seen: PlannedJob, record: Record, standing: Verdict | None, allowed: bool, now: float
) -> tuple[Patch | None, Record]:
    subject = seen.subject
    if subject is None or (group := subject.group) is None:
        return None, record
    rules, status = group.kind.status, dict[str, Any]()
    details, condition = (standing.details, standing.condition) if standing is not None else ("", "")
    if _tells_phase(seen, record, group, now) or (standing is not None and rules.says_why is None):
        text, due = str(seen.phase), True
    else:
        text, due = "" if standing is None else standing.code, allowed
    refreshes = seen.refresh and record.noted is None and _shows_reason(seen, record, now) and record.details != details
    if text and due and (text != record.in_status or refreshes):
        status = rules.of(group.item, seen.phase, details, condition, now)
        record = replace(record, in_status=text, details=details, admission=None)
    before = record.tally or rules.tally(group.item)
    if (seen.moved or status) and before is not None:
        if status or seen.tally != before:
            status |= seen.tally.since(before)
        record = replace(record, tally=seen.tally)
    if not status:
        return None, record
    item = group.item
    return Patch(subject.resource.path(item.namespace, item.name, rules.sub), {"status": status}, rules.patch), record


def _admission(seen: PlannedJob, record: Record, group: PodGroup, now: float) -> Admission | None:
    """The admission that is still to be written.

    Most groups that are created together with their pods run a moment later: the delay saves one write for each.
    """
    admission = record.admission or (Admission(now + A_MOMENT) if seen.admitted else None)
    if admission is None or seen.phase is not Phase.INQUEUE or group.kind.status.says(group.item, seen.phase):
        return None
    if now >= admission.due and not admission.late and seen.has_pods and not _is_awaited(group):
        return Admission(now + A_WHILE, late=True)
    return admission


def _is_awaited(group: PodGroup) -> bool:
    """Whether a controller waits for the admission before it creates pods."""
    return any(owner.controller for owner in group.item.metadata.owner_references)
