"""rescheduling with the action shuffle: jobs leave busy nodes if they fit on nodes with little to do."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.facts import facts, rounds_of

from maar.config.config import Config
from maar.config.file import ConfigError, read_config
from maar.controller.settings.brakes import Brakes, BrakeSettings
from maar.decide import decide
from maar.model.loads import Load
from maar.model.nodes import Node
from maar.model.plan import Cause, Plan
from maar.model.queues import Queue
from maar.model.selectors import Requirement
from maar.model.snapshot import Budget, Cluster, Snapshot
from maar.registry import catalog
from maar.testing.builders import Gang, cluster, elastic, gang, node
from maar.testing.scenario import configured, cycles, scene

NOW = 1000.0
TEXT = """
actions: "allocate, shuffle"
metrics: {type: metrics_server}
tiers:
- plugins:
  - {name: priority}
  - {name: gang}
  - {name: predicates}
  - name: rescheduling
    arguments: ARGUMENTS
"""
LIMITS = (
    "strategies: [{name: lowNodeUtilization, params: {thresholds: {cpu: 30, memory: 30}, targetThresholds: TARGET}}]"
)


def arguments(more: str = "", target: str = "{cpu: 80, memory: 80}") -> str:
    return "{" + LIMITS.replace("TARGET", target) + (f", {more}" if more else "") + "}"


def config(given: str = arguments()) -> Config:
    return configured(TEXT.replace("ARGUMENTS", given))


CONFIG = config()


def load(name: str, cpu: float | None, memory: float | None = 0.1, at: float = NOW - 10) -> Load:
    return Load(name, cpu, memory, at, 10_000, 10 * 2**30)


def machine(name: str, **fields: Any) -> Node:
    return node(name, **{"cpu": 10, "memory": "10Gi", **fields})


BUSY, FREE = (machine("n1"), load("n1", 0.9)), (machine("n2"), load("n2", 0.1))
HALF = (machine("n3"), load("n3", 0.5))


def job(name: str, cpu: float = 2, on: tuple[str, ...] = ("n1",), **fields: Any) -> Gang:
    task = {"controlled": True, **fields.pop("task", {})}
    return gang(name, len(on), cpu=cpu, memory=fields.pop("memory", "100Mi"), on=on, task=task, **fields)


def run(*parts: Any, how: Config = CONFIG, now: float = NOW, **fields: Any) -> Plan:
    return decide(Snapshot(cluster(*parts, **fields)), how, now)


def gone(plan: Plan) -> list[str]:
    return sorted(e.task.removeprefix("ns/") for e in plan.evict)


# -- who leaves


def test_the_least_important_job_leaves_a_busy_node() -> None:
    """Two CPUs less are 70 %: one job is enough. In the next cycles nothing moves."""
    parts = (BUSY, FREE, job("a", priority=2), job("b", priority=1), job("c", priority=3))
    plans = scene(cluster(*parts), CONFIG, NOW)
    assert ["b-0"] == gone(plans[0])
    evict = plans[0].evict[0]
    assert ("ns/b", Cause.SHUFFLED) == (evict.beneficiary, evict.cause)
    assert "moved: pods of `ns/b` leave busy node `n1`: cpu 90 % in use, target 80 %" == evict.reason
    assert {"rescheduling": NOW} == rounds_of(plans[0])
    assert not any(plan.evict for plan in plans[1:])


def test_jobs_leave_until_the_load_is_below_the_target() -> None:
    assert ["a-0", "b-0"] == gone(run(BUSY, FREE, job("a", 0.7), job("b", 0.7), job("c", 0.7)))
    assert ["a-0"] == gone(run(BUSY, FREE, job("a", 1.1), job("b", 0.7), job("c", 0.7)))


def test_the_busiest_node_comes_first() -> None:
    """There is room for one job: 6 CPUs until 80 % of the free node are in use."""
    parts = (BUSY, machine("n0"), load("n0", 0.85), machine("n2"), load("n2", 0.2), job("a", 6), job("b", 6, ("n0",)))
    assert ["a-0"] == gone(run(*parts))


@pytest.mark.parametrize("memory", [0.85, 0.5])
def test_memory_counts_too(memory: float) -> None:
    parts = (machine("n1"), load("n1", 0.1, memory), FREE, job("a", 1, memory="2Gi"))
    assert (["a-0"] if memory > 0.8 else []) == gone(run(*parts))


def test_a_pod_that_requests_nothing_of_what_is_short_stays() -> None:
    """Volcano evicts all such pods, since its estimate of the load does not change with them."""
    parts = (BUSY, FREE, gang("a", cpu=0, memory="1Gi", on=["n1"], task={"controlled": True}), job("b", priority=5))
    assert ["b-0"] == gone(run(*parts))


def test_a_gang_leaves_whole_or_stays() -> None:
    """One member is on a busy node; both need room elsewhere."""
    pair = job("a", 4, ("n1", "n3"))
    assert ["a-0", "a-1"] == gone(run(BUSY, FREE, HALF, machine("n4"), load("n4", 0.1), pair))
    assert [] == gone(run(BUSY, FREE, HALF, pair))


def test_surplus_leaves_alone() -> None:
    assert ["a-1"] == gone(run(BUSY, FREE, job("a", 2, ("n1", "n1"), minimum=1)))


# -- who stays


@pytest.mark.parametrize(
    "fields",
    [
        {"preemptable": False},
        {"critical": True},
        {"resident": True},
        {"foreign": True},
        {"controlled": False},
        {"budgets": ("ns/pdb",)},
        {"cooldown": NOW + 1},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_a_protected_pod_stays(fields: dict[str, Any]) -> None:
    """Also one that nothing would create again: it would be deleted, not moved. The next job leaves instead."""
    parts = (BUSY, FREE, Budget("ns/pdb", 0), job("a", task=fields), job("b", priority=5))
    assert ["b-0"] == gone(run(*parts))


def test_a_cooldown_ends() -> None:
    guarded = (BUSY, FREE, job("a", task={"cooldown": NOW + 5}))
    plan = run(*guarded)
    assert ([], NOW + 5) == (gone(plan), plan.wake_at)


def test_an_elastic_job_stays() -> None:
    assert [] == gone(run(BUSY, FREE, elastic("a", 1, 2, on=["n1"], gpu=0, cpu=2)))


@pytest.mark.parametrize(
    ("elsewhere", "expected"),
    [
        ((machine("n2"), load("n2", 0.1)), ["a-0"]),
        ((machine("n2", cpu=3), load("n2", 0.1)), []),  # too small
        ((machine("n2", unschedulable=True), load("n2", 0.1)), []),
        ((machine("n2"), load("n2", 0.5)), []),  # neither busy nor with little to do
        ((machine("n2"), load("n2", 0.1, 0.5)), []),  # its memory is in use
        ((machine("n2"), load("n2", 0.29), job("x", 7, ("n2",))), []),  # idle, but its pods have requested it
        ((machine("n2"),), []),  # no figures
        ((machine("n2"), load("n2", 0.1, None)), []),
        ((machine("n2"), load("n2", 0.1, at=NOW - 301)), []),
        ((), []),
    ],
)
def test_a_job_leaves_only_if_it_fits_on_a_node_with_little_to_do(elsewhere: Any, expected: list[str]) -> None:
    assert expected == gone(run(BUSY, elsewhere, job("a", 4)))


def test_a_move_does_not_make_another_node_busy() -> None:
    """It would be at 85 %."""
    parts = (machine("n1"), load("n1", 0.99), machine("n2"), load("n2", 0.25), job("a", 6))
    assert [] == gone(run(*parts))
    assert ["a-0"] == gone(run(*parts, how=config(arguments(target="{cpu: 90}"))))


def test_constraints_of_the_pod_hold_elsewhere() -> None:
    tied = {"node_selector": (Requirement("zone", "In", ("a",)),)}
    busy = (machine("n1", labels={"zone": "a"}), load("n1", 0.9))
    assert [] == gone(run(busy, FREE, job("a", constraints=tied)))
    there = (machine("n2", labels={"zone": "a"}), load("n2", 0.1))
    assert ["a-0"] == gone(run(busy, there, job("a", constraints=tied)))


def test_a_job_that_its_queue_could_not_pay_for_again_stays() -> None:
    small = Queue("small", capability={"cpu": 1000})
    how = configured(TEXT.replace("ARGUMENTS", arguments()) + "  - {name: capacity}\n")
    parts = (BUSY, FREE, small, job("a", 2, queue="small"))
    assert [] == gone(run(*parts, how=how))
    assert ["a-0"] == gone(run(*parts, how=CONFIG))


@pytest.mark.parametrize("others", [2, 6])
def test_a_job_that_its_queue_would_not_get_again_by_its_share_stays(others: int) -> None:
    """Without the job its queue has 6 of the 10 CPUs that it deserves, or 10: it then gets no more."""
    how = configured(TEXT.replace("ARGUMENTS", arguments()) + "  - {name: proportion}\n")
    parts = (BUSY, FREE, HALF, Queue("mine", weight=1), Queue("other", weight=2))
    waiting = gang("b", 4, cpu=5, memory="5Gi", queue="other")
    sizes = {"a": (4, "n1"), "c": (others, "n3"), "d": (4, "n3")}
    mine = [job(name, n, (on,), memory=f"{n}Gi", queue="mine") for name, (n, on) in sizes.items()]
    assert ([] if others == 6 else ["a-0"]) == gone(run(*parts, waiting, mine, how=how))


@pytest.mark.parametrize(
    "figures", [(), (load("n1", None, None),), (load("n1", 0.9, at=NOW - 301),), (load("n1", 0.9, at=NOW + 400),)]
)
def test_without_recent_figures_nothing_leaves(figures: tuple[Load, ...]) -> None:
    plans = scene(cluster(machine("n1"), figures, FREE, job("a")), CONFIG, NOW)
    assert not any(plan.evict for plan in plans)


# -- arguments


def test_interval() -> None:
    """A round each minute, with figures that were measured after the last one. In between nothing moves."""
    how = config(arguments("interval: 1m"))
    parts = (FREE[0], BUSY[0], job("a", 1), job("b", 1), job("c", 1))

    def at(now: float, measured: float, last: float | None) -> Plan:
        figures = (load("n1", 0.95, at=measured), load("n2", 0.1, at=measured))
        known = facts(rounds={} if last is None else {"rescheduling": last})
        return run(*parts, figures, how=how, now=now, facts=known)

    assert ["a-0", "b-0"] == gone(at(NOW, NOW - 1, None))
    early = at(NOW + 59, NOW + 58, NOW)
    assert ([], NOW + 60, {"rescheduling": NOW}) == (gone(early), early.wake_at, rounds_of(early))
    assert [] == gone(at(NOW + 60, NOW - 1, NOW))
    quiet = run(*parts, load("n1", 0.5), load("n2", 0.1), how=how)
    assert ([], NOW + 60, {}) == (gone(quiet), quiet.wake_at, rounds_of(quiet))
    late = at(NOW + 60, NOW + 58, NOW)
    assert (["a-0", "b-0"], {"rescheduling": NOW + 60}) == (gone(late), rounds_of(late))
    by_default = run(*parts, load("n1", 0.95), load("n2", 0.1), facts=facts(rounds={"rescheduling": NOW - 299}))
    assert ([], NOW + 1) == (gone(by_default), by_default.wake_at)


def test_metrics_period() -> None:
    parts = (machine("n1"), load("n1", 0.9, at=NOW - 100), machine("n2"), load("n2", 0.1, at=NOW - 100), job("a"))
    assert ["a-0"] == gone(run(*parts))
    assert [] == gone(run(*parts, how=config(arguments("metricsPeriod: 1m"))))


@pytest.mark.parametrize(
    ("thresholds", "target", "expected"),
    [
        ("{cpu: 30, memory: 30}", "{cpu: 80, memory: 80}", ["a-0"]),
        ("{cpu: 10}", "{cpu: 80}", []),  # 10 % is not below 10 %
        ("{cpu: 11}", "{cpu: 80}", ["a-0"]),
        ("{memory: 10, cpu: 30}", "{cpu: 80}", []),
        ("{cpu: 30}", "{cpu: 90}", []),  # 90 % is not above 90 %
        ("{cpu: 30}", "{cpu: 89.5}", ["a-0"]),
        ("{cpu: 30}", "{memory: 80}", []),
        ("{cpu: 30, pods: 1, pod: 1}", "{cpu: 80, pods: 1, pod: 1}", ["a-0"]),  # no effect, as in Volcano
        ("{}", "{cpu: 80}", []),  # as in Volcano: below 100 % a node has little to do, and is not busy
    ],
)
def test_thresholds(thresholds: str, target: str, expected: list[str]) -> None:
    params = f"{{thresholds: {thresholds}, targetThresholds: {target}}}"
    how = config(f"{{strategies: [{{name: lowNodeUtilization, params: {params}}}]}}")
    plans = scene(cluster(BUSY, FREE, job("a")), how, NOW)
    assert expected == gone(plans[0])


@pytest.mark.parametrize(
    ("given", "at", "expected"),
    [
        ("interval: 1m", NOW - 10, ["a-0"]),
        ("metricsPeriod: 30s", NOW - 20, ["a-0"]),
        ("metricsPeriod: 30s", NOW - 40, []),
    ],
)
def test_after_a_round_all_is_quiet(given: str, at: float, expected: list[str]) -> None:
    parts = (machine("n1"), load("n1", 0.9, at=at), machine("n2"), load("n2", 0.1, at=at), job("a"))
    plans = scene(cluster(*parts), config(arguments(given)), NOW)
    assert expected == [task for plan in plans for task in gone(plan)]


def test_the_defaults_move_nothing() -> None:
    for text in ("{}", "{strategies: []}", "{strategies: [{name: lowNodeUtilization}]}"):
        assert [] == gone(run(BUSY, FREE, job("a"), how=config(text)))


def test_parameters_without_effect() -> None:
    more = "thresholdPriorityClassName: system-cluster-critical, thresholdPriority: 5, nodeFit: false, numberOfNodes: 3"
    how = config(arguments().replace("thresholds: {cpu: 30", f"{more}, thresholds: {{cpu: 30", 1))
    assert ["a-0"] == gone(run(BUSY, FREE, job("a"), how=how))


@pytest.mark.parametrize(
    ("given", "path", "problem"),
    [
        ("{interval: soon}", "interval", "expected a duration such as `5m`, got `soon`"),
        ("{interval: 0s}", "interval", "expected a duration such as `5m`, got `0s`"),
        ("{interval: [5]}", "interval", "expected a duration such as `5m`"),
        ("{metricsPeriod: -1m}", "metricsPeriod", "expected a duration such as `5m`, got `-1m`"),
        ("{strategies: [{name: other}]}", "strategies", "Invalid enum value 'other' - at `$[0].name`"),
        ("{strategies: [{params: {}}]}", "strategies", "Object missing required field `name` - at `$[0]`"),
        (arguments(target="{cpu: 101}"), "strategies", "Expected `float` <= 100.0"),
        (arguments(target="{cpu: -1}"), "strategies", "Expected `float` >= 0.0"),
        (arguments(target="{cpu: .nan}"), "strategies", "Expected `float` >= 0.0"),
        (arguments(target="{cpus: 1}"), "strategies", "Object contains unknown field `cpus`"),
        ("{intervals: 5m}", "", "unknown argument `intervals`; did you mean `interval`?"),
    ],
)
def test_bad_arguments_are_reported(given: str, path: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_config(TEXT.replace("ARGUMENTS", given), "conf", catalog())
    where = "conf: tiers[0].plugins[3].arguments" + (f".{path}" if path else "")
    assert f"{where}: {problem}" in str(caught.value)


def test_flags() -> None:
    """`enableVictim: false` moves nothing; `enableNodeOrder: false` lets pods use busy nodes again."""
    parts = (BUSY, FREE, job("a"), gang("new", cpu=1))
    text = TEXT.replace("ARGUMENTS", arguments())
    assert ([], ["n2"]) == _both(run(*parts, how=configured(text + "    enableVictim: false\n")))
    assert (["a-0"], ["n1"]) == _both(run(*parts, how=configured(text + "    enableNodeOrder: false\n")))


def _both(plan: Plan) -> tuple[list[str], list[str]]:
    return gone(plan), [b.node for b in plan.bind]


# -- afterwards


def test_a_job_that_left_does_not_come_back_at_once() -> None:
    """Its pods are created again while the figures are still old: they go to the other node."""
    plans, after = cycles(cluster(BUSY, FREE, job("a", 6)), CONFIG, 2, NOW)
    assert ["a-0"] == gone(plans[0])
    again = gang("again", cpu=6, memory="100Mi")
    jobs, tasks = (*after.jobs, again.job), (*after.tasks, *again.tasks)
    plans = scene(replace(after, jobs=jobs, tasks=tasks), CONFIG, NOW + 2)
    assert [("ns/again-0", "n2")] == [(b.task, b.node) for plan in plans for b in plan.bind]
    assert not any(plan.evict for plan in plans)


def test_a_busy_node_is_used_if_no_other_has_room() -> None:
    assert ["n1"] == [b.node for b in run(BUSY, gang("a", cpu=6)).bind]


def test_brakes_stop_a_round() -> None:
    snapshot = Snapshot(cluster(BUSY, FREE, job("a")))
    plan = decide(snapshot, CONFIG, NOW)
    assert ["a-0"] == gone(plan)
    held = Brakes(BrakeSettings(paused=True)).apply(plan, snapshot, NOW)
    assert ([], {}) == (gone(held), rounds_of(held))


def test_nothing_happens_without_the_action() -> None:
    how = configured(TEXT.replace("ARGUMENTS", arguments()).replace(", shuffle", ""))
    assert [] == gone(run(BUSY, FREE, job("a"), how=how))


# -- against a plain reference


class Pod(NamedTuple):
    """A job of one pod in a random scene."""

    node: int
    cpu: int
    memory: int
    priority: int
    stays: bool


NODES = 4
random_pods = st.builds(
    Pod, st.integers(0, NODES - 1), st.integers(0, 4), st.integers(0, 4), st.integers(0, 2), st.booleans()
)
fraction = st.one_of(st.none(), st.sampled_from([0.05, 0.1, 0.3, 0.5, 0.75, 0.8, 0.85, 0.95]))


def expected_moves(loads: list[tuple[float | None, float | None]], pods: list[Pod]) -> set[int]:
    """What leaves 10-CPU, 10-Gi nodes with the thresholds 30 and 80, in whole CPUs and Gi of load."""

    def amounts(n: int) -> list[float | None]:
        return [None if part is None else round(10 * part, 6) for part in loads[n]]

    current = {n: amounts(n) for n in range(NODES)}
    free = [n for n in range(NODES) if all(x is not None and x < 3 for x in current[n])]
    busy = [n for n in range(NODES) if n not in free and any(x is not None and x > 8 for x in current[n])]
    room = {
        n: [10 - sum(p.cpu for p in pods if p.node == n), 10 - sum(p.memory for p in pods if p.node == n)] for n in free
    }
    left: set[int] = set()
    for n in sorted(busy, key=lambda n: (-sum(x or 0 for x in current[n]), n)):
        here = [i for i, p in enumerate(pods) if p.node == n]
        for i in sorted(here, key=lambda i: (pods[i].priority, bool(pods[i].cpu or pods[i].memory), i)):
            over = [x is not None and x >= 8 for x in current[n]]
            if not any(over):
                break
            asks = [pods[i].cpu, pods[i].memory]
            if pods[i].stays or not any(o and a for o, a in zip(over, asks, strict=True)):
                continue
            for target in free:
                of = current[target]
                if all(a <= r for a, r in zip(asks, room[target], strict=True)) and all(
                    not a or (x or 0) + a <= 8 for a, x in zip(asks, of, strict=True)
                ):
                    for d in range(2):
                        room[target][d] -= asks[d]
                        of[d] = (of[d] or 0) + asks[d]
                        mine = current[n][d]
                        current[n][d] = None if mine is None else round(mine - asks[d], 6)
                    left.add(i)
                    break
    return left


@given(
    st.lists(st.tuples(fraction, fraction), min_size=NODES, max_size=NODES),
    st.lists(random_pods, max_size=9),
)
def test_against_a_plain_reference(loads: list[tuple[float | None, float | None]], pods: list[Pod]) -> None:
    for n in range(NODES):  # what is on a node fits there
        while sum(p.cpu for p in pods if p.node == n) > 10 or sum(p.memory for p in pods if p.node == n) > 10:
            pods = [p for i, p in enumerate(pods) if i != max(j for j, q in enumerate(pods) if q.node == n)]
    scenery: Cluster = cluster(
        [(machine(f"n{i}")) for i in range(NODES)],
        [load(f"n{i}", *of) for i, of in enumerate(loads)],
        [
            job(
                f"p{i}",
                p.cpu,
                (f"n{p.node}",),
                memory=f"{p.memory}Gi",
                priority=p.priority,
                task={"preemptable": not p.stays},
            )
            for i, p in enumerate(pods)
        ],
    )
    plan = decide(Snapshot(scenery), CONFIG, NOW)
    assert expected_moves(loads, pods) == {int(name[1:].partition("-")[0]) for name in gone(plan)}
