"""The shard protocol (docs/shards-model.md), explored in full on small clusters, whole and with each rule broken."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from tests.shards.model import settings as on
from tests.shards.model.broken import BROKEN
from tests.shards.model.explore import Counterexample, TooManyStates, explore
from tests.shards.model.rules import Rules
from tests.shards.model.setting import Setting

PAGE = (Path(__file__).parents[2] / "docs" / "shards-model.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("setting", on.SMALL, ids=lambda setting: setting.name)
def test_no_state_breaks_an_invariant_and_every_job_can_run(setting: Setting) -> None:
    found = explore(setting)
    assert found.counterexample is None, f"\n{found.counterexample}"
    assert f"| {setting.name} | {found.states:,} |" in PAGE, f"docs/shards-model.md: {found.states:,} states now"


def test_the_page_counts_all_states() -> None:
    table = PAGE.partition("| setting | states |")[2].partition("\n\n")[0]
    counts = [int(count.replace(",", "")) for count in re.findall(r"^\| [a-z, -]+ \| ([\d,]+) \|", table, re.MULTILINE)]
    assert len(on.SMALL) == len(counts)
    assert f"Together {sum(counts):,} states" in PAGE


@pytest.mark.parametrize("rule", Rules.names())
def test_without_any_single_rule_an_invariant_breaks(rule: str) -> None:
    case = BROKEN[rule]
    danger = explore(case.setting, Rules().without(rule)).counterexample
    assert danger is not None
    print(f"without {rule}:\n{danger}")
    assert case.danger == danger.kind
    if case.harm == case.danger:
        assert f"| `{rule}` | | {_length(danger)}: {danger.kind} |" in PAGE
        return
    harm = explore(case.setting, Rules().without(rule), effects_only=True).counterexample
    assert harm is not None
    print(f"and in the end:\n{harm}")
    assert case.harm == harm.kind
    assert f"| `{rule}` | {_length(danger)}: {danger.kind} | {_length(harm)}: {harm.kind} |" in PAGE


def _length(found: Counterexample) -> str:
    """How many steps a counterexample has, without the remark that a state is stuck."""
    count = sum(not step.startswith("(") for step in found.steps)
    return "1 step" if count == 1 else f"{count} steps"


def test_a_counterexample_is_a_story_in_plain_words() -> None:
    found = explore(on.SHARED, Rules().without("taker_lists")).counterexample
    assert found is not None
    assert "A1: uses n1, which the map gives it" == found.steps[5]
    assert "  => a node is over-committed" == str(found).splitlines()[-1]
    assert f"```text\nwithout taker_lists, in `shared node` (1,238 states)\n{found}\n```" in PAGE


@pytest.mark.parametrize(
    "setting",
    [replace(on.FAIL_OVER, take_overs=2), on.TIED, on.ORDER, on.DECIDED_ELSEWHERE],
    ids=lambda s: s.name,
)
def test_reductions_lose_no_counterexample(setting: Setting) -> None:
    few, many = explore(setting), explore(setting, reduce=False)
    assert few.counterexample is many.counterexample is None
    assert few.states <= many.states


@pytest.mark.parametrize("rule", ["fence_inherited", "list_after_fences", "keep_inherited", "carry_out_decided"])
def test_counterexamples_are_found_without_reductions_too(rule: str) -> None:
    found = explore(BROKEN[rule].setting, Rules().without(rule), reduce=False).counterexample
    assert found is not None
    assert BROKEN[rule].danger == found.kind


def test_exploration_says_when_a_setting_is_too_large() -> None:
    with pytest.raises(TooManyStates, match="fail-over: more than 100 states"):
        explore(on.FAIL_OVER, most=100)


def test_the_page_names_every_rule() -> None:
    assert set(Rules.names()) == set(re.findall(r"`([a-z_]+)`", PAGE)) & set(Rules.names())
    assert set(Rules.names()) == set(BROKEN)
