"""For which pending pods of a job new nodes are asked: its missing minimum, and the surplus only on request."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from maar.config.config import Autoscaling, Config
from maar.decide import decide
from maar.model.snapshot import Snapshot
from maar.model.verdicts import verdict
from maar.testing.builders import Part, cluster, gang, node
from maar.testing.scenario import configured

CONFIG = configured("actions: allocate\ntiers: [{plugins: [{name: gang}, {name: proportion}, {name: predicates}]}]")


def surplus(*parts: Part, config: Config = CONFIG) -> tuple[str, ...]:
    (wait,) = decide(Snapshot(cluster(*parts)), config, 1.0).waiting
    assert "Unschedulable" == verdict(wait.reasons).condition
    return tuple(task.partition("/")[2] for task in wait.surplus)


def test_a_gang_that_cannot_start_asks_for_its_minimum() -> None:
    assert ("train-2", "train-3") == surplus(node("n1", gpu=1), gang("train", 4, minimum=2, gpu=1))
    assert () == surplus(node("n1", gpu=1), gang("train", 4, gpu=1))
    assert () == surplus(gang("train", 4, gpu=1)), "also without any node: a node group may scale from zero"


def test_a_gang_that_runs_with_its_minimum_asks_for_nothing() -> None:
    parts = (node("n1", gpu=2), gang("train", 4, minimum=2, gpu=1))
    assert ("train-2", "train-3") == surplus(*parts)


def test_on_request_the_surplus_asks_too() -> None:
    config = replace(CONFIG, autoscaling=Autoscaling(surplus=True))
    assert () == surplus(node("n1", gpu=2), gang("train", 4, minimum=2, gpu=1), config=config)


def test_the_configuration_says_whether_it_asks() -> None:
    text = "actions: allocate\ntiers: [{plugins: [{name: gang}]}]\n"
    assert not configured(text).autoscaling.surplus
    assert configured(text + "autoscaling: {surplus: true}").autoscaling.surplus
    with pytest.raises(Exception, match=r"autoscaling\.surplus"):
        configured(text + "autoscaling: {surplus: many}")
    with pytest.raises(Exception, match="surplu"):
        configured(text + "autoscaling: {surplu: true}")
