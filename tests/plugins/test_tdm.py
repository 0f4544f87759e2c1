"""tdm: revocable zones take preemptable pods in their hours only, and gangs leave whole when the hours end."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.facts import facts, rounds_of

from maar.config.config import Config, Tenants
from maar.config.file import read_config
from maar.config.problems import ConfigError
from maar.decide import decide
from maar.model.jobs import JobBudget
from maar.model.plan import Plan
from maar.model.snapshot import Budget, Cluster, Snapshot
from maar.plugins.volcano.hours import Hours, opening, parse_hours, parse_zone
from maar.plugins.volcano.tdm import LABEL
from maar.registry import catalog
from maar.session.session import Session
from maar.testing.builders import Gang, cluster, gang, node
from maar.testing.scenario import configured, cycles, scene

HOUR = 3600.0
DAY = 24 * HOUR
NOON, NIGHT = 12 * HOUR, 23 * HOUR
HOURS = "tdm.revocable-zone.rz: '10:00-21:00'"


def config(arguments: str = HOURS, actions: str = "allocate, preempt, shuffle", more: str = "") -> Config:
    return configured(f"""
actions: "{actions}"
tiers:
- plugins:
  - {{name: priority}}
  - {{name: gang, arguments: {{gang.eviction: whole}}}}
  - {{name: predicates}}
  - {{name: tdm, arguments: {{{arguments}}}{more}}}
""")


def revocable(name: str, count: int = 1, *, yields: bool = True, budget: JobBudget | None = None, **more: Any) -> Gang:
    """A gang whose pods and whose group say that they are preemptable."""
    constraints = {**more.pop("constraints", {}), "revocable": True}
    task = {"yields": yields, **more.pop("task", {})}
    return gang(name, count, constraints=constraints, task=task, yields=yields, budget=budget, **more)


ZONE = {LABEL: "rz"}
TWO = [node("n1", cpu=8), node("n2", cpu=8, labels=ZONE)]


def used(plans: list[Plan]) -> dict[str, str]:
    return {bind.task.removeprefix("ns/"): bind.node for plan in plans for bind in plan.bind}


def gone(plan: Plan) -> list[str]:
    return sorted(e.task.removeprefix("ns/") for e in plan.evict)


def reasons(plans: list[Plan]) -> list[tuple[str, str]]:
    return [(r.code, r.message) for w in plans[-1].waiting for r in w.reasons]


# -- which nodes


def test_in_its_hours_a_zone_is_for_preemptable_pods_which_prefer_it() -> None:
    plans = scene(cluster(TWO, gang("plain", 2), revocable("batch", 2)), config(), NOON)
    assert {"plain-0": "n1", "plain-1": "n1", "batch-0": "n2", "batch-1": "n2"} == used(plans)


def test_an_ordinary_pod_waits_rather_than_use_the_zone_and_says_so() -> None:
    plans = scene(cluster(TWO[1], gang("plain")), config(), NOON)
    text = "0/1 nodes fit: 1 in the revocable zone `rz`, which only preemptable pods may use"
    assert [("RevocableZone", text)] == reasons(plans)
    assert plans[-1].wake_at is None


@pytest.mark.parametrize(
    ("now", "opens"), [(NIGHT, DAY + 10 * HOUR), (9 * HOUR, 10 * HOUR), (21 * HOUR, DAY + 10 * HOUR)]
)
def test_a_pod_that_waits_for_the_hours_says_when_they_begin(now: float, opens: float) -> None:
    made = cluster(TWO[1], revocable("batch"))
    plans = scene(made, config(), now)
    text = "0/1 nodes fit: 1 in the revocable zone `rz`, which is closed until 10:00 (UTC)"
    assert ([("RevocableZoneClosed", text)], opens) == (reasons(plans), plans[-1].wake_at)
    assert {"batch-0": "n2"} == used(scene(made, config(), opens))


def test_a_zone_without_hours_is_always_closed_and_nothing_there_is_evicted() -> None:
    other = node("n2", cpu=8, labels={LABEL: "typo"})
    plans = scene(cluster(other, revocable("batch"), revocable("there", on=["n2"])), config(), NOON)
    text = "0/1 nodes fit: 1 in the revocable zone `typo`, which has no hours"
    assert [("RevocableZoneClosed", text)] == reasons(plans)
    assert [] == [gone(plan) for plan in plans if plan.evict]


def test_the_hours_are_those_of_the_time_zone() -> None:
    summer = datetime(2026, 7, 1, 20, 30, tzinfo=ZoneInfo("UTC")).timestamp()  # 22:30 in Berlin
    made = cluster(TWO[1], revocable("batch"))
    assert {"batch-0": "n2"} == used(scene(made, config(), summer))
    plans = scene(made, config(f"{HOURS}, tdm.time-zone: Europe/Berlin"), summer)
    assert "closed until 10:00 (Europe/Berlin)" in reasons(plans)[0][1]
    assert datetime(2026, 7, 2, 8, tzinfo=ZoneInfo("UTC")).timestamp() == plans[-1].wake_at


def test_hours_over_midnight() -> None:
    how, made = config("tdm.revocable-zone.rz: '22:00-6:00'"), cluster(TWO[1], revocable("batch"))
    for now, there in ((23 * HOUR, True), (3 * HOUR, True), (6 * HOUR, False), (12 * HOUR, False), (DAY, True)):
        assert there is bool(used(scene(made, how, now))), now


def test_flags_switch_the_parts_off() -> None:
    assert {"plain-0": "n2"} == used(
        scene(cluster(TWO[1], gang("plain")), config(more=", enablePredicate: false"), NOON)
    )
    both = cluster(node("n0", cpu=8), TWO[1], revocable("batch"))
    assert {"batch-0": "n2"} == used(scene(both, config(), NOON))
    assert {"batch-0": "n0"} == used(scene(both, config(more=", enableNodeOrder: false"), NOON))
    late = cluster(TWO[1], revocable("batch", on=["n2"]))
    assert [] == gone(scene(late, config(more=", enableVictim: false"), NIGHT)[0])


# -- jobs


def test_jobs_that_are_not_preemptable_go_first_and_preempt_those_on_ordinary_nodes() -> None:
    one = node("n1", cpu=1)
    first = scene(cluster(one, revocable("a"), gang("b")), config(), NOON)
    assert {"b-0": "n1"} == used(first)
    assert {"a-0": "n1"} == used(
        scene(cluster(one, revocable("a"), gang("b")), config(more=", enableJobOrder: false"), NOON)
    )
    running = revocable("low", on=["n1"])
    plans = scene(cluster(one, running, gang("high", priority=9)), config(), NOON)
    assert (["low-0"], {"high-0": "n1"}) == (gone(plans[0]), used(plans))
    for claimant in (revocable("high", priority=9), gang("high", priority=9, yields=True)):
        assert [] == gone(scene(cluster(one, running, claimant), config(), NOON)[0]), "preemptable jobs do not preempt"
    stays = gang("low", on=["n1"])
    assert [] == gone(scene(cluster(one, stays, gang("high", priority=9)), config(), NOON)[0]), "it did not say so"


def test_a_running_job_preempts_for_its_further_pods_too() -> None:
    one = node("n1", cpu=2)
    running = revocable("low", on=["n1"])
    more = gang("high", 2, minimum=1, on=["n1"], priority=9)
    without_gang = config().tiers[0]
    how = replace(config(), tiers=((*without_gang[:1], *without_gang[2:]), without_gang[1:2]))
    assert ["low-0"] == gone(decide(Snapshot(cluster(one, running, more)), how, NOON))
    assert [] == gone(decide(Snapshot(cluster(one, running, more)), config(), NOON)), (
        "`gang` of the same tier disagrees"
    )


def test_budgets_limit_preemption() -> None:
    one = node("n1", cpu=4)
    high = gang("high", cpu=2, priority=9)
    loose = revocable("low", 4, minimum=0, on=["n1"] * 4)
    assert 2 == len(gone(decide(Snapshot(cluster(one, loose, high)), config(), NOON)))
    kept = revocable("low", 4, minimum=0, on=["n1"] * 4, budget=JobBudget(3))
    assert [] == gone(decide(Snapshot(cluster(one, kept, high)), config(), NOON))
    whole = revocable("low", 4, on=["n1"] * 4, budget=JobBudget(3))
    assert 4 == len(gone(decide(Snapshot(cluster(one, whole, high)), config(), NOON))), "a gang is one disruption"


# -- the end of the hours


@pytest.mark.parametrize("action", ["preempt", "shuffle"])
def test_whole_gangs_leave_when_the_hours_end(action: str) -> None:
    made = cluster(TWO, revocable("batch", 4, on=["n2", "n2", "n1", "n2"]), gang("plain", on=["n2"]))
    how = config(actions=f"allocate, {action}")
    before = decide(Snapshot(made), how, NOON)
    assert ([], 21 * HOUR) == (gone(before), before.wake_at)
    plans = scene(made, how, 21 * HOUR)
    assert ["batch-0", "batch-1", "batch-2", "batch-3"] == gone(plans[0])
    assert {"tdm": 21 * HOUR} == rounds_of(plans[0])
    text = "revoked: 4 pods of `ns/batch`: the hours of revocable zone `rz` have ended"
    assert {("ns/batch", text)} == {(e.beneficiary, e.reason) for e in plans[0].evict}


def test_surplus_leaves_first_by_the_default_budget_of_one_a_round() -> None:
    made: Cluster = cluster(TWO, revocable("batch", 4, minimum=2, on=["n2"] * 4))
    left = []
    for i in range(200):
        now = 21 * HOUR + i
        (plan,), made = cycles(made, config(actions="allocate, shuffle"), 1, now)
        if plan.evict:
            left.append((i, gone(plan)))
            assert plan.wake_at == (now + 60 if made.tasks else None)
        elif made.tasks:
            assert plan.wake_at == 21 * HOUR + 60 * len(left)
    assert [(0, ["batch-3"]), (60, ["batch-2"]), (120, ["batch-0", "batch-1"])] == left


def test_the_period_between_rounds_can_be_set_and_holds_for_all_jobs() -> None:
    made = cluster(TWO, revocable("batch", 2, minimum=0, on=["n2"] * 2))
    plans, _ = cycles(made, config(f"{HOURS}, tdm.evict.period: 3s"), 5, NIGHT)
    assert [1, 0, 0, 1, 0] == [len(plan.evict) for plan in plans]
    late = replace(made, facts=facts(rounds={"tdm": NIGHT - 59.0}))
    plan = decide(Snapshot(late), config(), NIGHT)
    assert ([], NIGHT + 1.0) == (gone(plan), plan.wake_at), "as after a fail-over"


PODS = 5


@pytest.mark.parametrize(
    ("budget", "leave"),
    [
        (None, 1),
        (JobBudget(0, problem="unreadable"), 1),
        (JobBudget(3), 2),
        (JobBudget(50, percent=True), 2),
        (JobBudget(5), 0),
        (JobBudget(9), 0),
        (JobBudget(0), 5),
        (JobBudget(2, stays=False), 2),
        (JobBudget(30, percent=True, stays=False), 2),
        (JobBudget(0, stays=False), 0),
    ],
)
def test_a_round_takes_as_many_surplus_pods_as_the_budget_allows(budget: JobBudget | None, leave: int) -> None:
    made = cluster(TWO, revocable("batch", PODS, minimum=0, on=["n2"] * PODS, budget=budget))
    assert leave == len(decide(Snapshot(made), config(), NIGHT).evict)


def test_pods_that_are_missing_already_count() -> None:
    two = JobBudget(2, stays=False)
    made = cluster(TWO[1], revocable("batch", PODS, minimum=0, on=["n2"] * 4, budget=two))
    assert ["batch-3"] == gone(decide(Snapshot(made), config(), NIGHT))
    below = cluster(TWO[1], revocable("batch", PODS, minimum=0, on=["n2"] * 4, budget=JobBudget(5)))
    assert [] == gone(decide(Snapshot(below), config(), NIGHT)), "fewer than must stay"


def test_a_budget_that_allows_nothing_keeps_a_gang_unless_tenants_are_untrusted() -> None:
    made = cluster(TWO, revocable("batch", 2, on=["n2"] * 2, budget=JobBudget(2)))
    assert [] == gone(scene(made, config(), NIGHT)[0])
    assert ["batch-0", "batch-1"] == gone(scene(made, replace(config(), tenants=Tenants.UNTRUSTED), NIGHT)[0])


def test_a_malformed_budget_is_named_in_the_reason() -> None:
    made = cluster(TWO, revocable("batch", on=["n2"], budget=JobBudget(0, problem="`x`: expected a number")))
    (evict,) = decide(Snapshot(made), config(), NIGHT).evict
    assert evict.reason.endswith("have ended; its budget is ignored: `x`: expected a number")


@pytest.mark.parametrize("protected", [{"preemptable": False}, {"budgets": ("ns/pdb",)}, {"critical": True}])
def test_protected_pods_stay(protected: dict[str, Any]) -> None:
    made = cluster(TWO, revocable("batch", 2, on=["n2"] * 2, task=protected), Budget("ns/pdb", 1))
    assert [] == gone(scene(made, config(), NIGHT)[0])


def test_a_disruption_budget_lets_surplus_leave_one_by_one() -> None:
    some = revocable("batch", 4, minimum=0, on=["n2"] * 4, task={"budgets": ("ns/pdb",)}, budget=JobBudget(0))
    assert ["batch-3"] == gone(decide(Snapshot(cluster(TWO, some, Budget("ns/pdb", 1))), config(), NIGHT))


def test_surplus_of_a_role_leaves_and_its_minimum_stays() -> None:
    roles, least = {"ps": 1, "worker": 3}, {"ps": 1, "worker": 2}
    made = revocable("batch", roles=roles, minimum=3, role_min=least, on=["n2"] * 4, budget=JobBudget(0))
    assert ["batch-worker-2"] == gone(decide(Snapshot(cluster(TWO, made)), config(), NIGHT))
    made = revocable(
        "batch", roles={"ps": 3, "worker": 3}, minimum=3, role_min=least, on=["n2"] * 6, budget=JobBudget(0)
    )
    left = gone(decide(Snapshot(cluster(TWO, made)), config(), NIGHT))
    assert (3, 1) == (len(left), sum("worker" in pod for pod in left))


def test_pods_that_are_not_preemptable_stay() -> None:
    assert [] == gone(scene(cluster(TWO, gang("plain", on=["n2"])), config(), NIGHT)[0])


# -- arguments


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("tdm.revocable-zone.rz: '10-21'", "tdm.revocable-zone.rz: expected hours such as `10:00-21:00`, got `10-21`"),
        ("tdm.revocable-zone.rz: '10:00-24:00'", "expected times from `00:00` to `23:59`"),
        ("tdm.revocable-zone.: '10:00-21:00'", "expected the name of a zone after the last point"),
        ("tdm.evict.period: soon", "tdm.evict.period: not a duration: `soon`"),
        ("tdm.time-zone: Berlin", "tdm.time-zone: unknown time zone: `Berlin`"),
        ("tdm.revocable: 1", "unknown argument"),
    ],
)
def test_bad_arguments(arguments: str, said: str) -> None:
    with pytest.raises(ConfigError, match="tdm") as caught:
        config(arguments)
    assert said in str(caught.value)


def test_a_file_without_an_action_that_evicts_gives_a_warning() -> None:
    text = "actions: allocate\ntiers: [{plugins: [{name: tdm}]}]\n"
    (warning,) = read_config(text, "f", catalog()).warnings
    assert "f: actions: `tdm` evicts nothing: no action does it: add `shuffle` or `preempt`" == warning
    assert [] == read_config(text.replace("allocate", "allocate, preempt"), "f", catalog()).warnings


# -- compared with plain rules

minutes = st.integers(0, 24 * 60 - 1)


@given(minutes, minutes, st.integers(0, 10 * 24 * 60), st.sampled_from(["UTC", "Asia/Tokyo", "America/Lima"]))
def test_safety_hours_are_those_on_the_wall(begin: int, end: int, minute: int, name: str) -> None:
    zone, now = parse_zone(name), 60.0 * minute

    def is_open(at: float) -> bool:
        local = datetime.fromtimestamp(at, zone)
        wall = local.hour * 60 + local.minute
        return begin <= wall < end if begin < end else wall >= begin or wall < end

    found = opening(Hours(begin, end), now, zone)
    assert is_open(now) is found.is_open
    if found.until is None:
        assert begin == end
        return
    assert found.until > now
    assert found.is_open is not is_open(found.until)
    assert found.is_open is is_open(found.until - 60.0)
    text = f"{begin // 60}:{begin % 60:02}-{end // 60:02}:{end % 60:02}"
    assert Hours(begin, end) == parse_hours(text)


@given(
    st.lists(st.sampled_from(["", "day", "night", "none"]), min_size=1, max_size=6),
    st.booleans(),
    st.integers(0, 23),
)
def test_safety_masks_and_scores_are_those_of_the_rules(zones: list[str], may: bool, hour: int) -> None:
    arguments = "tdm.revocable-zone.day: '08:00-20:00', tdm.revocable-zone.night: '20:00-08:00'"
    machines = [node(f"n{i}", labels={LABEL: zone} if zone else {}) for i, zone in enumerate(zones)]
    made = cluster(machines, gang("j", constraints={"revocable": may}))
    session = Session(Snapshot(made), config(arguments), hour * HOUR)
    session.open()
    refused = np.zeros(len(zones), dtype=bool)
    for refusal in session.refusals(0):
        assert not (refused & refusal.nodes).any(), "one cause for each node"
        refused |= refusal.nodes
    is_open = {"day": 8 <= hour < 20, "night": not 8 <= hour < 20, "none": False}
    assert [bool(zone) and not (is_open[zone] and may) for zone in zones] == refused.tolist()
    (entry,) = [e for e in session.hooks.scores if e.plugin == "tdm"]
    expected = [100.0 if zone and is_open[zone] and may else 0.0 for zone in zones]
    assert expected == entry.call(0, slice(None)).tolist()
    assert expected[:1] == entry.call(0, np.array([0])).tolist()
