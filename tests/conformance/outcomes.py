"""What came of each spec with each scheduler, and where the schedulers differ. It only reads reports of e2e.test."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
MOST_OF_A_FAILURE = 300
"""Characters of a failure that are shown: the rest is in the report."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one spec. `why` is the failure."""

    state: str
    seconds: float
    why: str = ""


Outcomes = Mapping[str, Outcome]
"""By the full name of the spec."""


def read(report: Path) -> dict[str, Outcome]:
    """The outcomes in a JSON report of Ginkgo. Specs that the run's own filters left out are not among them."""
    suites = json.loads(report.read_text())
    specs = [spec for suite in suites for spec in suite["SpecReports"] or () if spec["LeafNodeType"] == "It"]
    return {name_of(spec): outcome for spec in specs if (outcome := outcome_of(spec)) is not None}


def name_of(spec: Mapping[str, Any]) -> str:
    return " ".join([*(spec["ContainerHierarchyTexts"] or ()), spec["LeafNodeText"]])


def outcome_of(spec: Mapping[str, Any]) -> Outcome | None:
    """`None` for a spec that the filters left out. One that skips itself says why."""
    why = (spec.get("Failure") or {}).get("Message", "")
    state, seconds = spec["State"], spec["RunTime"] / 1e9
    if state == SKIPPED:
        return Outcome(SKIPPED, seconds, why) if why else None
    if state == "pending":
        return None
    return Outcome(PASSED, seconds) if state == PASSED else Outcome(FAILED, seconds, why or state)


def passed(outcomes: Outcomes) -> list[str]:
    return sorted(name for name, outcome in outcomes.items() if outcome.state == PASSED)


def worse(reference: Outcomes, other: Outcomes) -> list[str]:
    """The specs that pass with the reference only."""
    ours = set(passed(other))
    return [spec for spec in passed(reference) if spec not in ours]


def short(name: str) -> str:
    """The name of a spec without its labels: `[Serial]` and the like say nothing about the scheduler."""
    return re.sub(r"\s+", " ", re.sub(r"\[(?!sig-)[^]]*\]", "", name)).strip()


def exactly(names: Iterable[str]) -> str:
    """A regular expression for Ginkgo that matches these specs only. Ginkgo puts the suite's name before each."""
    return "|".join(f"{re.escape(name)}$" for name in names)


def told(outcome: Outcome | None) -> str:
    """An outcome in words: its state, and the first line of a failure."""
    if outcome is None:
        return "did not run"
    first = " ".join(outcome.why.split())[:MOST_OF_A_FAILURE]
    return f"{outcome.state}: {first}" if first else outcome.state
