"""The witness of elastic stories notices every violation."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.support.elastic_witness import GPU, Anything, Step, judge

from maar.kube.wire.base import Metadata

NODE = {"allocatable": {GPU: "4"}}
EVICTED = {"conditions": [{"type": "DisruptionTarget", "reason": "EvictionByEvictionAPI", "status": "True"}]}


def asks(gpus: int = 1) -> list[dict[str, Any]]:
    return [{"name": "c", "resources": {"limits": {GPU: str(gpus)}}}]


def node(name: str = "n0", gone: bool = False) -> tuple[str, Anything, bool]:
    return "Node", Anything(Metadata(name), {}, NODE), gone


def job(name: str, size: int, suspend: bool = False) -> tuple[str, Anything, bool]:
    """A job of one to four workers."""
    worker = {"replicas": size, "template": {"spec": {"containers": asks()}}}
    spec = {
        "runPolicy": {"suspend": suspend},
        "elasticPolicy": {"minReplicas": 1, "maxReplicas": 4},
        "pytorchReplicaSpecs": {"Worker": worker},
    }
    return "PyTorchJob", Anything(Metadata(name), spec), False


def pod(
    name: str, on: str = "n0", gpus: int = 1, leaving: bool = False, status: Any = None, uid: str = ""
) -> tuple[str, Anything, bool]:
    meta = {"name": name, "uid": uid or name, **({"deletionTimestamp": "2026-11-01T10:00:00Z"} if leaving else {})}
    return (
        "Pod",
        Anything(msgspec.convert(meta, Metadata), {"nodeName": on, "containers": asks(gpus)}, status or {}),
        False,
    )


def numbered(*steps: tuple[str, Anything, bool]) -> list[Step]:
    return [Step(version, *step) for version, step in enumerate(steps)]


def test_a_story_in_order_is_fine() -> None:
    shrinks_first = (job("a", 2), job("b", 1, suspend=True), job("b", 2))
    going = (
        pod("a-worker-3", leaving=True),
        job("a", 1),
        pod("x"),
        pod("a-worker-0", leaving=True, status={"phase": "Failed"}),
    )
    judge(numbered(node(), job("a", 4), *shrinks_first, *going))


def test_worker_0_may_go_with_its_node() -> None:
    came = (node("n1"), job("a", 2), pod("a-worker-0"))
    judge(numbered(node(), *came, node(gone=True), pod("a-worker-0", leaving=True)))


def test_an_operator_may_delete_by_name_the_successor_of_a_failed_worker_0() -> None:
    failed = (job("a", 2), pod("a-worker-0"), pod("a-worker-0", status={"phase": "Failed"}))
    second = (pod("a-worker-0", uid="second"), pod("a-worker-0", uid="second", leaving=True))
    third = (pod("a-worker-0", uid="third"), pod("a-worker-0", uid="third", leaving=True))
    judge(numbered(node(), *failed, *second))
    with pytest.raises(AssertionError, match="worker 0 of a was deleted"):
        judge(numbered(node(), *failed, *second, *third))


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        ([job("a", 5)], "a has 5 of 1 to 4"),
        ([job("a", 3), job("b", 2)], "b grew from 0 to 2"),
        ([job("a", 3), pod("x", gpus=2)], "x was bound"),
        ([pod("x", gpus=2), job("a", 3)], "a grew from 0 to 3"),
        ([pod("x", gpus=3), pod("y", gpus=2)], "n0 holds 5 GPUs after y was bound"),
        ([pod("x", on="n1")], "n1 holds 1 GPUs after x was bound"),
        ([job("a", 2), pod("a-worker-0"), pod("a-worker-0", leaving=True)], "worker 0 of a was deleted"),
        ([job("a", 2), pod("a-worker-1", status=EVICTED)], r"evicted: \['a-worker-1'\]"),
        ([job("a", 4), node(gone=True), job("a", 3), job("b", 1)], "b grew"),
    ],
)
def test_every_violation_is_noticed(steps: list[tuple[str, Anything, bool]], why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        judge(numbered(node(), *steps))
