"""Mistakes measured in Voda, each with a test that fails on that behaviour.

Here are the mistakes about the decision as a whole. docs/from-voda.md lists all of them with their tests, and the last
test checks that list.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from maar.config.config import Config
from maar.config.file import ConfigError, read_config
from maar.decide import decide
from maar.model.elastic import Past
from maar.model.snapshot import Cluster, Snapshot
from maar.model.tasks import Status
from maar.registry import catalog
from maar.testing.builders import Gang, cluster, elastic, gang, node
from maar.testing.scenario import configured, cycles, scene

ROOT = Path(__file__).parents[1]
CONFIG = """
actions: "enqueue, allocate, resize, preempt, reclaim"
tiers:
- plugins: [{{name: priority}}, {{name: gang, arguments: {{gang.eviction: whole}}}}]
- plugins: [{{name: predicates}}, {{name: proportion}}, {{name: binpack}}]
pools:
- {{name: default, algorithm: {algorithm}, rate-limit: 0, minimum-time: 0, restart: {restart}, migrate: {migrate}}}
"""


def config(algorithm: str = "elastic-fifo", restart: int = 0, migrate: bool = False) -> Config:
    """All brakes off unless given."""
    return configured(CONFIG.format(algorithm=algorithm, restart=restart, migrate=str(migrate).lower()))


def without(before: Cluster, name: str) -> Cluster:
    """The cluster without a job and its pods."""
    jobs = tuple(job for job in before.jobs if job.key != f"ns/{name}")
    return msgspec.structs.replace(
        before, jobs=jobs, tasks=tuple(task for task in before.tasks if task.job != f"ns/{name}")
    )


def with_(before: Cluster, more: Gang) -> Cluster:
    """The cluster with one more job."""
    return msgspec.structs.replace(before, jobs=(*before.jobs, more.job), tasks=(*before.tasks, *more.tasks))


def past(of: Cluster, name: str) -> Past:
    """The stored past of a job."""
    (found,) = (job.elastic for job in of.jobs if job.key == f"ns/{name}")
    assert found is not None
    return found.past


def places(of: Cluster) -> dict[str, str]:
    """The node of each pod."""
    return {task.key: task.node for task in of.tasks if task.status == Status.BOUND}


# -- plans


def test_a_mistyped_algorithm_is_no_configuration() -> None:
    """In Voda the allocation failed, which was treated as a plan in which no job runs."""
    with pytest.raises(ConfigError, match=r"pools\[0\]\.algorithm: unknown algorithm `elastic-fivo`; did you mean"):
        read_config(CONFIG.format(algorithm="elastic-fivo", restart=0, migrate="false"), "test", catalog())


def test_whoever_is_given_workers_is_started_whether_or_not_a_plan_before_knew_it() -> None:
    """In Voda the difference of two plans used the keys of the old plan, which was empty after a restart."""
    jobs = [elastic(name, 1, 2) for name in "abc"]
    plan = cycles(cluster(node("n1", gpu=4), *jobs, elastic("d", 1, 2, on=["n1"])), config(), 1)[0][0]
    assert {"ns/a", "ns/b", "ns/c"} == {resume.job for resume in plan.resume}


# -- service and waiting


def test_attained_service_adds_up_over_all_runs() -> None:
    """In Voda it restarted with every run, so a job that was stopped in time was never demoted."""
    rules = config("tiresias")
    first = cluster(node("n1", gpu=2), elastic("a", 2, 2))
    _, now = cycles(first, rules, 2, now=100.0)
    important = elastic("b", 2, 2, priority=9)
    _, now = cycles(with_(now, important), rules, 3, now=200.0)
    assert not [pod for pod in places(now) if "/a-" in pod]
    assert pytest.approx(200.0, abs=4.0) == past(now, "a").attained
    _, now = cycles(without(now, "b"), rules, 2, now=1000.0)
    _, now = cycles(with_(now, important), rules, 3, now=1050.0)
    assert pytest.approx(200.0 + 100.0, abs=4.0) == past(now, "a").attained


def test_a_job_that_has_just_started_is_not_promoted_for_what_it_waited_before() -> None:
    """In Voda the waiting counter was not reset: 42 of 42 promotions came within seconds of a start."""
    rules = config("tiresias")
    had = Past(first_start=0.0, since=0.0, ran=10.0, attained=5000.0, counted=0.0, last_resize=0.0)
    waited = elastic("a", 1, 1, past=had)  # seventy of the eighty seconds before a promotion
    _, now = cycles(cluster(node("n1", gpu=1), waited), rules, 3, now=70.0)
    assert {"ns/a-worker-0": "n1"} == places(now)
    plan = cycles(with_(now, elastic("b", 1, 1)), rules, 1, now=73.0)[0][0]
    assert (["ns/a"], ["ns/b"]) == ([s.job for s in plan.suspend], [r.job for r in plan.resume])


def test_a_job_that_has_waited_long_enough_is_promoted() -> None:
    """The opposite case: the rule does promote."""
    had = Past(first_start=0.0, since=0.0, ran=10.0, attained=5000.0, counted=0.0, last_resize=0.0)
    before = cluster(
        node("n1", gpu=1), elastic("a", 1, 1, past=had), elastic("b", 1, 1, on=["n1"], past=Past(first_start=1.0))
    )
    plan = cycles(before, config("tiresias"), 1, now=81.0)[0][0]
    assert ["ns/a"] == [r.job for r in plan.resume]


# -- workers on nodes


@pytest.mark.parametrize(("migrate", "most"), [(False, 0), (True, 7)])
def test_a_run_of_24_jobs_moves_no_worker_that_may_stay(migrate: bool, most: int) -> None:
    """In Voda workers were mapped to nodes in random order: 74 to 115 unneeded deletions in a run of 24 jobs.

    With migration, only moves that put a job on fewer nodes remain: at most a tenth.
    """
    rules, dice = config(restart=30, migrate=migrate), random.Random(5)
    now, moved, time = cluster([node(f"n{i}", gpu=8) for i in range(4)]), 0, 0.0
    for number in range(24):
        low = dice.randint(1, 4)
        now = with_(now, elastic(f"j{number:02}", low, low + dice.randint(0, 12), job={"created": time}))
        if number >= 6:
            now = without(now, f"j{dice.choice(range(number - 6, number)):02}")
        for _ in range(4):
            before = places(now)
            plans, now = cycles(now, rules, 1, now=time)
            time += 1.0
            after = places(now)
            assert {k: v for k, v in before.items() if k in after} == {k: v for k, v in after.items() if k in before}
            moved += len(plans[0].evict)
    assert moved <= most
    assert max(places(now).values()) == "n3", "all nodes were in use"


def test_the_order_in_which_nodes_and_jobs_are_listed_moves_nobody() -> None:
    nodes = [node(f"n{i}", gpu=8) for i in range(4)]
    settled = cluster(nodes, *(elastic(name, 2, 12) for name in "abc"))
    for _ in range(4):
        settled = cycles(settled, config(), 1)[1]
    expected = places(settled)
    assert 32 == len(expected)
    for seed in range(10):
        dice = random.Random(seed)
        mixed = msgspec.structs.replace(
            settled,
            **{part: tuple(dice.sample(list(getattr(settled, part)), k=len(getattr(settled, part))))
               for part in ("nodes", "jobs", "tasks")},
        )  # fmt: skip
        plan = decide(Snapshot(mixed), config(migrate=True), 10.0)
        assert not plan.moves


def test_the_remainders_of_jobs_across_nodes_are_booked_once() -> None:
    """In Voda each job's remainder went to a node that still looked empty: two of them overbooked it."""
    nodes = [node(f"n{i}", gpu=8) for i in range(4)]
    before = cluster(
        nodes, elastic("a", 11, 11), elastic("b", 11, 11), gang("r", 1, gpu=3, on=["n3"]), elastic("c", 7, 7)
    )
    plans = scene(before, config())
    kept = Counter[str]({"n3": 3})
    for hold in plans[0].reserve:
        kept[hold.node] += hold.count
    assert {"n0": 8, "n1": 8, "n2": 8, "n3": 8} == dict(kept), "all 32 GPUs, and none twice"
    assert 29 == sum(len(plan.bind) for plan in plans)


# -- the list


def test_every_mistake_on_the_list_has_its_test() -> None:
    page = (ROOT / "docs" / "from-voda.md").read_text()
    named = re.findall(r"`(tests/[a-z_/]+\.py)::(test_\w+)`", page)
    rows = [line for line in page.partition("## What went wrong")[2].splitlines() if line.startswith("| ")][1:]
    assert 10 == len(rows)
    assert all("`tests/" in row for row in rows)
    for file, name in named:
        assert f"def {name}(" in (ROOT / file).read_text(), f"{file} has no {name}"
