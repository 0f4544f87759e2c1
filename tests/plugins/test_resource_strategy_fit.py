"""resource-strategy-fit: pack by some resources, spread by others, and keep scarce devices usable."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maar.config.config import Config, PluginOption, Registration
from maar.config.file import read_config
from maar.config.problems import ConfigError
from maar.model.plan import Plan
from maar.model.resources import CPU, MEMORY, PODS
from maar.model.shapes import FillStrategy
from maar.model.snapshot import Cluster, Snapshot
from maar.plugins.volcano import resource_strategy_fit as fit
from maar.registry import catalog
from maar.session.session import Session
from maar.testing.builders import GPU, Gang, cluster, gang, node
from maar.testing.scenario import configured, scene


def text(arguments: str) -> str:
    return f"""
actions: "allocate, preempt, backfill"
tiers:
- plugins: [{{name: priority}}, {{name: gang}}, {{name: predicates}}]
- plugins: [{{name: resource-strategy-fit, arguments: {arguments}}}]
"""


def used(made: Cluster, arguments: str) -> list[str]:
    """The nodes of the pods of the job `new`, in the order in which they were given."""
    plans: list[Plan] = scene(made, configured(text(arguments)))
    return [bind.node for plan in plans for bind in plan.bind if bind.task.startswith("ns/new")]


def world(*more: Gang, **new: Any) -> Cluster:
    """An empty node, a node half full of CPU, and a node half full of GPUs."""
    return cluster(
        [node(name, cpu=8, memory="64Gi", gpu=4) for name in ("n1", "n2", "n3")],
        gang("cpus", cpu=4, memory="1Gi", on=["n2"]),
        gang("gpus", cpu=1, memory="1Gi", gpu=2, on=["n3"]),
        *more,
        gang("new", **{"cpu": 1, "memory": "1Gi", "gpu": 1, **new}),
    )


# -- full or empty nodes first


def test_by_default_the_emptiest_node_by_cpu_and_memory_is_first() -> None:
    assert ["n1"] == used(world(), "{}")


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ("{cpu: {type: MostAllocated}}", "n2"),
        ("{nvidia.com/gpu: {type: MostAllocated, weight: 2}, cpu: {type: LeastAllocated}}", "n3"),
        ("{nvidia.com/gpu: {type: MostAllocated, weight: 1}, cpu: {type: MostAllocated, weight: 9}}", "n2"),
        ("{nvidia.com/*: {type: MostAllocated, weight: 1}}", "n3"),
        # The exact name wins, then the longest beginning.
        ("{nvidia.com/gpu: {}, nvidia.com/*: {type: MostAllocated}}", "n1"),
        ("{nvidia.com/g*: {type: MostAllocated}, n*: {weight: 100}}", "n3"),
    ],
)
def test_resources_are_packed_or_spread(resources: str, expected: str) -> None:
    assert [expected] == used(world(), f"{{resources: {resources}}}")


def test_the_weight_of_the_plugin() -> None:
    made, packs = world(), "resources: {cpu: {type: MostAllocated}}"
    other = "{name: nodeorder, arguments: {leastrequested.weight: 1, balancedresource.weight: 0}}"

    def chosen(weight: str) -> str:
        plain = text(f"{{{packs}, resourceStrategyFitWeight: {weight}}}").replace("{name: predicates}", other)
        return next(b.node for b in scene(made, configured(plain))[0].bind)

    assert ["n2", "n2", "n1"] == [chosen(weight) for weight in ("10", "-1", "0")]


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        (FillStrategy(pack=True), "n2"),
        (FillStrategy(pack=True, weights=((GPU, 1.0),)), "n3"),
        (FillStrategy(pack=False), "n1"),
        (FillStrategy(weights=((GPU, 5.0), ("memory", 0.1))), "n3"),
        (None, "n3"),
    ],
)
def test_a_pod_may_state_its_own_strategy(own: FillStrategy | None, expected: str) -> None:
    arguments = "{resources: {nvidia.com/gpu: {type: MostAllocated}, cpu: {weight: 2}}}"
    assert [expected] == used(world(constraints={"strategy": own}), arguments)


# -- scarce resources


def test_pods_without_gpus_keep_away_from_nodes_with_gpus() -> None:
    made = cluster(node("a", gpu=8), node("b"), gang("new", 2, cpu=40, minimum=1))
    off = "resourceStrategyFitWeight: 0"
    assert ["a", "b"] == used(made, f"{{{off}}}")
    assert ["a", "b"] == used(made, f"{{{off}, sra: {{enable: false, resources: nvidia.com/gpu}}}}")
    assert ["b", "a"] == used(made, f"{{{off}, sra: {{enable: true, resources: nvidia.com/gpu}}}}")
    assert ["a", "b"] == used(made, f"{{{off}, sra: {{enable: true, resources: nvidia.com/gpu, weight: 0}}}}")


def test_the_weights_of_scarce_resources() -> None:
    fpga: dict[str, Any] = {"example.com/fpga": 1}
    made = cluster(node("a", gpu=8), node("b", **fpga), gang("new"))
    sra = "resourceStrategyFitWeight: 0, sra: {enable: true, resources: 'nvidia.com/gpu, example.com/fpga'"
    assert ["a"] == used(made, f"{{{sra}, resourceWeight: {{example.com/fpga: 3}}}}}}")
    assert ["b"] == used(made, f"{{{sra}, resourceWeight: {{nvidia.com/gpu: 3}}}}}}")


def test_the_weight_of_scarce_resources_beside_other_scores() -> None:
    made = cluster(node("a", gpu=8), node("b"), gang("old", cpu=32, on=["b"]), gang("new"))
    assert ["a"] == used(made, "{sra: {enable: true, resources: nvidia.com/gpu, weight: 1}}")
    assert ["b"] == used(made, "{sra: {enable: true, resources: nvidia.com/gpu, weight: 10}}")


# -- room for idle devices

KEEP = (
    "{proportional: {enable: true, resources: nvidia.com/gpu, "
    "resourceProportion: {nvidia.com/gpu.cpu: 4, nvidia.com/gpu.memory: 8}}}"
)


def test_nodes_keep_cpu_and_memory_for_each_idle_gpu() -> None:
    """10 cores: two idle GPUs keep 8 of them."""
    made = cluster(node("n1", cpu=10, gpu=2), gang("new", 4, minimum=1))
    assert ["n1", "n1"] == used(made, KEEP)
    (waiting,) = scene(made, configured(text(KEEP)))[-1].waiting
    words = "0/1 nodes fit: 1 keep their free cpu and memory for idle nvidia.com/gpu"
    assert [("KeptForDevices", words)] == [(reason.code, reason.message) for reason in waiting.reasons]
    assert ["n1"] * 4 == used(made, KEEP.replace("true", "false"))


def test_memory_is_in_gigabytes_and_the_default_is_one_of_each() -> None:
    made = cluster(node("n1", cpu=64, memory=20 * 10**9, gpu=2), gang("new", 9, minimum=1, memory=10**9))
    assert 4 == len(used(made, KEEP)), "20 GB without 8 for each of two GPUs"
    one_each = "{proportional: {enable: true, resources: nvidia.com/gpu}}"
    assert 9 == len(used(made, one_each))
    small = cluster(node("n1", cpu=4, gpu=2), gang("new", 9, minimum=1))
    assert 2 == len(used(small, one_each))
    assert 2 == len(used(small, one_each.replace("gpu}", "gpu, resourceProportion: {nvidia.com/gpu.cpu: -3}}")))
    assert 3 == len(used(small, one_each.replace("gpu}", "gpu, resourceProportion: {nvidia.com/gpu.cpu: 0.5}}")))


def test_pods_that_use_the_device_and_gpus_in_use_keep_nothing() -> None:
    made = cluster(node("n1", cpu=10, gpu=2), gang("new", 2, gpu=1, cpu=5))
    assert ["n1", "n1"] == used(made, KEEP)
    made = cluster(node("n1", cpu=10, gpu=2), gang("old", gpu=2, on=["n1"]), gang("new", 9))
    assert ["n1"] * 9 == used(made, KEEP)


def test_a_pod_does_not_preempt_on_a_node_that_has_nothing_to_spare() -> None:
    """As in Volcano: the two idle GPUs need all that is free."""
    low = gang("low", cpu=2, on=["n1"])
    made = cluster(node("n1", cpu=10, gpu=2), low, gang("new", cpu=2, priority=5))
    assert [] == [evict for plan in scene(made, configured(text(KEEP))) for evict in plan.evict]


# -- arguments


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("{resources: {cpu: {type: MostUsed}}}", "resources: Invalid enum value 'MostUsed' - at `$[...].type`"),
        ("{resources: {'*': {}}}", "resources: `*`: expected a name, or a beginning of names like `nvidia.com/*`"),
        ("{resources: {'*/gpu': {}}}", "resources: `*/gpu`: expected a name, or a beginning of names like"),
        ("{sra: {enable: true, wait: 3}}", "sra: Object contains unknown field `wait`"),
        ("{proportional: {resourceProportion: {a.cpu: many}}}", "proportional: Expected `float`, got `str`"),
    ],
)
def test_invalid_arguments_are_reported_by_name(arguments: str, problem: str) -> None:
    with pytest.raises(ConfigError) as error:
        read_config(text(arguments), "file", catalog())
    assert f"file: tiers[1].plugins[0].arguments.{problem}" in str(error.value)


def test_numbers_and_booleans_may_be_quoted() -> None:
    quoted = '{sra: {enable: "true", resources: a, weight: "3"}, resources: {cpu: {weight: "2"}}}'
    given = configured(text(quoted)).tiers[1][0].arguments
    assert isinstance(given, fit.Arguments)
    assert (True, 3.0, 2.0) == (given.sra.enable, given.sra.weight, given.resources["cpu"].weight)


# -- compared with Volcano's rules, written plainly

NAMES = (CPU, MEMORY, GPU)
amounts = st.fixed_dictionaries({CPU: st.integers(0, 8), MEMORY: st.integers(0, 8), GPU: st.integers(0, 4)})
resources = st.dictionaries(
    st.sampled_from((*NAMES, "nvidia.com/*", "c*", "n*")),
    st.builds(fit.Resource, st.sampled_from(("LeastAllocated", "MostAllocated")), st.sampled_from((-1.0, 1.0, 3.0))),
    max_size=4,
)
machines = st.lists(st.tuples(amounts, amounts), min_size=1, max_size=4)
scarce = st.dictionaries(st.sampled_from((GPU, CPU, "none")), st.sampled_from((-1.0, 0.0, 1.0, 2.0)), max_size=2)
needs = st.fixed_dictionaries({"cpu": st.sampled_from((0.0, 0.5, 2.0)), "memory": st.sampled_from((0.0, 1.0, 2.0))})

GB = 10**9


@given(machines, amounts, resources, scarce, needs)
def test_safety_scores_and_limits_are_those_of_the_rules(
    found: list[tuple[dict[str, int], dict[str, int]]],
    wants: dict[str, int],
    strategies: dict[str, fit.Resource],
    rare: dict[str, float],
    per_gpu: dict[str, float],
) -> None:
    nodes, tasks = [], []
    for i, (has, took) in enumerate(found):
        nodes.append(node(f"n{i}", cpu=has[CPU], memory=has[MEMORY] * GB, gpu=has[GPU]))
        part = {name: min(took[name], has[name]) for name in NAMES}
        tasks.append(gang(f"t{i}", cpu=part[CPU], memory=part[MEMORY] * GB, gpu=part[GPU], on=[f"n{i}"]))
        took.update(part)
    made = cluster(nodes, tasks, gang("new", cpu=wants[CPU], memory=wants[MEMORY] * GB, gpu=wants[GPU]))
    arguments = fit.Arguments(
        7.0,
        strategies,
        fit.Sra(True, ", ".join(rare), 3.0, rare),
        fit.Proportional(True, GPU, {f"{GPU}.{name}": amount for name, amount in per_gpu.items()}),
    )
    option = PluginOption(Registration(fit.NAME, fit.ResourceStrategyFit), arguments)
    session = Session(Snapshot(made), Config((), ((option,),)), 0.0)
    session.open()
    shape = int(session.snapshot.tasks.shape[session.snapshot.tasks.number["ns/new-0"]])
    rows = np.arange(len(nodes))[::-1]
    for entry in session.hooks.scores:
        assert entry.call(shape, slice(None))[rows].tolist() == entry.call(shape, rows).tolist()
    scores = np.sum([entry.call(shape, slice(None)) for entry in session.hooks.scores], axis=0)
    expected = [score(h, t, wants, strategies) + rareness(h, wants, rare) for h, t in found]
    assert expected == pytest.approx(list(scores))
    fits = before = session.view(shape).fits
    for _, limit in session.capacity.limits(shape):
        fits = np.minimum(fits, limit.room)
    counted = [how_many(h, t, wants, per_gpu, n) for (h, t), n in zip(found, before.tolist(), strict=True)]
    assert counted == fits.tolist()


def score(
    has: dict[str, int], took: dict[str, int], wants: dict[str, int], strategies: dict[str, fit.Resource]
) -> float:
    total, weights = 0.0, 0.0
    given = strategies or {CPU: fit.Resource(), MEMORY: fit.Resource()}
    for name in [n for n in NAMES if wants[n]] + [PODS]:
        starts = sorted((key for key in given if key.endswith("*") and name.startswith(key[:-1])), key=len)
        key = name if name in given else starts[-1] if starts else None
        if key is None:
            continue
        weight = given[key].weight if given[key].weight > 0 else 1.0
        after = took[name] + wants[name]
        if after > has[name]:
            return 0.0
        part = after / has[name]
        total += weight * (part if given[key].type == "MostAllocated" else 1 - part)
        weights += weight
    return 100 * 7.0 * total / weights if weights else 0.0


def rareness(has: dict[str, int], wants: dict[str, int], rare: dict[str, float]) -> float:
    if any(wants[name] and not has[name] for name in NAMES):
        return 0.0
    weights = {name: 1.0 if weight < 0 else weight for name, weight in rare.items()}
    whole = sum(weights.values())
    here = sum(weight for name, weight in weights.items() if has.get(name, 0) > 0)
    return 100 * 3.0 * (1 - here / whole) if whole else 0.0


def how_many(
    has: dict[str, int], took: dict[str, int], wants: dict[str, int], per_gpu: dict[str, float], fits: int
) -> int:
    """Put one pod after the other on the node, as long as enough is left for the idle GPUs."""
    if wants[GPU]:
        return fits
    idle = has[GPU] - took[GPU]
    for count in range(1, fits + 1):
        for name in (CPU, MEMORY):
            left = has[name] - took[name] - count * wants[name]
            if idle and wants[name] and left < idle * per_gpu[name]:
                return count - 1
    return fits


def test_the_struct_of_a_pods_strategy_is_part_of_its_shape() -> None:
    one, other = (gang("g", constraints={"strategy": s}).tasks[0].shape for s in (None, FillStrategy(True)))
    assert one != other
    assert msgspec.structs.replace(other, strategy=None) == one


@pytest.mark.parametrize("number", [".inf", ".nan", "1.0e+306"])
def test_no_number_in_the_configuration_stops_a_decision(number: str) -> None:
    needs = f"{{nvidia.com/gpu.cpu: {number}}}"
    proportional = f"{{enable: true, resources: nvidia.com/gpu, resourceProportion: {needs}}}"
    weighs = f"{{cpu: {{type: MostAllocated, weight: {number}}}}}"
    chosen = configured(text(f"{{resources: {weighs}, proportional: {proportional}}}"))
    assert 1 == len(scene(cluster(node("n1", gpu=8), gang("a", 1, gpu=8)), chosen)[0].bind)
