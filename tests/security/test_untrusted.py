"""`tenants: untrusted`: what a tenant states protects her pods up to the deserved share of her queue, and no further.

Each scene runs twice: by default the statement holds, as in Volcano. After it has settled, nothing moves for five
cycles (`scene`).
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from maar.config.config import Config
from maar.config.file import read_config
from maar.model.plan import Plan
from maar.model.queues import Queue
from maar.model.snapshot import Budget
from maar.registry import catalog
from maar.testing.builders import GPU, Gang, Part, cluster, elastic, gang, node
from maar.testing.scenario import configured, scene

TEXT = """
actions: "enqueue, allocate, preempt, reclaim"
tiers:
- plugins:
  - {name: priority}
  - name: gang
    arguments: {gang.eviction: whole}
  - {name: conformance}
  - {name: sla}
  - {name: pdb}
  - {name: cooldown}
- plugins:
  - {name: predicates}
  - {name: SHARES}
"""
HALVES = (Queue("hers"), Queue("mine"))
STATED = (
    Queue("hers", deserved={GPU: 4}),
    Queue("mine", deserved={GPU: 4}),
)
SHARES = [("proportion", HALVES), ("capacity", STATED)]
PROTECTIONS: dict[str, dict[str, Any]] = {
    "preemptable": {"preemptable": False},
    "cooldown": {"cooldown": 1e9},
    "budget": {"budgets": ("ns/all",)},
    "daemonset": {"resident": True},
    "critical": {"critical": True},
}
NOW = 100.0


def config(shares: str, trusted: bool) -> Config:
    return configured(TEXT.replace("SHARES", shares) + ("" if trusted else "tenants: untrusted\n"))


def evicted(plans: list[Plan]) -> list[str]:
    return [e.task for plan in plans for e in plan.evict]


def bound(plans: list[Plan]) -> list[str]:
    return [b.task for plan in plans for b in plan.bind]


def her_jobs(count: int, **task: Any) -> list[Gang]:
    return [gang(f"her{i}", gpu=1, on=["n1"], queue="hers", created=float(i), task=task) for i in range(count)]


def run(trusted: bool, shares: tuple[str, tuple[Queue, ...]], *parts: Part | list[Gang]) -> list[Plan]:
    everything = (node("n1", gpu=8), shares[1], Budget("ns/all", 0), *parts)
    return scene(cluster(*everything), config(shares[0], trusted), NOW)


@pytest.mark.parametrize("shares", SHARES, ids=lambda s: s[0])
@pytest.mark.parametrize("stated", PROTECTIONS)
def test_a_protection_holds_for_the_deserved_share_only(shares: tuple[str, tuple[Queue, ...]], stated: str) -> None:
    """She has all 8 GPUs and deserves 4: those of her oldest jobs stay."""
    parts = (her_jobs(8, **PROTECTIONS[stated]), gang("mine", 4, gpu=1, queue="mine"))
    assert [] == evicted(run(True, shares, *parts))
    plans = run(False, shares, *parts)
    assert [f"ns/her{i}-0" for i in (4, 5, 6, 7)] == sorted(evicted(plans))
    assert 4 == len(bound(plans))


@pytest.mark.parametrize("shares", SHARES, ids=lambda s: s[0])
def test_protected_pods_within_the_share_stay_and_others_go(shares: tuple[str, tuple[Queue, ...]]) -> None:
    young, old = her_jobs(8, preemptable=False)[:4], her_jobs(8)[4:]
    plans = run(False, shares, young, old, gang("mine", 4, gpu=1, queue="mine"))
    assert [f"ns/her{i}-0" for i in (4, 5, 6, 7)] == sorted(evicted(plans))


@pytest.mark.parametrize("shares", SHARES, ids=lambda s: s[0])
def test_stating_a_protection_sends_no_one_else_away(shares: tuple[str, tuple[Queue, ...]]) -> None:
    """Two queues have more than they deserve; the one that states protections is not preferred."""
    third = Queue("third", deserved={GPU: 2} if shares[0] == "capacity" else None)
    parts = (
        [gang(f"her{i}", gpu=1, on=["n1"], queue="hers", task={"preemptable": False}) for i in range(6)],
        [gang(f"x{i}", gpu=1, on=["n1"], queue="third", task={"started": 50.0}) for i in range(2)],
        gang("mine", 2, gpu=1, queue="mine"),
    )
    plans = run(False, (shares[0], (*shares[1], third)), *parts)
    assert all(task.startswith("ns/her") for task in evicted(plans))
    assert 2 == len(evicted(plans))


@pytest.mark.parametrize("trusted", [True, False])
def test_the_priority_that_she_gives_her_pods_orders_only_them(trusted: bool) -> None:
    """Of two jobs with surplus, the one whose pods run for a shorter time loses less: hers."""
    parts = (
        gang("her", 4, minimum=1, gpu=1, on=["n1"] * 4, queue="hers", task={"started": 90.0, "priority": 1000}),
        gang("other", 4, minimum=1, gpu=1, on=["n1"] * 4, queue="hers", task={"started": 10.0}),
        gang("mine", 1, gpu=1, queue="mine"),
    )
    assert ["ns/other-3" if trusted else "ns/her-3"] == evicted(run(trusted, SHARES[0], *parts))


def test_inside_a_queue_a_higher_priority_takes_what_is_beyond_the_share() -> None:
    parts = (her_jobs(8, preemptable=False), gang("urgent", 1, gpu=1, queue="hers", priority=9))
    shares = ("capacity", (Queue("hers", deserved={GPU: 4}),))
    assert [] == evicted(run(True, shares, *parts))
    assert 1 == len(evicted(run(False, shares, *parts)))


def test_inside_a_queue_a_protection_within_the_share_holds() -> None:
    parts = (her_jobs(8, preemptable=False), gang("urgent", 1, gpu=1, queue="hers", priority=9))
    assert [] == evicted(run(False, ("capacity", (Queue("hers", deserved={GPU: 8}),)), *parts))


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize("shares", SHARES, ids=lambda s: s[0])
def test_one_gang_on_everything_does_not_keep_the_share_of_others(
    shares: tuple[str, tuple[Queue, ...]], trusted: bool
) -> None:
    """`minMember` is stated by tenants: a gang that is partly within the share protects nothing beyond it."""
    parts = (gang("her", 8, gpu=1, on=["n1"] * 8, queue="hers"), gang("mine", 4, gpu=1, queue="mine"))
    plans = run(trusted, shares, *parts)
    assert 8 == len(evicted(plans))
    assert {f"ns/mine-{i}" for i in range(4)} <= set(bound(plans))


@pytest.mark.parametrize("shares", SHARES, ids=lambda s: s[0])
def test_a_guarantee_is_not_broken(shares: tuple[str, tuple[Queue, ...]]) -> None:
    queues = (Queue("hers", deserved={GPU: 4}, guarantee={GPU: 2}), shares[1][1])
    parts = (gang("her", 8, gpu=1, on=["n1"] * 8, queue="hers"), gang("mine", 4, gpu=1, queue="mine"))
    assert [] == evicted(run(False, (shares[0], queues), *parts))


def test_pods_of_kube_system_and_of_other_schedulers_stay() -> None:
    parts = (
        [gang(f"kube-system/k{i}", gpu=1, on=["n1"], queue="hers", task={"critical": True}) for i in range(4)],
        [gang(f"f{i}", gpu=1, on=["n1"], queue="", task={"preemptable": False, "foreign": True}) for i in range(4)],
        gang("mine", 4, gpu=1, queue="mine"),
    )
    assert [] == evicted(run(False, SHARES[0], *parts))


@pytest.mark.parametrize("trusted", [True, False])
def test_a_budget_beyond_the_share_is_not_asked_again_by_the_api_server(trusted: bool) -> None:
    parts = (her_jobs(8, budgets=("ns/all",)), gang("mine", 1, gpu=1, queue="mine"))
    plans = run(trusted, SHARES[0], Budget("ns/all", 0 if not trusted else 8), *parts)
    assert [trusted] == [e.budgets_apply for plan in plans for e in plan.evict]


def test_without_shares_every_protection_holds() -> None:
    text = TEXT.replace("  - {name: SHARES}\n", "")
    parts = (node("n1", gpu=8), HALVES, her_jobs(8, preemptable=False), gang("urgent", gpu=1, queue="hers", priority=9))
    for tenants in ("trusted", "untrusted"):
        loaded = read_config(f"{text}tenants: {tenants}\n", "scene", catalog())
        assert [] == evicted(scene(cluster(*parts), loaded.config, NOW))


def test_sla_orders_and_admits_only_up_to_the_share() -> None:
    """Both jobs of one queue wait; hers is younger and promises to wait for nothing."""
    parts = (
        gang("has", gpu=4, on=["n1"], queue="hers"),
        gang("her", gpu=1, queue="hers", created=50.0, sla=1e-9),
        gang("other", gpu=1, queue="hers", created=40.0),
    )
    limited = Queue("hers", deserved={GPU: 4}, capability={GPU: 5})
    assert ["ns/her-0"] == bound(run(True, ("capacity", (limited,)), *parts))
    assert ["ns/other-0"] == bound(run(False, ("capacity", (limited,)), *parts))
    within = Queue("hers", deserved={GPU: 5}, capability={GPU: 5})
    assert ["ns/her-0"] == bound(run(False, ("capacity", (within,)), *parts))


def test_a_stated_restart_cost_counts_within_the_share() -> None:
    """Restarts that never pay keep a job small; beyond the share the pool's own cost counts."""
    text = TEXT.replace('reclaim"', 'reclaim, resize"').replace("SHARES", "capacity")
    pools = "pools: [{name: default, rate-limit: 0s, minimum-time: 0s, restart: 1s}]\n"
    grown = {}
    for due in (0, 8):
        parts = (
            node("n1", gpu=8),
            Queue("hers", deserved={GPU: due} if due else {"cpu": 1}),
            elastic("her", 1, 8, on=["n1"], restart=1e9, job={"queue": "hers"}),
        )
        plans = scene(cluster(*parts), configured(f"{text}{pools}tenants: untrusted\n"), NOW)
        grown[due] = [r.after for plan in plans for r in plan.resize]
    assert {0: [8], 8: []} == grown


@pytest.mark.parametrize("shares", SHARES, ids=lambda s: s[0])
def test_the_minimum_within_the_share_has_the_roles_that_it_needs(shares: tuple[str, tuple[Queue, ...]]) -> None:
    """Her last pod is the only one of its role: it is part of the minimum, so all pods beyond the share may go."""
    task, roles = {"preemptable": False}, {"ps": 1, "worker": 1}
    her = gang("her", 8, minimum=2, gpu=1, on=["n1"] * 8, queue="hers", role_min=roles, task=task)
    named = [replace(pod, role="worker" if i < 7 else "ps") for i, pod in enumerate(her.tasks)]
    plans = run(False, shares, Gang(her.job, tuple(named)), gang("mine", 4, gpu=1, queue="mine"))
    assert ["ns/her-3", "ns/her-4", "ns/her-5", "ns/her-6"] == sorted(evicted(plans))
    assert {f"ns/mine-{i}" for i in range(4)} <= set(bound(plans))
