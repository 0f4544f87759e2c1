"""What users of Voda state: in the environment of an MPIJob's launcher, and by a node selector.

`NUM_PROC` or `NP`, `MIN_NUM_PROC` or `MIN_NP`, `MAX_NUM_PROC` or `MAX_NP` count processes; a worker runs
`slotsPerWorker` of them. `JOB_PRIORITY` counts down: 0 is the most important there, and higher is with us.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from maar.kube.kinds.elastic import Bound
from maar.kube.kinds.kubeflow.family import Spec
from maar.kube.wire.values import whole

ACCELERATOR = "vodascheduler/accelerator"
"""The node selector that names the accelerator of a job, and so its pool."""


class VodaStated(msgspec.Struct, kw_only=True):
    """What a job states in Voda's variables; the fields are those of `Stated`."""

    least: Bound = Bound()
    most: Bound = Bound()
    requested: int = 0
    priority: int | None = None
    epochs: int | None = None
    category: str = ""
    pool: str = ""
    problem: str = ""


def said(spec: Spec) -> VodaStated:
    """Everything that a job states; without bounds it is not a job of Voda, and its variables mean nothing."""
    found = VodaStated()
    for role in ("Launcher", "Worker"):
        replica = spec.roles.get(role)
        if replica is not None:
            found.pool = replica.template.spec.node_selector.get(ACCELERATOR) or found.pool
    launcher = spec.roles.get("Launcher")
    if launcher is None:
        return found
    env = {v.name: v.value for c in launcher.template.spec.containers for v in c.env if v.value}
    slots = max(spec.slots_per_worker, 1)
    found.least = _processes(env, slots, "MIN_NUM_PROC", "MIN_NP")
    found.most = _processes(env, slots, "MAX_NUM_PROC", "MAX_NP")
    if not (found.least.field or found.most.field):
        return found
    number = _processes(env, slots, "NUM_PROC", "NP")
    found.requested = number.value or 0
    priority, epochs = _number(env, 0, "JOB_PRIORITY"), _number(env, 1, "EPOCHS")
    found.priority = None if priority.value is None else -priority.value
    found.epochs = epochs.value
    found.category = env.get("JOB_NAME", "")
    found.problem = number.problem or priority.problem or epochs.problem
    return found


def _processes(env: Mapping[str, str], slots: int, *names: str) -> Bound:
    found = _number(env, 0, *names)
    return found if found.value is None else found._replace(value=-(-found.value // slots))


def _number(env: Mapping[str, str], least: int, *names: str) -> Bound:
    for name in names:
        if name in env:
            field = f"`{name}` of the launcher"
            try:
                return Bound(whole(env[name], least), field)
            except ValueError as error:
                return Bound(None, field, f"{field}: {error}")
    return Bound()
