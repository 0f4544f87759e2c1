"""The flags of a plugin: which of its hooks are on.

Volcano spells some flags `enable...` and some `enabled...`; both are read for every flag. A flag is stored only if the
file sets it, because plugins may distinguish "unset" from "on".
"""

from __future__ import annotations

from collections.abc import Callable

from maar.config.problems import Findings, shown
from maar.model.words import plain

FLAGS = {
    "job_order": "jobOrder",
    "queue_order": "queueOrder",
    "namespace_order": "namespaceOrder",
    "task_order": "taskOrder",
    "job_ready": "jobReady",
    "job_nominated": "jobPipelined",
    "job_starving": "jobStarving",
    "job_enqueueable": "jobEnqueued",
    "beyond_evictions": "jobEnqueued",
    "allocatable": "allocatable",
    "overused": "overused",
    "preemptive": "preemptive",
    "preemptable": "preemptable",
    "reclaimable": "reclaimable",
    "predicate": "predicate",
    "score": "nodeOrder",
    "domains": "hyperNodeGradient",
    "target_job": "targetJob",
    "lock_nodes": "reservedNodes",
    "victim_tasks": "victim",
}
"""The hook, and the flag in a plugin's configuration that switches it (prefixed with `enable` or `enabled`)."""

HIERARCHY = "hierarchy"
"""Not a hook: whether drf, capacity and nodegroup use the tree of queues. Off unless set."""

WITHOUT_EFFECT = {
    "bestNode": "no plugin chooses a node by itself",
    "clusterOrder": "there is one cluster",
    "hyperNodeOrder": "`enableHyperNodeGradient` switches all HyperNode hooks of a plugin",
    "subJobOrder": "Maar does not distinguish groups inside a gang",
    "subJobReady": "Maar does not distinguish groups inside a gang",
    "subJobPipelined": "Maar does not distinguish groups inside a gang",
}
"""Volcano's flags that have no effect in Maar, and why."""

OFF_UNLESS_GIVEN = {HIERARCHY, "clusterOrder"}

ARGUMENT_BESIDE_NAME = "it is an argument: write it under `arguments`"
FLAG_UNDER_ARGUMENTS = "it is a flag: write it beside `name`"


def spellings() -> dict[str, str]:
    """Every spelling of every flag, with the name of the flag."""
    flags = [*dict.fromkeys(FLAGS.values()), HIERARCHY, *WITHOUT_EFFECT]
    return {f"{prefix}{flag[0].upper()}{flag[1:]}": flag for flag in flags for prefix in ("enable", "enabled")}


def read_flags(
    plugin: dict[str, object], path: str, findings: Findings, is_argument: Callable[[str], bool]
) -> dict[str, bool]:
    """The flags of a plugin; keys that are not flags are reported."""
    flags: dict[str, bool] = {}
    written: dict[str, str] = {}
    names = spellings()
    for key, value in plugin.items():
        if key in ("name", "arguments"):
            continue
        flag = names.get(key)
        if flag is None:
            _unknown_key(key, str(plugin.get("name")), path, findings, is_argument)
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
    """A boolean or its text; `None` for anything else."""
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}.get(value.lower()) if isinstance(value, str) else None


def _unknown_key(key: str, plugin: str, path: str, findings: Findings, is_argument: Callable[[str], bool]) -> None:
    names = spellings()
    short = [name for name in names if not name.startswith("enabled")]
    flag = next((name for name in short if _bare(name) == _bare(key)), None)
    if is_argument(key):
        advice = ARGUMENT_BESIDE_NAME
    else:
        advice = f"did you mean `{flag}`?" if flag else ""
    what, known = ("flag", short) if key.startswith("enable") else ("key", ["name", "arguments", *short])
    findings.unknown(path, what, key, known, lost=f"`{plugin}` decides without it", also=names, advice=advice)


def _bare(key: str) -> str:
    """A flag without its prefix, in one spelling: `joborder` for `enableJobOrder`, `enabled-job-order`, `jobOrder`."""
    return plain(key).removeprefix("enabled").removeprefix("enable")
