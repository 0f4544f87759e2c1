"""A simulation of the Kubeflow training operator: PyTorchJobs and MPIJobs of `kubeflow.org/v1`.

It serves their definitions and creates pods for each role with the labels of the real operator. When a role shrinks, it
deletes the pods with the highest indices. It deletes all pods of a suspended job, and writes the state of a job to its
conditions. It replaces a failed pod if the restart policy of the role allows it; otherwise the job fails. It follows
the observed behaviour of the real operator (v1.8.1).
"""

from __future__ import annotations

from collections import Counter
from functools import partial

from maar.embedded.objects.api import Api
from maar.embedded.objects.errors import ApiError, Obj
from maar.embedded.objects.kinds import CRDS, PODS, Kind
from maar.embedded.objects.metadata import now
from maar.embedded.objects.pods import set_condition
from maar.embedded.objects.store import Item
from maar.embedded.parts.controlled import Controlled
from maar.kube.kinds.kubeflow.family import INDEX_LABEL, ROLE_LABEL, member

GROUP, VERSION = "kubeflow.org", "v1"
ROLES = {"PyTorchJob": "pytorchReplicaSpecs", "MPIJob": "mpiReplicaSpecs"}
LEADERS = {"PyTorchJob": "Master", "MPIJob": "Launcher"}
"""The role that decides whether a job has succeeded."""
RESTARTS = {"PyTorchJob": "OnFailure", "MPIJob": "Never"}
"""The default restart policy of a role."""
ENDS = ("Succeeded", "Failed")


def definition(kind: str) -> Obj:
    """A definition that accepts any spec. A real cluster has the operator's own definition."""
    plural = f"{kind.lower()}s"
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version: Obj = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything, "status": anything}}},
    }
    if kind == "PyTorchJob":
        of = f"{ROLES[kind]}.Worker.replicas"
        version["subresources"]["scale"] = {
            "specReplicasPath": f".spec.{of}",
            "statusReplicasPath": ".status.replicaStatuses.Worker.active",
        }
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    spec = {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]}
    return {"metadata": {"name": f"{plural}.{GROUP}"}, "spec": spec}


class TrainingOperator:
    """The part that runs the operator."""

    def __init__(self, delay: float = 0.0) -> None:
        """`delay`: seconds between a change and the reaction of the operator."""
        self._delay = delay
        self._served: list[Controlled] = []
        self._remade: Counter[str] = Counter()
        """How many failed pods of each job were replaced, by the uid of the job."""

    def open(self, api: Api) -> None:
        """Serve the kinds, look at all jobs, and start listening."""
        self.api = api
        for name in ROLES:
            crd = definition(name)
            if ("", crd["metadata"]["name"]) not in api.store.table(CRDS).items:
                api.create(CRDS, "", crd)
            kind = api.kind(GROUP, VERSION, f"{name.lower()}s")
            self._served.append(Controlled(api, kind, partial(self._look, kind), self._delay))

    def close(self) -> None:
        for served in self._served:
            served.close()

    def _look(self, kind: Kind, item: Item, pods: list[Obj]) -> None:
        about = item.obj["metadata"]
        state = _State(kind.kind, item.copy(), pods, self._remade[about["uid"]])
        try:
            for pod in state.leaving():
                self.api.delete(PODS, pod["metadata"]["namespace"], pod["metadata"]["name"])
            for pod in state.missing():
                self.api.create(PODS, about["namespace"], pod)
        except ApiError:
            return  # the namespace is being deleted or a template is refused: the operator cannot help
        self._remade[about["uid"]] = state.remade
        self.api.change(kind, about["namespace"], about["name"], state.written, part="status")


class _State:
    """One job with its pods, and the next actions for it."""

    def __init__(self, kind: str, job: Obj, pods: list[Obj], remade: int) -> None:
        self.kind, self.job, self.pods, self.remade = kind, job, pods, remade
        spec = job["spec"]
        self.policy: Obj = spec.get("runPolicy") or {}
        self.roles: dict[str, Obj] = spec.get(ROLES[kind]) or {}
        self.suspended = bool(self.policy.get("suspend"))
        status = job.get("status") or {}
        self.ended = any(c["type"] in ENDS and c["status"] == "True" for c in status.get("conditions") or [])
        self.failure = "" if self.ended or self.suspended else self._failure()
        self.success = not (self.ended or self.suspended or self.failure) and self._success()

    def replicas(self, role: str) -> int:
        number: int = self.roles[role].get("replicas", 1)
        return number

    def of(self, role: str, *phases: str) -> list[Obj]:
        """The pods of a role, sorted by index; only pods in the given phases, if any are given."""
        found = [p for p in self.pods if p["metadata"]["labels"].get(ROLE_LABEL) == role.lower()]
        return sorted((p for p in found if not phases or p["status"].get("phase") in phases), key=_index)

    def _restarts(self, role: str) -> bool:
        return self.roles[role].get("restartPolicy", RESTARTS[self.kind]) in ("OnFailure", "Always")

    def _failure(self) -> str:
        """Why the job has failed; empty if it has not."""
        limit = self.policy.get("backoffLimit")
        for role in self.roles:
            failed = [p for p in self.of(role, "Failed") if not p["metadata"].get("deletionTimestamp")]
            if failed and not self._restarts(role):
                return f"{len(failed)} {role} replica(s) failed"
            if failed and limit is not None and self.remade + len(failed) > limit:
                return "the backoff limit is reached"
        return ""

    def _success(self) -> bool:
        leader = LEADERS[self.kind]
        role = leader if leader in self.roles else "Worker"
        if role not in self.roles:
            return False
        done = len(self.of(role, "Succeeded"))
        return done >= max(self.replicas(role), 1) or (
            role == "Worker" and done > 0 and "elasticPolicy" in self.job["spec"]
        )

    def leaving(self) -> list[Obj]:
        if self.suspended and not self.ended:
            gone = self.pods
        elif self.ended:
            clean = self.policy.get("cleanPodPolicy", "None")
            kept = ENDS if clean == "Running" else () if clean == "All" else ("Pending", "Running", *ENDS)
            gone = [p for p in self.pods if p["status"].get("phase") not in kept]
        elif self.failure or self.success:
            return []
        else:
            gone = [p for role in self.roles for p in self.of(role) if _index(p) >= self.replicas(role)]
            failed = [p for role in self.roles if self._restarts(role) for p in self.of(role, "Failed")]
            failed = [p for p in failed if not p["metadata"].get("deletionTimestamp") and p not in gone]
            self.remade += len(failed)
            gone += failed
        return [p for p in gone if not p["metadata"].get("deletionTimestamp")]

    def missing(self) -> list[Obj]:
        """Pods to create. A terminating pod keeps its name until it is gone."""
        if self.ended or self.suspended or self.failure or self.success:
            return []
        made = []
        for role in self.roles:
            present = {_index(pod) for pod in self.of(role)}
            made += [self._pod(role, index) for index in range(self.replicas(role)) if index not in present]
        return made

    def _pod(self, role: str, index: int) -> Obj:
        about, spec = self.job["metadata"], self.roles[role]
        template = Item(spec["template"], 0).copy()
        metadata = template.get("metadata") or {}
        made = member(self.kind, about["name"], self.roles, role, index)
        owner = {"apiVersion": f"{GROUP}/{VERSION}", "kind": self.kind, "name": about["name"], "uid": about["uid"]}
        return {
            "metadata": {
                "name": made.name,
                "labels": {**(metadata.get("labels") or {}), **made.labels},
                "annotations": metadata.get("annotations") or {},
                "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
            },
            "spec": template.get("spec") or {},
        }

    def written(self, job: Obj) -> Obj:
        """The job with its current status."""
        status = dict(job.get("status") or {})
        status["conditions"] = [dict(c) for c in status.get("conditions") or []]
        set_condition(status, "Created", "True", f"{self.kind}Created", f"{self.kind} is created.")
        status["replicaStatuses"] = {role: self._counts(role) for role in self.roles}
        if self.suspended and not self.ended:
            self._turn(status, "Suspended", f"{self.kind} is suspended.")
        elif self.failure:
            self._turn(status, "Failed", f"{self.kind} is failed because {self.failure}.")
            status.setdefault("completionTime", now())
        elif self.success:
            self._turn(status, "Succeeded", f"{self.kind} is successfully completed.")
            status.setdefault("completionTime", now())
        elif not self.ended:
            if any(c["type"] == "Suspended" and c["status"] == "True" for c in status["conditions"]):
                set_condition(status, "Suspended", "False", f"{self.kind}Resumed", f"{self.kind} is resumed.")
            status.setdefault("startTime", now())
            leader = LEADERS[self.kind]
            if self.of("Worker", "Failed"):
                self._turn(status, "Restarting", f"{self.kind} is restarting because some replicas failed.")
            elif self.of(leader if leader in self.roles else "Worker", "Running"):
                self._turn(status, "Running", f"{self.kind} is running.")
        return {**job, "status": status}

    def _counts(self, role: str) -> Obj:
        counts = {
            "active": len([p for p in self.of(role, "Running") if not p["metadata"].get("deletionTimestamp")]),
            "succeeded": len(self.of(role, "Succeeded")),
            "failed": len(self.of(role, "Failed")),
        }
        return {name: count for name, count in counts.items() if count}

    def _turn(self, status: Obj, type: str, message: str) -> None:
        """Set one condition to true, and the conditions that it excludes to false."""
        set_condition(status, type, "True", f"{self.kind}{type}", message)
        for other in ("Running", "Restarting"):
            if other != type and any(c["type"] == other for c in status["conditions"]):
                set_condition(status, other, "False", f"{self.kind}{type}", message)


def _index(pod: Obj) -> int:
    return int(pod["metadata"]["labels"].get(INDEX_LABEL, 0))
