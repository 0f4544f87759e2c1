"""Shadow mode: it compares pods that another scheduler starts, also if they end or are deleted between two cycles."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from maar.config.file import default_config
from maar.controller.shadow import Shadow
from maar.controller.snapshots.cache import Cache
from maar.decide import decide
from maar.kube.kinds.cluster import NODES, PODS
from maar.kube.picture.picture import Picture
from maar.kube.wire.cluster import Node
from maar.kube.wire.pods import Pod
from maar.registry import catalog

CONFIG = default_config(catalog())


class Scene:
    """A cluster of one node, a shadow, and another scheduler."""

    def __init__(self) -> None:
        self.picture = Picture(frozenset({"maar"}))
        self.cache = Cache(self.picture)
        self.shadow = Shadow()
        self.now = 100.0
        node = {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "8"}}}
        self.picture.put(NODES, msgspec.convert(node, Node))

    def pod(self, name: str, node: str = "", phase: str = "Pending") -> None:
        container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
        manifest: dict[str, Any] = {
            "metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}"},
            "spec": {"containers": [container], "schedulerName": "maar", "nodeName": node},
            "status": {"phase": phase},
        }
        self.picture.put(PODS, msgspec.convert(manifest, Pod))

    def cycle(self) -> None:
        self.now += 1.0
        plan = decide(self.cache.snapshot(self.now), CONFIG, self.now)
        self.shadow.on_cycle(self.cache.publish(1, plan, self.now))


@pytest.mark.parametrize("phase", ["Running", "Succeeded", "Failed"])
def test_a_pod_that_the_other_starts_is_compared_even_if_it_has_ended(phase: str) -> None:
    scene = Scene()
    scene.pod("a")
    scene.cycle()
    assert "1 only by Maar" in scene.shadow.line()
    scene.pod("a", "n1", phase)
    scene.cycle()
    assert "1 pod started by both (1 on the same node, 1.0 s earlier by Maar on average)" in scene.shadow.line()
    assert "0 only by Maar" in scene.shadow.line()


def test_a_pod_that_is_deleted_before_it_starts_does_not_count() -> None:
    scene = Scene()
    scene.pod("a")
    scene.cycle()
    scene.picture.drop(PODS, "ns/a")
    scene.cycle()
    assert "0 only by the other, 0 only by Maar" in scene.shadow.line()


def test_earlier_pods_do_not_count_and_pods_that_the_other_starts_first_do() -> None:
    scene = Scene()
    scene.cycle()
    scene.pod("quick", "n1", "Running")
    scene.cycle()
    assert "1 only by the other" in scene.shadow.line()
    scene = Scene()
    scene.pod("old", "n1", "Running")
    scene.cycle()
    assert "0 only by the other" in scene.shadow.line()
