"""The disruption controller: counts how many pods each disruption budget still lets go."""

from __future__ import annotations

from collections.abc import Iterable

from maar.embedded.objects.api import Api
from maar.embedded.objects.errors import Obj
from maar.embedded.objects.evictions import budget_selector, is_ready
from maar.embedded.objects.kinds import BUDGETS, JOBS, PODS
from maar.embedded.objects.store import Event, Item
from maar.embedded.parts.dirty import Dirty


class Budgets:
    """Keeps the status of every disruption budget current."""

    def __init__(self) -> None:
        self.dirty: Dirty[str] = Dirty(self._count, delay=0.02)

    def open(self, api: Api) -> None:
        """Count all budgets and start listening."""
        self.api = api
        for kind in (BUDGETS, PODS):
            api.store.table(kind).listeners.append(self._listen)
        for item in api.objects(BUDGETS):
            self.dirty.add(item.obj["metadata"]["namespace"])

    def close(self) -> None:
        for kind in (BUDGETS, PODS):
            self.api.store.table(kind).listeners.remove(self._listen)
        self.dirty.close()

    def _listen(self, event: Event) -> None:
        if self.api.store.table(BUDGETS).items:
            self.dirty.add(event.key[0])

    def _count(self, namespace: str) -> None:
        budgets = [key for key in self.api.store.table(BUDGETS).items if key[0] == namespace]
        if not budgets:
            return
        pods = [item for item in self.api.objects(PODS) if item.obj["metadata"]["namespace"] == namespace]
        for key in sorted(budgets):
            self.api.change(BUDGETS, *key, lambda budget: self._counted(budget, pods), part="status")

    def _counted(self, budget: Obj, pods: list[Item]) -> Obj:
        chosen = budget_selector(budget)
        covered = [item.obj for item in pods if chosen.matches(item.obj["metadata"].get("labels") or {})]
        covered = [pod for pod in covered if pod["status"].get("phase") not in ("Succeeded", "Failed")]
        status = budget.get("status") or {}
        disrupted = {
            name: time
            for name, time in (status.get("disruptedPods") or {}).items()
            if any(p["metadata"]["name"] == name and not p["metadata"].get("deletionTimestamp") for p in covered)
        }
        healthy = [
            pod
            for pod in covered
            if is_ready(pod)
            and not pod["metadata"].get("deletionTimestamp")
            and pod["metadata"]["name"] not in disrupted
        ]
        expected = self._expected(covered)
        desired = _desired(budget.get("spec") or {}, expected)
        budget["status"] = {
            **{k: v for k, v in status.items() if k not in ("disruptedPods",)},
            **({"disruptedPods": disrupted} if disrupted else {}),
            "currentHealthy": len(healthy),
            "desiredHealthy": desired,
            "disruptionsAllowed": max(len(healthy) - desired, 0) if expected else 0,
            "expectedPods": expected,
            "observedGeneration": budget["metadata"]["generation"],
        }
        return budget

    def _expected(self, pods: list[Obj]) -> int:
        """How many pods should exist: the parallelism of their Jobs, plus the pods without a Job."""
        jobs: set[str] = set()
        alone = 0
        for pod in pods:
            owner = next((o for o in pod["metadata"].get("ownerReferences") or [] if o.get("controller")), None)
            if owner is not None and owner["kind"] == "Job":
                jobs.add(owner["uid"])
            else:
                alone += 1
        made: Iterable[Obj] = (item.obj for item in self.api.objects(JOBS) if item.obj["metadata"]["uid"] in jobs)
        return alone + sum(int(job["spec"].get("parallelism", 1)) for job in made)


def _desired(spec: Obj, expected: int) -> int:
    if "maxUnavailable" in spec:
        return max(expected - _scaled(spec["maxUnavailable"], expected), 0)
    return _scaled(spec.get("minAvailable", 0), expected)


def _scaled(value: int | str, of: int) -> int:
    """A count, or a percentage of `of`, rounded up."""
    if isinstance(value, int):
        return value
    return -(-int(value.removesuffix("%") or 0) * of // 100)
