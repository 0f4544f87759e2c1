"""shuffle evicts whom plugins name: whole gangs or surplus, never a protected pod, and remembers the round."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.confs import ALLOCATE, PREEMPT
from tests.support.facts import facts, rounds_of
from tests.support.subgroups import divided

from maar.config.config import Config, NoArguments, PluginOption, Registration
from maar.controller.settings.brakes import Brakes, BrakeSettings
from maar.decide import decide
from maar.model.elastic import Elastic
from maar.model.plan import Cause, Plan
from maar.model.snapshot import Budget, Cluster, Snapshot
from maar.session.eviction.departures import unit_for
from maar.session.hooks import Departure
from maar.session.register import Register
from maar.session.session import Session
from maar.testing.builders import Gang, cluster, gang, node
from maar.testing.scenario import check_invariants, configured, cycles

PERIOD = 60.0


def naming(*keys: str, whole: bool = True, in_preempt: bool = False, name: str = "namer") -> PluginOption:
    """A plugin that wants some pods to leave, at most once in a period."""

    class Namer:
        def __init__(self, arguments: object) -> None:
            del arguments

        def open(self, session: Session, on: Register) -> None:
            self._session = session
            on.victim_tasks(self._name, in_preempt=in_preempt)

        def _name(self) -> Iterable[Departure]:
            session = self._session
            if session.next_round(name, PERIOD) > session.now:
                return
            for key in keys:
                task = session.snapshot.tasks.number.get(key)
                if task is not None:
                    yield Departure(unit_for(session, [task]) if whole else (task,), f"`{name}` wants it")

    return PluginOption(Registration(name, Namer), NoArguments())


def config(*plugins: PluginOption, text: str = ALLOCATE, actions: str = "shuffle") -> Config:
    made = configured(text.replace('"allocate', f'"{actions}, allocate' if actions else '"allocate'))
    return replace(made, tiers=(*made.tiers, plugins))


def world(*parts: Any) -> Cluster:
    return cluster(node("n1", gpu=8), *parts)


def run(made: Cluster, how: Config, now: float = 100.0) -> Plan:
    return decide(Snapshot(made), how, now)


def gone(plan: Plan) -> list[str]:
    return sorted(e.task.removeprefix("ns/") for e in plan.evict)


PAIR = gang("pair", 2, gpu=2, on=["n1", "n1"])


def test_a_named_pod_takes_its_gang_with_it() -> None:
    (plan, after), _ = cycles(world(PAIR, gang("other", gpu=1, on=["n1"])), config(naming("ns/pair-1")), 2, 100.0)
    assert ["pair-0", "pair-1"] == gone(plan)
    assert {("ns/pair", "`namer` wants it", Cause.SHUFFLED)} == {(e.beneficiary, e.reason, e.cause) for e in plan.evict}
    assert ({"namer": 100.0}, {"namer": 100.0}) == (rounds_of(plan), rounds_of(after))
    assert () == after.evict


def test_surplus_leaves_alone_and_part_of_a_gang_never() -> None:
    loose = gang("loose", 3, minimum=2, gpu=1, on=["n1"] * 3)
    assert ["loose-1"] == gone(run(world(loose), config(naming("ns/loose-1"))))
    plan = run(world(loose), config(naming("ns/loose-1", "ns/loose-2")))
    assert ["loose-0", "loose-1", "loose-2"] == gone(plan), "without a second pod it is below its minimum"
    plan = run(world(PAIR), config(naming("ns/pair-1", whole=False)))
    assert ([], {}) == (gone(plan), rounds_of(plan)), "a round without evictions does not count"


def test_minimums_of_roles_hold() -> None:
    roles = gang("r", minimum=2, roles={"ps": 1, "worker": 3}, on=["n1"] * 4, role_min={"ps": 1, "worker": 1})
    assert ["r-worker-0"] == gone(run(world(roles), config(naming("ns/r-worker-0"))))
    assert ["r-ps-0", "r-worker-0", "r-worker-1", "r-worker-2"] == gone(run(world(roles), config(naming("ns/r-ps-0"))))


@pytest.mark.parametrize(
    "protected",
    [
        {"preemptable": False},
        {"critical": True},
        {"resident": True},
        {"foreign": True},
        {"budgets": ("ns/pdb",)},
    ],
)
def test_a_protected_member_keeps_its_whole_gang(protected: dict[str, Any]) -> None:
    kept = Gang(PAIR.job, (PAIR.tasks[0], replace(PAIR.tasks[1], **protected)))
    assert [] == gone(run(world(kept, Budget("ns/pdb", 0)), config(naming("ns/pair-0"))))
    assert ["pair-0", "pair-1"] == gone(run(world(PAIR), config(naming("ns/pair-0"))))


def test_budgets_count_what_left_before_in_the_cycle() -> None:
    two = [gang(f"g{i}", 2, gpu=1, on=["n1"] * 2, task={"budgets": ("ns/pdb",)}) for i in range(2)]
    how = config(naming("ns/g0-0", "ns/g1-0"))
    assert ["g0-0", "g0-1"] == gone(run(world(two, Budget("ns/pdb", 3)), how))
    assert 4 == len(gone(run(world(two, Budget("ns/pdb", 4)), how)))


def test_an_elastic_job_shrinks_or_stops_instead() -> None:
    made = gang("e", 3, minimum=1, gpu=1, on=["n1"] * 3)
    elastic = Gang(replace(made.job, elastic=Elastic(1, 4, made.tasks[0].shape, 3)), made.tasks)
    plan = run(world(elastic), config(naming("ns/e-1")))
    assert ([], [("ns/e", 3, 1)]) == (gone(plan), [(r.job, r.before, r.after) for r in plan.resize])
    plan = run(world(elastic), config(naming("ns/e-0")))
    assert ([], ["ns/e"]) == (gone(plan), [s.job for s in plan.suspend])


def test_a_gang_that_gets_pods_in_this_cycle_stays() -> None:
    half = gang("half", 2, gpu=2, on=["n1"])
    after = ALLOCATE.replace('"allocate"', '"allocate, shuffle"')
    plan = run(world(half), config(naming("ns/half-0"), text=after, actions=""))
    assert (["ns/half-1"], []) == ([b.task for b in plan.bind], gone(plan))


def test_the_first_tier_that_names_a_pod_decides() -> None:
    others = gang("other", gpu=1, on=["n1"])
    how = config(naming("ns/none", name="first"), naming("ns/pair-0", name="second"))
    how = replace(how, tiers=(*how.tiers, (naming("ns/other-0", name="third"),)))
    plan = run(world(PAIR, others), how)
    assert (["pair-0", "pair-1"], {"second": 100.0}) == (gone(plan), rounds_of(plan))


def test_preempt_asks_only_plugins_that_want_it() -> None:
    for wants, left in ((True, ["pair-0", "pair-1"]), (False, [])):
        how = config(naming("ns/pair-0", in_preempt=wants), text=PREEMPT, actions="")
        assert left == gone(run(world(PAIR), how))


def test_the_flag_switches_the_hook_off() -> None:
    option = naming("ns/pair-0")
    off = PluginOption(option.registration, NoArguments(), {"victim": False})
    assert [] == gone(run(world(PAIR), config(off)))


def test_rounds_of_other_plugins_and_of_the_future_are_forgotten() -> None:
    made = replace(world(PAIR), facts=facts(rounds={"namer": 99.0, "gone": 99.0}))
    assert {"namer": 99.0} == rounds_of(run(made, config(naming("ns/pair-0"))))
    assert ["pair-0", "pair-1"] == gone(
        run(replace(made, facts=facts(rounds={"namer": 101.0})), config(naming("ns/pair-0")))
    )
    assert [] == gone(run(made, config(naming("ns/pair-0")), 158.0))
    assert ["pair-0", "pair-1"] == gone(run(made, config(naming("ns/pair-0")), 159.0))


def test_brakes_hold_whole_gangs_and_a_round_without_an_eviction_is_none() -> None:
    made = replace(world(PAIR, gang("more", gpu=1, on=["n1"])), facts=facts(rounds={"namer": 1.0}))
    snapshot, how = Snapshot(made), config(naming("ns/pair-0", "ns/more-0"))
    plan = decide(snapshot, how, 100.0)
    held = Brakes(BrakeSettings(paused=True)).apply(plan, snapshot, 100.0)
    assert ((), {"namer": 1.0}) == (held.evict, rounds_of(held))
    some = Brakes(BrakeSettings(per_minute=2)).apply(plan, snapshot, 100.0)
    assert (1, {"namer": 100.0}) == (len({e.beneficiary for e in some.evict}), rounds_of(some))
    check_invariants(made, some, made)


def test_a_named_pod_takes_its_subgroup_with_it_or_its_gang() -> None:
    """One subgroup of three is above the least number; a pod above the size of its subgroup leaves alone."""
    spare = divided("a", [2, 2, 2], size=2, least=2, minimum=4, tier=None, on=["n1"] * 6)
    plan = run(world(spare), config(naming("ns/a-3")))
    assert ["a-2", "a-3"] == gone(plan)
    needed = divided("a", [2, 2], size=2, least=2, minimum=2, tier=None, on=["n1"] * 4)
    assert ["a-0", "a-1", "a-2", "a-3"] == gone(run(world(needed), config(naming("ns/a-3"))))
    above = divided("a", [2, 3], size=2, least=2, minimum=4, tier=None, on=["n1"] * 5)
    assert ["a-4"] == gone(run(world(above), config(naming("ns/a-4"))))
