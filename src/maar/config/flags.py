"""The switches of a plugin: which of its hooks are on.

Volcano spells some `enable...` and some `enabled...`; both are read for all of them. They are stored under the
names in `register.FLAGS`, and only if the file gives them, since plugins may tell "unset" from "on".
"""

from __future__ import annotations

from maar.config.problems import Findings, shown, unknown

FLAGS = {
    "job_order": "jobOrder",
    "queue_order": "queueOrder",
    "namespace_order": "namespaceOrder",
    "task_order": "taskOrder",
    "job_ready": "jobReady",
    "job_nominated": "jobPipelined",
    "job_starving": "jobStarving",
    "job_enqueueable": "jobEnqueued",
    "allocatable": "allocatable",
    "overused": "overused",
    "preemptive": "preemptive",
    "preemptable": "preemptable",
    "reclaimable": "reclaimable",
    "predicate": "predicate",
    "score": "nodeOrder",
    "domains": "hyperNodeGradient",
    "target_job": "targetJob",
    "reserved_nodes": "reservedNodes",
}
"""Which flag of a plugin's configuration switches which hook (`enable` or `enabled` before it)."""

HIERARCHY = "hierarchy"
"""Not a hook: whether drf and capacity look at the tree of queues. Off unless given."""

WITHOUT_EFFECT = {
    "bestNode": "no plugin chooses a node by itself",
    "clusterOrder": "there is one cluster",
    "victim": "there is no `shuffle` that would ask for victims",
    "hyperNodeOrder": "`enableHyperNodeGradient` switches all that a plugin says of HyperNodes",
    "subJobOrder": "groups inside a gang are not told apart",
    "subJobReady": "groups inside a gang are not told apart",
    "subJobPipelined": "groups inside a gang are not told apart",
}
"""Volcano's flags that switch nothing here, and why."""

OFF_UNLESS_GIVEN = {HIERARCHY, "clusterOrder"}


def spellings() -> dict[str, str]:
    """Every way to write a flag, to its name here."""
    flags = [*dict.fromkeys(FLAGS.values()), HIERARCHY, *WITHOUT_EFFECT]
    return {f"{prefix}{flag[0].upper()}{flag[1:]}": flag for flag in flags for prefix in ("enable", "enabled")}


def read_flags(plugin: dict[str, object], path: str, findings: Findings) -> dict[str, bool]:
    """The flags among a plugin's keys; keys that are none are reported."""
    flags: dict[str, bool] = {}
    written: dict[str, str] = {}
    names = spellings()
    for key, value in plugin.items():
        if key in ("name", "arguments"):
            continue
        flag = names.get(key)
        if flag is None:
            findings.problem(path, _unknown_key(key, names))
            continue
        on = as_bool(value)
        if value is None:
            continue
        if on is None:
            findings.problem(f"{path}.{key}", f"expected `true` or `false`, got {shown(value)}")
        elif flags.setdefault(flag, on) is not on:
            findings.problem(f"{path}.{key}", f"contradicts `{written[flag]}`: it is the same flag")
        elif flag in WITHOUT_EFFECT and on is (flag in OFF_UNLESS_GIVEN):
            findings.warn(f"{path}.{key}", f"has no effect: {WITHOUT_EFFECT[flag]}")
        written.setdefault(flag, key)
    return {flag: on for flag, on in flags.items() if flag not in WITHOUT_EFFECT}


def as_bool(value: object) -> bool | None:
    """A truth value as people write it, or nothing if it is none."""
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}.get(value.lower()) if isinstance(value, str) else None


def _unknown_key(key: str, names: dict[str, str]) -> str:
    short = [name for name in names if not name.startswith("enabled")]
    if key.startswith("enable"):
        return unknown("flag", key, short, also=names)
    return unknown("key", key, ["name", "arguments", *short], also=names)
