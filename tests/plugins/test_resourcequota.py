"""resourcequota: groups are admitted while the quotas of their namespace allow it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from maar.decide import decide
from maar.model.jobs import Job, Phase
from maar.model.plan import Plan
from maar.model.snapshot import Quota, Snapshot
from maar.plugins.resourcequota import exceeded
from maar.testing.builders import GPU, Gang, cluster, gang, node
from maar.testing.scenario import configured, scene

TEXT = """
actions: "enqueue, allocate"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: resourcequota}, {name: predicates}]
"""
CONFIG = configured(TEXT)
NODE = node("n1", gpu=100)


def group(name: str, phase: Phase = Phase.PENDING, *, pods: int = 0, **needs: int) -> Gang:
    resources = {{"gpu": GPU}.get(key, key): amount for key, amount in needs.items()}
    return gang(name, pods, minimum=4, phase=phase, min_resources=resources, gpu=1)


def quota(name: str = "q", namespace: str = "ns", *, used: dict[str, int] | None = None, **hard: Any) -> Quota:
    return Quota(f"{namespace}/{name}", hard["hard"], used or {})


def admitted(plans: list[Plan]) -> list[str]:
    return [a.job for plan in plans for a in plan.admit]


def words(plans: list[Plan], job: str) -> list[tuple[str, str]]:
    return [(r.code, r.message) for w in plans[-1].waiting if w.job == job for r in w.reasons]


@pytest.mark.parametrize("name", [GPU, f"requests.{GPU}"])
def test_a_group_that_exceeds_a_quota_is_not_admitted_and_says_which(name: str) -> None:
    limit = quota(hard={name: 8}, used={name: 5})
    assert ["ns/g"] == admitted(scene(cluster(NODE, limit, group("g", gpu=3)), CONFIG))
    plans = scene(cluster(NODE, limit, group("g", gpu=4)), CONFIG)
    assert [] == admitted(plans)
    text = f"quota `q` of the namespace allows 8 {name}, 5 in use, asks for 4 more"
    assert [("QuotaExceeded", text)] == words(plans, "ns/g")


@pytest.mark.parametrize(
    ("hard", "needs", "quota_needs"),
    [
        ({"requests.cpu": 1000}, {"cpu": 1500}, {}),
        ({"cpu": 1000}, {}, {"requests.cpu": 1500}),
        ({"limits.cpu": 1000}, {"cpu": 500}, {"limits.cpu": 1500}),
        ({"pods": 3}, {}, {"count/pods": 4}),
        ({"count/pods": 3}, {"pods": 4}, {}),
        ({"count/jobs.batch": 0}, {"cpu": 1}, {"count/jobs.batch": 1}),
    ],
)
def test_names_of_quotas(hard: dict[str, int], needs: dict[str, int], quota_needs: dict[str, int]) -> None:
    made = gang("g", 0, minimum=4, phase=Phase.PENDING, min_resources={"memory": 1, **needs}, quota_needs=quota_needs)
    assert [] == admitted(scene(cluster(NODE, quota(hard=hard), made), CONFIG))
    roomy = {name: amount * 2 for name, amount in hard.items()} if any(hard.values()) else {"count/jobs.batch": 1}
    assert ["ns/g"] == admitted(scene(cluster(NODE, quota(hard=roomy), made), CONFIG))


def test_every_quota_of_the_namespace_counts_and_none_of_others() -> None:
    made = group("g", gpu=4)
    assert [] == admitted(scene(cluster(NODE, quota("a", hard={GPU: 9}), quota("b", hard={GPU: 3}), made), CONFIG))
    elsewhere = quota(namespace="other", hard={GPU: 0})
    assert ["ns/g"] == admitted(scene(cluster(NODE, elsewhere, made), CONFIG))
    assert ["ns/g"] == admitted(scene(cluster(NODE, quota(hard={"limits.cpu": 0}), made), CONFIG))


def test_groups_admitted_in_the_same_cycle_and_before_count() -> None:
    limit, three = quota(hard={GPU: 8}), [group(name, gpu=4) for name in "abc"]
    plans = scene(cluster(NODE, limit, three), CONFIG)
    assert ["ns/a", "ns/b"] == admitted(plans), "their pods do not exist yet, so they count in later cycles too"
    text = "quota `q` of the namespace allows 8 nvidia.com/gpu, 0 in use and 8 promised to admitted groups, "
    assert [("QuotaExceeded", f"{text}asks for 4 more")] == words(plans, "ns/c")


def test_pods_that_exist_are_in_use_and_count_once() -> None:
    """Of the four pods of each group, the quota counts those that exist."""
    born = group("born", Phase.INQUEUE, pods=4, gpu=4)
    half = group("half", Phase.INQUEUE, pods=2, gpu=4)
    for more, expected in ((2, ["ns/new"]), (3, [])):
        limit = quota(hard={GPU: 10}, used={GPU: 6})
        assert expected == admitted(scene(cluster(NODE, limit, born, half, group("new", gpu=more)), CONFIG))
    waits = group("waits", pods=4, gpu=4)
    assert ["ns/waits"] == admitted(scene(cluster(NODE, quota(hard={GPU: 4}, used={GPU: 4}), waits), CONFIG))


def test_a_group_without_needs_is_admitted() -> None:
    made = gang("g", 0, minimum=1, phase=Phase.PENDING)
    assert ["ns/g"] == admitted(scene(cluster(NODE, quota(hard={"pods": 0}), made), CONFIG))


def test_a_full_quota_does_not_keep_other_namespaces_from_preempting() -> None:
    text = TEXT.replace("allocate", "allocate, preempt").replace("gang}", "gang, arguments: {gang.eviction: whole}}")
    more = "resourcequota}, {name: overcommit, arguments: {overcommit-factor: 1}}"
    config = configured(text.replace("resourcequota}", more))
    low = gang("low", gpu=100, on=["n1"])
    evil, good = (
        gang(f"{space}/g", 0, minimum=1, priority=5, phase=Phase.PENDING, min_resources={GPU: 4}, created=created)
        for space, created in (("evil", 0.0), ("good", 1.0))
    )
    full = quota(namespace="evil", hard={GPU: 0})
    assert ["good/g"] == admitted(scene(cluster(NODE, full, low, evil, good), config))


amounts = st.dictionaries(st.sampled_from(("cpu", "requests.cpu", "limits.cpu", "pods")), st.integers(0, 5), max_size=4)
plain = st.dictionaries(st.sampled_from(("cpu", "limits.cpu", "pods")), st.integers(0, 5), max_size=3)


@given(amounts, amounts, plain, plain)
def test_safety_no_quota_is_exceeded(
    hard: dict[str, int], used: dict[str, int], asks: dict[str, int], promised: dict[str, int]
) -> None:
    fits = True
    for name, limit in hard.items():
        key = "cpu" if name == "requests.cpu" else name
        if asks.get(key, 0) and used.get(name, 0) + promised.get(key, 0) + asks[key] > limit:
            fits = False
    assert fits == (exceeded(Quota("ns/q", hard, used), asks, promised) is None)


def test_a_group_that_no_quota_would_ever_allow_is_promised_nothing() -> None:
    """A phase proves no admission: others of its namespace must not wait for it."""
    never = gang("never", 0, minimum=1, phase=Phase.INQUEUE, min_resources={GPU: 16}, gpu=1)
    plans = scene(cluster(NODE, quota(hard={"requests.nvidia.com/gpu": 8}), never, group("small", gpu=4)), CONFIG)
    assert ["ns/small"] == admitted(plans)


def test_needs_that_only_quotas_know_are_checked_too() -> None:
    asks = Gang(Job("ns/j", min_member=1, phase=Phase.PENDING, quota_needs={"limits.cpu": 8000}, declared=True), ())
    plans = scene(cluster(NODE, quota(hard={"limits.cpu": 4000}), asks), CONFIG)
    assert [] == admitted(plans)
    assert ["QuotaExceeded"] == [code for code, _ in words(plans, "ns/j")]


def test_a_quota_does_not_keep_other_namespaces_from_preempting() -> None:
    """One group over its quota, and one of another namespace that trial evictions let in, of the same queue."""
    text = TEXT.replace("enqueue, allocate", "enqueue, allocate, preempt").replace(
        "{name: gang}", "{name: gang, arguments: {gang.eviction: whole}}, {name: proportion}"
    )
    parts = (
        node("n1", gpu=4),
        gang("low", 1, gpu=4, on=["n1"], priority=1),
        quota(namespace="a", hard={"requests.nvidia.com/gpu": 1}),
        gang("a/over", 0, minimum=1, phase=Phase.PENDING, min_resources={GPU: 4}, gpu=4, priority=9),
        gang("z/small", 0, minimum=1, phase=Phase.PENDING, min_resources={GPU: 4}, gpu=4, priority=9),
    )
    assert ["z/small"] == admitted(scene(cluster(*parts), configured(text)))


def test_a_group_keeps_quota_for_the_pod_of_a_role_that_does_not_exist() -> None:
    """All four pods of its minimum exist, but none of role `ps`: one more comes, and uses a quarter of its needs."""
    made = gang("a", 4, minimum=4, phase=Phase.INQUEUE, min_resources={GPU: 4}, gpu=1, role_min={"ps": 1, "worker": 1})
    for last, expected in (("worker", []), ("ps", ["ns/b"])):
        named = tuple(replace(pod, role="worker" if i < 3 else last) for i, pod in enumerate(made.tasks))
        limit = quota(hard={GPU: 8}, used={GPU: 7})
        plan = decide(Snapshot(cluster(NODE, limit, Gang(made.job, named), group("b", gpu=1))), CONFIG, 0.0)
        assert expected == admitted([plan])
