"""What a job's owner annotates for single plugins of Volcano: its disruption budget and its task topology.

These are wishes. A malformed one counts as missing, with its problem for the reason that the plugin gives, and the job
is scheduled without it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from maar.kube.wire import annotations as known
from maar.kube.wire.annotations import LONGEST_PROBLEM, LONGEST_VALUE
from maar.model.jobs import JobBudget, TaskTopology

_AMOUNT = re.compile(r"(\d{1,9})(%?)", re.ASCII)
_BUDGETS = {known.JDB_MIN_AVAILABLE: True, known.JDB_MAX_UNAVAILABLE: False}
"""The annotation, and whether it says what stays. The first one counts, as in Volcano."""


def budget_of(annotations: Mapping[str, str]) -> JobBudget | None:
    """The budget that a job states, for example `2` or `30%`."""
    for key, stays in _BUDGETS.items():
        if text := annotations.get(key):
            return _budget(key, text[: LONGEST_VALUE + 1], stays)
    return None


@lru_cache(maxsize=4096)
def _budget(key: str, text: str, stays: bool) -> JobBudget:
    found = _AMOUNT.fullmatch(text)
    if found is None or (found[2] and int(found[1]) > 100):
        return JobBudget(0, problem=_problem(key, f"expected a whole number or a percentage, got `{text}`"))
    return JobBudget(int(found[1]), bool(found[2]), stays)


def topology_of(annotations: Mapping[str, str]) -> TaskTopology | None:
    """The task topology that a job states."""
    keys = (known.TASK_AFFINITY, known.TASK_ANTI_AFFINITY, known.TASK_ORDER)
    texts = tuple(annotations.get(key, "") for key in keys)
    if not any(texts):
        return None
    for key, text in zip(keys, texts, strict=True):
        if len(text) > LONGEST_VALUE:
            return TaskTopology(problem=_problem(key, f"{len(text)} characters, expected at most {LONGEST_VALUE}"))
    return _topology(*texts)


@lru_cache(maxsize=1024)
def _topology(affinity: str, anti_affinity: str, order: str) -> TaskTopology:
    together, apart, first = (tuple(map(_names, text.split(";"))) for text in (affinity, anti_affinity, order))
    stated = ((known.TASK_AFFINITY, together), (known.TASK_ANTI_AFFINITY, apart), (known.TASK_ORDER, first))
    for key, lists in stated:
        if key == known.TASK_ORDER and len(lists) > 1:
            return TaskTopology(problem=_problem(key, "expected one list of roles, separated by commas"))
        for names in lists:
            doubled = next((name for name in names if name and names.count(name) > 1), None)
            if doubled is not None:
                return TaskTopology(problem=_problem(key, f"role `{doubled}` is named twice in one list"))
    return TaskTopology(_told(together), _told(apart), tuple(filter(None, first[0])))


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(","))


def _told(lists: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
    """The lists that name a role. An empty name beside another stays: the list is then not one of a single role."""
    return tuple(names for names in lists if any(names))


def _problem(key: str, what: str) -> str:
    return f"`{key}`: {what}"[:LONGEST_PROBLEM]
