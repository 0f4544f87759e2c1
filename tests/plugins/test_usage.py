"""usage: busy nodes take no more pods, idle nodes come first, and pods that have just started are estimated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maar.config.file import read_config
from maar.config.problems import ConfigError
from maar.model.loads import MAX_AGE, Load
from maar.model.plan import Plan
from maar.model.resources import CPU, MEMORY, PODS
from maar.model.shapes import Shape
from maar.model.snapshot import Cluster, Snapshot
from maar.model.tasks import Status, Task
from maar.model.verdicts import verdict
from maar.plugins.volcano import usage
from maar.registry import catalog
from maar.session.register import Register
from maar.session.session import Session
from maar.testing.builders import Gang, cluster, gang, node
from maar.testing.scenario import configured, cycles, scene

LONG_AGO = -1000.0


def text(arguments: str = "{}", flags: str = "", interval: str = "30s", more: str = "") -> str:
    return f"""
actions: "allocate, preempt, backfill"
tiers:
- plugins: [{{name: priority}}, {{name: gang}}, {{name: predicates}}{more}]
- plugins: [{{name: usage, {flags} arguments: {arguments}}}]
metrics: {{type: metrics_server, interval: {interval}}}
"""


def plans(made: Cluster, arguments: str = "{}", now: float = 0.0, **file: str) -> list[Plan]:
    return scene(made, configured(text(arguments, **file)), now)


def used(made: Cluster, arguments: str = "{}", now: float = 0.0, **file: str) -> list[str]:
    """The nodes of the pods of the job `new`, in the order of their numbers."""
    binds = [b for plan in plans(made, arguments, now, **file) for b in plan.bind if b.task.startswith("ns/new")]
    return [bind.node for bind in sorted(binds, key=lambda b: b.task)]


def load(name: str, cpu: float | None, memory: float | None = 0.0, at: float = 0.0) -> Load:
    return Load(name, cpu, memory, at)


def world(*more: Load | Gang, **new: Any) -> Cluster:
    """Two nodes with 10 cores, which come in this order if they are alike."""
    nodes = [node(name, cpu=10, memory="10Gi") for name in ("n1", "n2")]
    return cluster(nodes, *more, gang("new", **{"memory": 0, **new}))


# -- the filter


def test_a_busy_node_takes_no_pods() -> None:
    assert ["n1"] == used(world())
    assert ["n2"] == used(world(load("n1", 0.81)), "{usage.weight: 0}")
    assert ["n1"] == used(world(load("n1", 0.8)), "{usage.weight: 0}"), "exactly at the threshold"
    assert ["n2"] == used(world(load("n1", 0.1, 0.81)), "{usage.weight: 0}")


@pytest.mark.parametrize(
    ("thresholds", "expected"),
    [("{cpu: 50}", "n2"), ("{cpu: 60}", "n1"), ("{mem: 20}", "n2"), ("{mem: '30'}", "n1"), ("{cpu: 0}", "n2")],
)
def test_thresholds(thresholds: str, expected: str) -> None:
    made = world(load("n1", 0.55, 0.25), load("n2", 0.0))
    assert [expected] == used(made, f"{{usage.weight: 0, thresholds: {thresholds}}}")


def test_reasons_say_how_busy_nodes_are() -> None:
    made = world(load("n1", 0.9, 0.9), load("n2", 0.1, 0.7))
    (waiting,) = plans(made, "{thresholds: {cpu: 80, mem: 62.5}}")[-1].waiting
    (reason,) = waiting.reasons
    assert "0/2 nodes fit: 1 above 80 % CPU use, 1 above 62.5 % memory use" == reason.message
    assert "Unschedulable" == verdict(waiting.reasons).condition
    assert reason.never is None


def test_it_waits_until_the_figures_are_too_old() -> None:
    """Even if no new ones come: old figures never stop scheduling."""
    made = world(load("n1", 0.9), load("n2", 0.9))
    config = configured(text())
    (first,), _ = cycles(made, config, 1, now=10.0)
    assert ((), MAX_AGE + 1.0) == (first.bind, first.wake_at)
    (then,), _ = cycles(made, config, 1, now=MAX_AGE + 1.0)
    assert ["n1"] == [b.node for b in then.bind]


def test_nothing_is_evicted_for_a_pod_that_only_busy_nodes_keep_waiting() -> None:
    low = gang("low", cpu=10, memory=0, on=["n1"], priority=-1, task={"started": LONG_AGO})
    made = world(low, load("n1", 0.9), load("n2", 0.9), cpu=10)
    assert [()] * len(found := plans(made)) == [plan.evict for plan in found]


def test_the_filter_can_be_switched_off() -> None:
    """Then the load only counts for the order, as in Volcano."""
    made = world(load("n1", 0.9), load("n2", 0.95))
    assert ["n1"] == used(made, flags="enablePredicate: false,")
    assert ["n2"] == used(world(load("n1", 0.95), load("n2", 0.9)), flags="enablePredicate: false,")


@pytest.mark.parametrize("at", [-MAX_AGE - 1.0, MAX_AGE + 60.0])
def test_old_figures_and_figures_from_the_future_count_as_absent(at: float) -> None:
    assert ["n1"] == used(world(load("n1", 0.9, at=at), load("n2", 0.0, at=at)))


# -- the score


def test_the_node_with_less_load_is_first() -> None:
    assert ["n2"] == used(world(load("n1", 0.5), load("n2", 0.4)))
    assert ["n2"] == used(world(load("n1", 0.1, 0.5), load("n2", 0.2, 0.3)))


def test_the_weights_of_cpu_and_memory() -> None:
    made = world(load("n1", 0.6, 0.1), load("n2", 0.5, 0.4))
    assert ["n1"] == used(made)
    assert ["n2"] == used(made, "{cpu.weight: 4}")
    assert ["n2"] == used(made, "{memory.weight: 0}")
    assert ["n1"] == used(made, "{cpu.weight: 0}")
    assert ["n1"] == used(world(load("n1", 0.6), load("n2", 0.5)), "{cpu.weight: 0, memory.weight: 0}")


def test_the_weight_of_the_plugin_beside_other_scores() -> None:
    """n1 has room, n2 has little load."""
    old = gang("old", cpu=8, memory=0, on=["n2"], task={"started": LONG_AGO})
    made = world(old, load("n1", 0.6), load("n2", 0.2))
    more = ", {name: nodeorder, arguments: {leastrequested.weight: 1, balancedresource.weight: 0}}"
    assert ["n2"] == used(made, more=more)
    assert ["n1"] == used(made, "{usage.weight: 1}", more=more)
    assert ["n1"] == used(made, "{usage.weight: 0}", more=more)


def test_a_node_without_figures_has_no_points() -> None:
    assert ["n2"] == used(world(load("n2", 0.7)))
    assert ["n2"] == used(world(load("n1", 0.1, None), load("n2", 0.7)))
    assert ["n1"] == used(world(load("n1", 0.1, None), load("n2", 0.7)), "{memory.weight: 0}")


# -- estimates


def test_new_pods_are_spread_by_their_estimates() -> None:
    """Each takes 35 % of the score of its node; without estimates all would go to n1."""
    made = world(load("n1", 0.1), load("n2", 0.2), count=3, cpu=3, minimum=3)
    assert ["n1", "n2", "n1"] == used(made)
    assert ["n1", "n1", "n1"] == used(made, "{estimator: {request_ratio: 0}}")


def started(at: float | None, **shape: Any) -> Gang:
    """A pod on n1 that started at a time."""
    return gang("old", **{"cpu": 2, "memory": 0, "on": ["n1"], "task": {"started": at, "created": LONG_AGO}, **shape})


@pytest.mark.parametrize(
    ("at", "interval", "expected"),
    [
        (-20.0, "30s", "n2"),
        (-40.0, "30s", "n1"),
        (-40.0, "1m", "n2"),
        (None, "30s", "n2"),
    ],
)
def test_a_pod_counts_until_the_figures_contain_it(at: float | None, interval: str, expected: str) -> None:
    made = world(started(at), load("n1", 0.1), load("n2", 0.2))
    assert [expected] == used(made, interval=interval)


def test_figures_that_are_not_renewed_keep_the_estimates() -> None:
    """The pod started 100 s ago, and the figures are older."""
    made = world(started(0.0), load("n1", 0.1, at=10.0), load("n2", 0.2, at=10.0))
    assert ["n2"] == used(made, now=100.0)


@pytest.mark.parametrize(
    ("estimator", "shape", "expected"),
    [
        # n1 has 10 % load and an estimate, n2 has 24 %.
        ("{}", {"cpu": 2}, "n1"),  # 14 %, which is 24 % in all: equal scores go to the first name
        ("{request_ratio: 0.71}", {"cpu": 2}, "n2"),
        ("{request_ratio: 0.69}", {"cpu": 2}, "n1"),
        ("{burst_ratio: 0.1}", {"cpu": 2, "constraints": {"limits": ((CPU, 4000),)}}, "n2"),
        ("{burst_ratio: 0}", {"cpu": 2, "constraints": {"limits": ((CPU, 4000),)}}, "n1"),
        ("{burst_ratio: 1}", {"cpu": 2}, "n1"),
        ("{risk_threshold: 0.05}", {"cpu": 2}, "n2"),  # 5 % load without the pod: its estimate is multiplied
        ("{risk_threshold: 0.06}", {"cpu": 2}, "n1"),
        ("{risk_threshold: 0.05, risk_factor: 1}", {"cpu": 2}, "n1"),
        # Never more than the limit, or without one the request.
        ("{request_ratio: 1, risk_threshold: 0, risk_factor: 9}", {"cpu": 1.4}, "n1"),
        ("{request_ratio: 1, risk_threshold: 0, risk_factor: 9}", {"cpu": 1.5}, "n2"),
        # A pod without requests.
        ("{be_cpu: '1.4', be_mem: 0}", {"cpu": 0}, "n1"),
        ("{be_cpu: 1401m, be_mem: 0}", {"cpu": 0}, "n2"),
        ("{be_cpu: 0, be_mem: 4Gi}", {"cpu": 0}, "n2"),
        ("{be_cpu: 0, be_mem: 1Gi}", {"cpu": 0}, "n1"),
    ],
)
def test_the_arguments_of_the_estimator(estimator: str, shape: dict[str, Any], expected: str) -> None:
    made = world(started(None, **shape), load("n1", 0.1), load("n2", 0.24))
    assert [expected] == used(made, f"{{estimator: {estimator}}}")


def test_a_pod_that_leaves_is_not_estimated() -> None:
    old = gang("old", cpu=2, memory=0, on=["n1"], task={"started": None, "status": Status.RELEASING})
    assert ["n1"] == used(world(old, load("n1", 0.1), load("n2", 0.2)))


# -- arguments


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("{usage.weight: -1}", "usage.weight: expected a number of at least 0"),
        ("{cpu.weight: much}", "cpu.weight: expected a number"),
        ("{thresholds: {cpu: 180}}", "thresholds: Expected `float` <= 100"),
        ("{thresholds: {CPUUsageAvg.5m: 80}}", "thresholds: Object contains unknown field `CPUUsageAvg.5m`"),
        ("{thresholds: 80}", "thresholds: Expected `object`"),
        ("{estimator: {risk_factor: 0.5}}", "estimator: Expected `float` >= 1"),
        ("{estimator: {request_ratio: 2}}", "estimator: Expected `float` <= 1"),
        ("{estimator: {be_cpu: lots}}", "estimator: be_cpu: not a quantity"),
        ("{estimator: {be_mem: -1}}", "estimator: be_mem: expected an amount of at least 0"),
        ("{weight: 5}", "unknown argument `weight`; did you mean `cpu.weight`"),
    ],
)
def test_mistakes_in_arguments_have_a_path(arguments: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_config(text(arguments), "conf.yaml", catalog())
    assert problem.partition("; did")[0] in str(caught.value)


# -- the same in plain Python

FRACTIONS = st.one_of(st.none(), st.floats(0.0, 1.5))
AMOUNTS = st.integers(0, 4000)
PODS_ON = st.tuples(
    st.integers(0, 3),  # the node
    AMOUNTS,  # CPU
    st.integers(0, 2**32),  # memory
    st.sampled_from([0, 0, 1000, 9000]),  # limit of CPU above the request
    st.sampled_from([None, -100.0, -10.0, 10.0]),  # start
    st.sampled_from([Status.BOUND, Status.BOUND, Status.NOMINATED, Status.RELEASING]),
)
LOADS = st.tuples(st.integers(0, 4), FRACTIONS, FRACTIONS, st.sampled_from([0.0, 0.0, -299.0, -301.0, 400.0]))
ARGUMENTS = st.builds(
    usage.Arguments,
    weight=st.sampled_from([1.0, 5.0]),
    cpu=st.sampled_from([0.0, 1.0, 3.0]),
    memory=st.sampled_from([0.5, 1.0]),
    thresholds=st.builds(usage.UsageThresholds, cpu=st.floats(0, 100), memory=st.floats(0, 100)),
    estimator=st.builds(
        usage.Estimator,
        request=st.floats(0, 1),
        burst=st.floats(0, 1),
        risk_threshold=st.floats(0, 1),
        risk_factor=st.floats(1, 3),
        be_cpu=st.sampled_from(["0", "250m", 2]),
        be_mem=st.sampled_from(["200Mi", "0"]),
    ),
)
MILLI = {"0": 0, "250m": 250, 2: 2000}
BYTES = {"0": 0, "200Mi": 200 * 2**20}


def reference(made: Cluster, a: usage.Arguments) -> tuple[list[str], list[float]]:
    """For each node the code of the refusal, and its points, by the rules on the page."""
    figures = {item.node: item for item in made.loads}
    codes, points = [], []
    for one in sorted(made.nodes, key=lambda n: n.name):
        figure = figures.get(one.name)
        if figure is None or abs(figure.at) > 300:
            codes.append("")
            points.append(0.0)
            continue
        if figure.cpu is not None and figure.cpu * 100 > a.thresholds.cpu:
            codes.append("CpuLoad")
        elif figure.memory is not None and figure.memory * 100 > a.thresholds.memory:
            codes.append("MemoryLoad")
        else:
            codes.append("")
        if (figure.cpu is None and a.cpu > 0) or (figure.memory is None and a.memory > 0):
            points.append(0.0)
            continue
        estimate = [0, 0]
        capacity = [one.allocatable[CPU], one.allocatable[MEMORY]]
        real = [figure.cpu or 0.0, figure.memory or 0.0]

        def load(real: list[float] = real, estimate: list[int] = estimate, has: list[int] = capacity) -> float:
            cpu, memory = (min(1.0, r + e / c) for r, e, c in zip(real, estimate, has, strict=True))
            return (cpu * a.cpu + memory * a.memory) / (a.cpu + a.memory)

        for task in sorted(made.tasks, key=lambda t: (t.job, t.index, t.created, t.key)):
            seen = task.status is Status.BOUND and task.started is not None and task.started + 30 <= figure.at
            if task.node != one.name or seen or task.status not in (Status.BOUND, Status.NOMINATED):
                continue
            factor = a.estimator.risk_factor if load() >= a.estimator.risk_threshold else 1.0
            asks, limits = dict(task.shape.requests), dict(task.shape.limits)
            for i, name in enumerate((CPU, MEMORY)):
                request = asks.get(name, 0)
                limit = max(limits.get(name, 0), request)
                part = request * a.estimator.request + (limit - request) * a.estimator.burst
                fixed = (MILLI[a.estimator.be_cpu], BYTES[a.estimator.be_mem])[i]  # type: ignore[index]
                guess = fixed * factor if task.shape.best_effort else min(part * factor, limit)
                estimate[i] += round(guess)
        points.append((1 - load()) * 100 * a.weight)
    return codes, points


@given(st.lists(PODS_ON, max_size=12), st.lists(LOADS, max_size=5, unique_by=lambda item: item[0]), ARGUMENTS)
def test_masks_and_scores_are_those_of_plain_python(
    pods: list[Any], loads: list[Any], arguments: usage.Arguments
) -> None:
    nodes = [node(f"n{i}", cpu=4 + i, memory=f"{8 + i}Gi") for i in range(4)]
    made_tasks = []
    for number, (where, cpu, memory, above, start, status) in enumerate(pods):
        asks = {CPU: cpu, MEMORY: memory, PODS: 1}
        shape = Shape(
            requests=tuple(sorted((name, amount) for name, amount in asks.items() if amount)),
            limits=((CPU, cpu + above),) if above else (),
        )
        made_tasks.append(
            Task(f"ns/p{number}", f"ns/p{number}", shape, status, f"n{where}", started=start, created=LONG_AGO)
        )
    made = cluster(nodes, made_tasks, [Load(f"n{i}", cpu, memory, at) for i, cpu, memory, at in loads], gang("new"))
    session = Session(Snapshot(made), configured(text()), 0.0)
    plugin = usage.Usage(arguments)
    plugin.open(session, Register(session.hooks, "usage", 0, {}))
    shape_number = session.snapshot.shapes.number[gang("new").tasks[0].shape]
    codes, points = reference(made, arguments)
    refused = [""] * 4
    for refusal in session.refusals(shape_number):
        for row in np.flatnonzero(refusal.nodes).tolist():
            refused[row] = refusal.code.name
    assert codes == refused
    scores = np.zeros(4)
    for entry in session.hooks.scores:
        scores += entry.call(shape_number, slice(None))
    np.testing.assert_allclose(points, scores, rtol=1e-9, atol=1e-6)
    for row in range(4):
        alone = sum(entry.call(shape_number, np.array([row]))[0] for entry in session.hooks.scores)
        assert scores[row] == alone


@given(st.lists(PODS_ON, max_size=8), st.lists(st.integers(0, 3), min_size=1, max_size=4), ARGUMENTS)
def test_placements_count_at_once_and_a_rollback_restores_the_scores(
    pods: list[Any], places: list[int], arguments: usage.Arguments
) -> None:
    """The same points as if the pods had been there from the beginning."""
    figures = [Load(f"n{i}", 0.2 * i, 0.1, 0.0) for i in range(4)]

    def world(on: list[str]) -> Cluster:
        old = [
            Task(f"ns/p{i}", f"ns/p{i}", Shape(requests=((CPU, cpu or 1), (PODS, 1))), Status.BOUND, f"n{where}")
            for i, (where, cpu, *_) in enumerate(pods)
        ]
        nodes = [node(f"n{i}", cpu=100) for i in range(4)]
        new = gang("new", len(places), on=on, task={"started": None})
        return cluster(nodes, old, figures, new)

    def opened(made: Cluster) -> Session:
        session = Session(Snapshot(made), configured(text()), 0.0)
        usage.Usage(arguments).open(session, Register(session.hooks, "usage", 0, {}))
        return session

    def points(session: Session) -> list[float]:
        (entry,) = session.hooks.scores
        scores: list[float] = entry.call(0, slice(None)).tolist()
        return scores

    session = opened(world([]))
    before = points(session)
    job = session.snapshot.jobs.number["ns/new"]
    tasks = session.tasks_of(session.job(job), Status.PENDING)
    shape = int(session.snapshot.tasks.shape[tasks[0]])
    with session.statement():
        for task, place in zip(tasks.tolist(), places, strict=True):
            session.state.bind(job, shape, np.array([task]), np.array([place]), np.array([1]))
            points(session)
        there = opened(world([f"n{place}" for place in places]))
        assert points(there) == points(session)
    assert before == points(session)
