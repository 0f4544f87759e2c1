"""What a shadow makes of what others do: pods that start, end and go, between two looks too."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from maar.config.file import default_config
from maar.controller.cache import Cache
from maar.controller.loop import Cycle
from maar.controller.shadow import Shadow
from maar.decide import decide
from maar.kube.kinds.cluster import NODES, PODS
from maar.kube.picture.picture import Picture
from maar.kube.wire.cluster import Node
from maar.kube.wire.pods import Pod
from maar.registry import catalog

CONFIG = default_config(catalog())


class Scene:
    """A cluster of one node, a shadow, and whoever schedules it."""

    def __init__(self) -> None:
        self.picture = Picture(frozenset({"maar"}))
        self.cache = Cache(self.picture)
        self.shadow = Shadow(self.cache)
        self.now = 100.0
        node = {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "8"}}}
        self.picture.put(NODES, msgspec.convert(node, Node))

    def pod(self, name: str, node: str = "", phase: str = "Pending") -> None:
        container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
        said: dict[str, Any] = {
            "metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}"},
            "spec": {"containers": [container], "schedulerName": "maar", "nodeName": node},
            "status": {"phase": phase},
        }
        self.picture.put(PODS, msgspec.convert(said, Pod))

    def cycle(self) -> None:
        self.now += 1.0
        plan = decide(self.cache.snapshot(self.now), CONFIG, self.now)
        self.shadow.on_cycle(Cycle(self.now, 0.0, plan))


@pytest.mark.parametrize("phase", ["Running", "Succeeded", "Failed"])
def test_a_pod_that_the_other_starts_is_compared_though_it_has_ended_by_the_next_look(phase: str) -> None:
    scene = Scene()
    scene.pod("a")
    scene.cycle()
    assert "1 only by Maar" in scene.shadow.line()
    scene.pod("a", "n1", phase)
    scene.cycle()
    assert "1 pods started by both (1 on the same node, 1.0 s earlier by Maar on average)" in scene.shadow.line()
    assert "0 only by Maar" in scene.shadow.line()


def test_a_pod_that_is_deleted_before_it_starts_is_nobodys() -> None:
    scene = Scene()
    scene.pod("a")
    scene.cycle()
    scene.picture.drop(PODS, "ns/a")
    scene.cycle()
    assert "0 only by the other, 0 only by Maar" in scene.shadow.line()


def test_what_ran_before_is_no_news_and_what_the_other_starts_first_is() -> None:
    scene = Scene()
    scene.cycle()
    scene.pod("quick", "n1", "Running")
    scene.cycle()
    assert "1 only by the other" in scene.shadow.line()
    scene = Scene()
    scene.pod("old", "n1", "Running")
    scene.cycle()
    assert "0 only by the other" in scene.shadow.line()
