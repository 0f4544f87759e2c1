"""The comparison of `make conformance`: which specs count, and which of them a scheduler loses."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.outcomes import FAILED, PASSED, SKIPPED, Outcome, exactly, read, short, told, worse
from tests.conformance.suite import GROUPS


def spec(name: str, state: str, why: str = "", kind: str = "It") -> dict[str, Any]:
    """A spec as in Ginkgo's report."""
    failure = {"Failure": {"Message": why}} if why else {}
    texts = {"ContainerHierarchyTexts": ["[sig-scheduling] Pods [Serial]"], "LeafNodeText": name, "LeafNodeType": kind}
    return {**texts, "State": state, "RunTime": 2_000_000_000, **failure}


def test_a_report_is_read_without_the_specs_that_were_filtered_out(tmp_path: Path) -> None:
    specs = [
        spec("binds", "passed"),
        spec("preempts", "failed", "no victim"),
        spec("hangs", "timedout"),
        spec("needs two zones", "skipped", "one zone"),
        spec("other", "skipped"),
        spec("later", "pending"),
        {**spec("", "passed", kind="ReportAfterSuite"), "ContainerHierarchyTexts": None},
    ]
    report = tmp_path / "report.json"
    report.write_text(json.dumps([{"SpecReports": specs}, {"SpecReports": None}]))
    of = "[sig-scheduling] Pods [Serial] "
    assert {
        of + "binds": Outcome(PASSED, 2.0),
        of + "preempts": Outcome(FAILED, 2.0, "no victim"),
        of + "hangs": Outcome(FAILED, 2.0, "timedout"),
        of + "needs two zones": Outcome(SKIPPED, 2.0, "one zone"),
    } == read(report)


def test_a_spec_that_did_not_run_is_lost_too() -> None:
    ok, bad = Outcome(PASSED, 1.0), Outcome(FAILED, 1.0, "why")
    assert ["b", "d"] == worse({"a": ok, "b": ok, "c": bad, "d": ok}, {"a": ok, "b": bad, "c": ok})


def test_ginkgo_is_asked_for_exactly_these_specs() -> None:
    pattern = re.compile(exactly(["[sig-apps] Job [Serial] should (a+b)", "[sig-apps] Job waits"]))
    asked = {
        "Kubernetes e2e suite [sig-apps] Job [Serial] should (a+b)": True,
        "Kubernetes e2e suite [sig-apps] Job waits": True,
        "Kubernetes e2e suite [sig-apps] Job waits longer": False,
        "Kubernetes e2e suite [sig-apps] Job S should aab": False,
    }
    assert asked == {text: bool(pattern.search(text)) for text in asked}


@pytest.mark.parametrize(
    ("name", "groups"),
    [
        ("[sig-scheduling] SchedulerPreemption [Serial] preempts [Feature:X]", ["scheduling"]),
        ("[sig-apps] Daemon set [Serial] should run", ["serial"]),
        ("[sig-apps] Job should run with CPU requests [Serial]", ["serial"]),
        ("[sig-apps] Job should run a job", ["jobs"]),
        ("[sig-apps] Job should fail to exceed backoffLimit", []),
        ("[sig-apps] Daemon set [Serial] should surge pods onto nodes", ["serial"]),
        ("[sig-apps] CronJob should run a job", []),
        ("[sig-apps] DaemonRestart [Disruptive] Scheduler", []),
        ("[sig-network] Services should serve", []),
    ],
)
def test_each_spec_is_in_one_group(name: str, groups: list[str]) -> None:
    assert groups == [group.name for line in GROUPS for group in line if group.has(name)]


def test_names_and_failures_are_short() -> None:
    assert "[sig-apps] Daemon set should run" == short("[sig-apps] Daemon set [Serial] should run [Conformance]")
    assert "failed: not within 5 s" == told(Outcome(FAILED, 1.0, "not within\n  5 s"))
    assert "did not run" == told(None)
