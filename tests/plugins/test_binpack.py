"""binpack: fuller nodes first, by the weights of the requested resources."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from maar.actions import allocate
from maar.config.config import ActionOption, Config, NoArguments, PluginOption, Registration
from maar.model.snapshot import Cluster, Snapshot
from maar.model.tasks import Status
from maar.plugins import binpack
from maar.plugins import gang as gang_plugin
from maar.plugins.binpack import Arguments
from maar.session.session import Session
from maar.testing.builders import GPU, cluster, gang, node
from maar.testing.scenario import scene


def arguments(**given: object) -> Arguments:
    """Arguments as in a configuration file: with the prefix `binpack.`, and dots for underscores."""
    raw: dict[str, object] = {f"binpack.{name.replace('_', '.', 1)}": value for name, value in given.items()}
    return msgspec.convert(Arguments.normalise(raw), Arguments, strict=False)


def config(given: Arguments) -> Config:
    return Config(
        (ActionOption(Registration(allocate.NAME, allocate.Allocate), NoArguments()),),
        (
            (
                PluginOption(Registration(gang_plugin.NAME, gang_plugin.Gang), gang_plugin.Arguments()),
                PluginOption(Registration(binpack.NAME, binpack.Binpack), given),
            ),
        ),
    )


def opened(scenery: Cluster, given: Arguments) -> Session:
    session = Session(Snapshot(scenery), config(given), 0.0)
    session.open()
    return session


def scores(scenery: Cluster, given: Arguments) -> list[float]:
    """The scores of all nodes for the shape of the only pending job."""
    session = opened(scenery, given)
    shape = int(session.snapshot.tasks.shape[session.snapshot.tasks.number["ns/new-0"]])
    whole = session.hooks.scores[0].call(shape, slice(None))
    rows = np.arange(len(session.snapshot.nodes))[::-1]
    assert whole[rows].tolist() == session.hooks.scores[0].call(shape, rows).tolist()
    return [round(x, 6) for x in whole.tolist()]


def scenery(**new: Any) -> Cluster:
    """An empty node, a node half full of CPU, and a node half full of GPUs."""
    return cluster(
        [node(name, cpu=10, memory="100Gi", gpu=4) for name in ("n1", "n2", "n3")],
        gang("cpus", cpu=5, memory="10Gi", on=["n2"]),
        gang("gpus", cpu=0, memory="10Gi", gpu=2, on=["n3"]),
        gang("new", **{"cpu": 1, "memory": "10Gi", **new}),
    )


def test_the_mean_of_how_full_cpu_and_memory_would_be() -> None:
    assert [10.0, (60 + 20) / 2, (10 + 20) / 2] == scores(scenery(), arguments())


def test_gpus_count_only_where_they_are_weighed_and_asked_for() -> None:
    assert [10.0, 40.0, 15.0] == scores(scenery(gpu=1), arguments())
    weighed = arguments(resources="nvidia.com/gpu, example.com/foo", **{"resources_nvidia.com/gpu": "2"})
    expected = [(10 + 10 + 2 * 25) / 4, (60 + 20 + 2 * 25) / 4, (10 + 20 + 2 * 75) / 4]
    assert expected == scores(scenery(gpu=1), weighed)
    assert [10.0, 40.0, 15.0] == scores(scenery(), weighed)


def test_weights_of_resources_and_of_the_plugin() -> None:
    assert [30.0, 180.0, 30.0] == scores(scenery(), arguments(weight=3, memory=0))
    assert [10.0, (60 + 4 * 20) / 5, (10 + 4 * 20) / 5] == scores(scenery(), arguments(memory="4"))


def test_a_negative_weight_of_a_resource_counts_as_one() -> None:
    assert scores(scenery(), arguments()) == scores(scenery(), arguments(cpu=-3, memory=-1))


def test_a_node_on_which_a_resource_would_exceed_scores_nothing() -> None:
    assert [(60 + 10) / 2, 0.0, (60 + 20) / 2] == scores(scenery(cpu=6), arguments())
    assert [(50 + 10) / 2, (100 + 20) / 2, (50 + 20) / 2] == scores(scenery(cpu=5), arguments())


def test_leaving_pods_no_longer_fill_a_node_and_promises_do() -> None:
    leaving = {"status": Status.RELEASING, "node": "n1"}
    promised = {"status": Status.NOMINATED, "node": "n2"}
    made = cluster(
        [node(name, cpu=10) for name in ("n1", "n2", "n3")],
        gang("leaving", cpu=5, memory=0, task=leaving),
        gang("promised", cpu=5, memory=0, task=promised),
        gang("new", cpu=1, memory=0),
    )
    assert [10.0, 60.0, 10.0] == scores(made, arguments())


def test_without_weight_there_is_no_score() -> None:
    assert [] == opened(scenery(), arguments(weight=0)).hooks.scores


def test_gangs_fill_nodes_that_are_in_use() -> None:
    nodes = [node(name, gpu=8) for name in ("n1", "n2", "n3")]
    made = cluster(nodes, gang("old", gpu=4, on=["n2"]), gang("new", 6, gpu=2))
    plan = scene(made, config(arguments(resources=GPU)))[0]
    placed = [bind.node for bind in plan.bind]
    assert ["n2", "n2", "n1", "n1", "n1", "n1"] == placed


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"binpack.resources.gpu": "many"}, "binpack.resources.gpu: expected a number, got `many`"),
        ({"binpack.resources": 5}, "binpack.resources: expected names of resources separated by commas, got `5`"),
    ],
)
def test_invalid_arguments_are_reported_by_name(raw: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError) as error:
        Arguments.normalise(raw)
    assert message == str(error.value)


def test_a_list_of_resources_may_be_a_list() -> None:
    assert {"a": 1.0, "b": 3.0} == arguments(resources=["a", "b"], resources_b=3).resources
