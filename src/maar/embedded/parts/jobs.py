"""The controller for `batch/v1` Jobs: creates pods, replaces lost pods, and writes the status of jobs.

It has the part of the Job controller that the simulated cluster needs. It replaces pods as soon as they are evicted,
deleted or lost with their node. A failed pod counts against `backoffLimit`. A suspended job has no pods.
"""

from __future__ import annotations

from maar.embedded.objects.api import Api
from maar.embedded.objects.errors import ApiError, Obj
from maar.embedded.objects.kinds import JOBS, PODS
from maar.embedded.objects.metadata import now
from maar.embedded.objects.store import Item
from maar.embedded.parts.controlled import Controlled
from maar.kube.kinds.batchjob import INDEX_LABEL, member

MOST_AT_ONCE = 500
"""How many pods one pass over a job creates, as in the real controller. The next pass creates the rest."""


class Jobs:
    """The Job controller."""

    def open(self, api: Api) -> None:
        """Look at all jobs, and start listening."""
        self.api = api
        self._jobs = Controlled(api, JOBS, self._look)

    def close(self) -> None:
        self._jobs.close()

    def _look(self, item: Item, pods: list[Obj]) -> None:
        job = item.obj
        tally = _Tally(job, pods)
        if not tally.ended:
            try:
                self._bring_to(job, tally)
            except ApiError:
                return  # the namespace is being deleted or the template is refused: the controller cannot help
        about = job["metadata"]
        self.api.change(JOBS, about["namespace"], about["name"], lambda obj: tally.written(obj), part="status")

    def _bring_to(self, job: Obj, tally: _Tally) -> None:
        """Delete surplus pods or create missing ones."""
        wanted, active = tally.wanted, tally.active
        for pod in active[wanted:]:
            self.api.delete(PODS, pod["metadata"]["namespace"], pod["metadata"]["name"])
        missing = min(wanted - len(active), MOST_AT_ONCE)
        for index in tally.free_indices(missing):
            self.api.create(PODS, job["metadata"]["namespace"], _pod(job, index))


class _Tally:
    """The state of a job, derived from its pods."""

    def __init__(self, job: Obj, pods: list[Obj]) -> None:
        self.job = job
        spec = job["spec"]
        self.active = [p for p in pods if _lives(p)]
        self.succeeded = [p for p in pods if p["status"].get("phase") == "Succeeded"]
        self.failed = [p for p in pods if p["status"].get("phase") == "Failed"]
        self.ended = any(
            c["type"] in ("Complete", "Failed") and c["status"] == "True"
            for c in (job.get("status") or {}).get("conditions") or []
        )
        parallelism, completions = spec.get("parallelism", 1), spec.get("completions")
        if completions is None:
            self.complete = bool(self.succeeded) and not self.active
            self.wanted = 0 if self.succeeded else parallelism
            self.wanted = max(self.wanted, len(self.active)) if self.succeeded else self.wanted
        else:
            self.complete = len(self.succeeded) >= completions
            self.wanted = min(parallelism, completions - len(self.succeeded))
        self.exhausted = len(self.failed) > spec.get("backoffLimit", 6)
        if spec.get("suspend") or self.complete or self.exhausted:
            self.wanted = 0

    def free_indices(self, number: int) -> list[int]:
        """The lowest unused indices. Indexed jobs number their pods with them; other jobs use only the count."""
        taken = {_index(pod) for pod in (*self.active, *self.succeeded)}
        free: list[int] = []
        index = 0
        while len(free) < number:
            if index not in taken:
                free.append(index)
            index += 1
        return free

    def written(self, job: Obj) -> Obj | None:
        """The job with its current status; `None` once it has ended."""
        if self.ended:
            return None
        status = dict(job.get("status") or {})
        counts = {"active": len(self.active), "succeeded": len(self.succeeded), "failed": len(self.failed)}
        counts["ready"] = sum(p["status"].get("phase") == "Running" for p in self.active)
        status = {**{k: v for k, v in status.items() if k not in counts}, **{k: v for k, v in counts.items() if v}}
        if not job["spec"].get("suspend"):
            status.setdefault("startTime", now())
        for done, type in ((self.complete, "Complete"), (self.exhausted, "Failed")):
            if done:
                times = {"lastProbeTime": now(), "lastTransitionTime": now()}
                reason = "CompletionsReached" if type == "Complete" else "BackoffLimitExceeded"
                status["conditions"] = [{"type": type, "status": "True", "reason": reason, **times}]
                status["completionTime"] = now()
                break
        return {**job, "status": status}


def _lives(pod: Obj) -> bool:
    return not pod["metadata"].get("deletionTimestamp") and pod["status"].get("phase") not in ("Succeeded", "Failed")


def _index(pod: Obj) -> int:
    return int((pod["metadata"].get("annotations") or {}).get(INDEX_LABEL, -1))


def _pod(job: Obj, index: int) -> Obj:
    template, about = Item(job["spec"]["template"], 0).copy(), job["metadata"]
    metadata = template.setdefault("metadata", {})
    indexed = job["spec"].get("completionMode") == "Indexed"
    made = member(about["name"], index, indexed)
    metadata["annotations"] = {**(metadata.get("annotations") or {}), **made.annotations}
    metadata["labels"] = {**(metadata.get("labels") or {}), **made.labels}
    owner = {"apiVersion": JOBS.api_version, "kind": "Job", "name": about["name"], "uid": about["uid"]}
    metadata["generateName"] = f"{made.name if indexed else about['name']}-"
    metadata["ownerReferences"] = [{**owner, "controller": True, "blockOwnerDeletion": True}]
    return {"metadata": metadata, "spec": template.get("spec") or {}}
