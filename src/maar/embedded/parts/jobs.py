"""The controller for `batch/v1` Jobs: creates pods, replaces lost pods, and writes the status of jobs.

It has the part of the Job controller that the simulated cluster needs. It replaces pods as soon as they are evicted,
deleted or lost with their node. A failed pod counts against `backoffLimit`. A suspended job has no pods.
"""

from __future__ import annotations

from maar.embedded.objects.api import Api
from maar.embedded.objects.errors import ApiError, Obj
from maar.embedded.objects.kinds import JOBS, PODS
from maar.embedded.objects.metadata import now
from maar.embedded.objects.store import Event, Item, Key
from maar.embedded.parts.dirty import Dirty
from maar.kube.kinds.batchjob import INDEX_LABEL, member

MOST_AT_ONCE = 500
"""How many pods one pass over a job creates, as in the real controller. The next pass creates the rest."""


class Jobs:
    """The Job controller."""

    def __init__(self) -> None:
        self.pods: dict[str, set[Key]] = {}
        """The pods of each job, by the job's uid."""
        self.dirty: Dirty[Key] = Dirty(self._look)

    def open(self, api: Api) -> None:
        """Record all pods, look at all jobs, and start listening."""
        self.api = api
        for item in api.objects(PODS):
            self._learn(Event("ADDED", (item.obj["metadata"]["namespace"], item.obj["metadata"]["name"]), item, None))
        for key in api.store.table(JOBS).items:
            self.dirty.add(key)
        api.store.table(PODS).listeners.append(self._learn)
        api.store.table(JOBS).listeners.append(self._listen)

    def close(self) -> None:
        self.api.store.table(PODS).listeners.remove(self._learn)
        self.api.store.table(JOBS).listeners.remove(self._listen)
        self.dirty.close()

    def _listen(self, event: Event) -> None:
        if event.type == "DELETED":
            self.pods.pop(event.item.obj["metadata"]["uid"], None)
        self.dirty.add(event.key)

    def _learn(self, event: Event) -> None:
        for owner in event.item.obj["metadata"].get("ownerReferences") or ():
            if owner.get("controller") and owner["kind"] == "Job" and owner["apiVersion"] == JOBS.api_version:
                pods = self.pods.setdefault(owner["uid"], set())
                if event.type == "DELETED":
                    pods.discard(event.key)
                else:
                    pods.add(event.key)
                self.dirty.add((event.key[0], owner["name"]))

    def _look(self, key: Key) -> None:
        item = self.api.store.table(JOBS).items.get(key)
        if item is None or item.obj["metadata"].get("deletionTimestamp"):
            return
        job, uid = item.obj, item.obj["metadata"]["uid"]
        table = self.api.store.table(PODS).items
        pods = [table[pod].obj for pod in sorted(self.pods.get(uid, ())) if pod in table]
        tally = _Tally(job, pods)
        if not tally.ended:
            try:
                self._bring_to(job, tally)
            except ApiError:
                return  # the namespace is being deleted or the template is refused: the controller cannot help
        self.api.change(JOBS, *key, lambda obj: tally.written(obj), part="status")

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
