"""Safety on full clusters with a backlog: what is shared between jobs or kept between cycles changes no plan."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from maar.config.config import Config
from maar.config.file import default_config
from maar.decide import decide
from maar.model.outcome import carry_out
from maar.model.plan import Cause, Plan
from maar.model.queues import Queue
from maar.model.snapshot import Budget, Changed, Cluster, Snapshot
from maar.model.tasks import Status
from maar.registry import catalog
from maar.session import plain
from maar.session.plan import plan_of
from maar.session.session import Session
from maar.testing.builders import Gang, cluster, gang, node
from maar.testing.scenario import configured

CAPACITY = """
actions: "allocate, preempt, reclaim"
tiers:
- plugins:
  - {name: priority}
  - {name: gang, arguments: {gang.eviction: whole}}
  - {name: pdb}
- plugins:
  - {name: predicates}
  - {name: capacity}
"""
CONFIGS = {"proportion": default_config(catalog()), "capacity": configured(CAPACITY)}
SEEDS = range(40)
pytestmark = pytest.mark.slow
NOW = 1e6


def full(seed: int) -> Cluster:
    """All nodes are taken by gangs of a few queues; gangs of all sizes wait. Some pods are covered by a budget."""
    dice = random.Random(seed)
    names = [f"n{i:02}" for i in range(dice.randint(6, 24))]
    amounts = [{"nvidia.com/gpu": 8 * dice.randint(0, 8)} for _ in range(3)]
    queues = [
        Queue(f"q{i}", weight=dice.randint(1, 4), deserved=amounts[i], guarantee={"nvidia.com/gpu": 8 * (i == 2)})
        for i in range(3)
    ]
    running, free = list[Gang](), list(names)
    while free:
        on = [free.pop() for _ in range(min(dice.randint(1, 4), len(free)))]
        pods = len(on) * 2 if (halves := dice.random() < 0.3) else len(on)
        made = _gang(f"runs-{len(running)}", pods, 4 if halves else 8, dice, sorted(on * 2) if halves else on)
        budgets = ("ns/budget",) if dice.random() < 0.1 else ()
        running.append(Gang(made.job, tuple(replace(task, budgets=budgets) for task in made.tasks)))
    waiting = [_gang(f"waits-{i}", dice.randint(1, 6), dice.choice((2, 4, 8)), dice) for i in range(30)]
    budget = Budget("ns/budget", dice.randint(0, 3))
    return cluster([node(name, cpu=96, gpu=8) for name in names], queues, running, waiting, budget)


def _gang(name: str, pods: int, gpus: int, dice: random.Random, on: list[str] | None = None) -> Gang:
    queue, created = f"q{dice.choice((0, 0, 0, 1, 2))}", dice.randint(0, 9)
    priority = dice.choice((1, 10))
    return gang(name, pods, gpu=gpus, cpu=gpus, on=on or (), queue=queue, created=created, priority=priority)


def asked(made: Cluster, config: Config, *, once: bool) -> Plan:
    """The plan, with or without asking equal gangs, equal claimants, and who judges victims alone, only once."""
    session = Session(Snapshot(made), config, NOW)
    session.open()
    for entry in (*session.hooks.reclaimable, *session.hooks.preemptable):
        entry.alike &= once
        entry.alone &= once
    if not once:
        session.memo.fixed(plain.OWNER, plain.KINDS, dict)  # no gang is plain
    for option in config.actions:
        option.build().execute(session)
    return plan_of(session)


@pytest.mark.parametrize("config", CONFIGS)
def test_safety_a_refusal_that_gangs_share_changes_no_plan(config: str) -> None:
    reclaimed = preempted = refused = 0
    for seed in SEEDS:
        made = full(seed)
        plan = asked(made, CONFIGS[config], once=True)
        assert asked(made, CONFIGS[config], once=False) == plan, seed
        reclaimed += sum(evict.cause is Cause.RECLAIMED for evict in plan.evict)
        preempted += sum(evict.cause is Cause.PREEMPTED for evict in plan.evict)
        refused += sum(r.plugin == "reclaim" for wait in plan.waiting for r in wait.reasons)
    assert reclaimed
    assert preempted
    assert refused


@pytest.mark.parametrize("config", CONFIGS)
def test_safety_a_kept_snapshot_of_a_full_cluster_gives_the_plan_of_a_new_one(config: str) -> None:
    for seed in SEEDS[::4]:
        made = full(seed)
        kept, dice = Snapshot(made), random.Random(seed)
        for cycle in range(3):
            plan = decide(kept, CONFIGS[config], NOW + cycle)
            assert decide(Snapshot(made), CONFIGS[config], NOW + cycle) == plan, (seed, cycle)
            before, made = made, some_end(carry_out(made, plan, NOW + cycle), dice)
            following = kept.after(replace(made, jobs=(), tasks=()), changes(before, made))
            assert following is not None
            kept = following


def some_end(made: Cluster, dice: random.Random) -> Cluster:
    """The same after evicted pods and a running job are gone."""
    gone = {job.key for job in dice.sample(made.jobs, 1)}
    tasks = tuple(t for t in made.tasks if t.job not in gone and t.status is not Status.RELEASING)
    return replace(made, jobs=tuple(job for job in made.jobs if job.key not in gone), tasks=tasks)


def changes(before: Cluster, now: Cluster) -> dict[str, Changed]:
    """What the next snapshot must be told: jobs that changed, and those that are gone."""

    def contents(made: Cluster) -> dict[str, Changed]:
        return {job.key: (job, tuple(t for t in made.tasks if t.job == job.key)) for job in made.jobs}

    had, has = contents(before), contents(now)
    return {key: has.get(key) for key in had.keys() | has.keys() if had.get(key) != has.get(key)}
