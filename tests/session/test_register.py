"""What a plugin registers, unless a flag disables it; and plugins written for one node at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from maar.config.flags import FLAGS
from maar.model.codes import NODES, Code
from maar.model.reasons import Refusal
from maar.session.hooks import Hooks, Limit, Vote
from maar.session.register import Register, node_by_node, score_by_node
from maar.session.session import Session
from maar.testing.builders import cluster, gang, node

POINTS: dict[str, tuple[str, tuple[Callable[..., Any], ...]]] = {
    "job_order": ("job_order", (lambda job: 0,)),
    "queue_order": ("queue_order", (lambda queue: 0,)),
    "namespace_order": ("namespace_order", (lambda name: 0,)),
    "task_order": ("task_order", (lambda tasks: tasks,)),
    "job_ready": ("job_ready", (lambda job: True,)),
    "job_nominated": ("job_nominated", (lambda job: Vote.PERMIT,)),
    "job_starving": ("job_starving", (lambda job: True,)),
    "job_enqueueable": ("job_enqueueable", (lambda job: Vote.PERMIT,)),
    "beyond_evictions": ("beyond_evictions", (lambda job: True,)),
    "allocatable": ("allocatable", (lambda *_: 1, lambda *_: None)),
    "overused": ("overused", (lambda queue: True, lambda queue: None)),
    "preemptive": ("preemptive", (lambda *_: True,)),
    "preemptable": ("preemptable", (lambda *_: None,)),
    "reclaimable": ("reclaimable", (lambda *_: None,)),
    "predicate": ("predicates", (lambda shape: (),)),
    "score": ("scores", (lambda *_: None,)),
    "domains": ("domains", (lambda job: None,)),
    "target_job": ("target_job", (lambda jobs: None,)),
    "lock_nodes": ("lock_nodes", (lambda job: None,)),
    "victim_tasks": ("victim_tasks", (lambda: (),)),
}
"""Method of the register: the list of hooks, and something to register."""

SHARED = {
    "limit": ("counters", "predicate"),
    "counter": ("counters", "predicate"),
    "cluster_score": ("cluster_scores", "nodeOrder"),
    "job_tie": ("job_ties", "jobOrder"),
    "queue_order_by_job": ("queue_order", "queueOrder"),
}
"""Methods that are controlled by the flag of another method."""


def test_every_flag_is_tried_below() -> None:
    assert set(FLAGS) == set(POINTS)


@pytest.mark.parametrize("point", POINTS)
def test_flags_switch_hooks(point: str) -> None:
    where, functions = POINTS[point]

    def count(flags: dict[str, bool]) -> int:
        hooks = Hooks()
        getattr(Register(hooks, "plugin", 1, flags), point)(*functions)
        return len(getattr(hooks, where))

    assert 1 == count({})
    assert 1 == count({FLAGS[point]: True})
    assert 0 == count({FLAGS[point]: False})
    assert 1 == count({flag: False for flag in FLAGS.values() if flag != FLAGS[point]})


@pytest.mark.parametrize("point", SHARED)
def test_some_hooks_share_a_flag(point: str) -> None:
    where, flag = SHARED[point]
    for flags, expected in (({}, 1), ({flag: False}, 0)):
        hooks = Hooks()
        getattr(Register(hooks, "plugin", 1, flags), point)(lambda *_: None)
        assert expected == len(getattr(hooks, where))


def test_an_entry_knows_who_registered_it() -> None:
    hooks = Hooks()
    Register(hooks, "fair", 2, {}).job_order(lambda job: 0)
    assert [("fair", 2)] == [(e.plugin, e.tier) for e in hooks.job_order]


# -- one node at a time


def test_a_predicate_for_one_node_at_a_time(opened: Callable[..., Session]) -> None:
    asked: list[tuple[int, int]] = []

    def fits(shape: int, row: int) -> Refusal | None:
        asked.append((shape, row))
        words = ("", "too far", "too old", "too far")[row]
        return Refusal("mine", Code("Unfit", NODES), words) if words else None

    nodes = [node(f"n{i}") for i in range(4)]
    session = opened(cluster(nodes, gang("a")), [lambda session, on: on.predicate(node_by_node(fits, 4))])
    view = session.view(0)
    assert [True, False, False, False] == view.open.tolist()
    assert [("mine", "Unfit", "too far", [1, 3]), ("mine", "Unfit", "too old", [2])] == [
        (r.plugin, r.code.name, r.words, np.flatnonzero(r.nodes).tolist()) for r in view.causes
    ]
    session.view(0)
    assert [(0, row) for row in range(4)] == asked


def test_a_score_for_one_node_at_a_time(opened: Callable[..., Session]) -> None:
    scores = score_by_node(lambda shape, row: 10.0 * shape + row, 4)
    assert [20.0, 21.0, 22.0, 23.0] == scores(2, slice(None)).tolist()
    assert [13.0, 11.0] == scores(1, np.array([3, 1])).tolist()
    nodes = [node(f"n{i}") for i in range(4)]
    session = opened(
        cluster(nodes, gang("a")),
        [lambda session, on: on.score(scores), lambda session, on: on.score(lambda shape, rows: np.ones(4)[rows])],
    )
    assert [1.0, 2.0, 3.0, 4.0] == session.view(0).score.tolist()


def test_a_limit_is_not_asked_about_shapes_to_which_it_never_applies(opened: Callable[..., Session]) -> None:
    asked: list[str] = []

    def limit(shape: int, later: bool) -> Limit:
        asked.append(f"limit {shape}")
        return Limit(np.array([shape]), coupled=False)

    def applies(shape: int) -> bool:
        asked.append(f"applies {shape}")
        return shape == 1

    scene = cluster(node("n1", gpu=8), gang("a", gpu=1), gang("b", gpu=2))
    session = opened(scene, [lambda session, on: on.limit(limit, applies)])
    for _ in range(2):
        assert [8, 1] == [session.capacity.room(session.job(i), i).sum() for i in range(2)]
        session.state.touch(np.array([0]))
        session.state.soften(not session.state.soft)
    assert ["applies 0", "applies 1", "limit 1", "limit 1"] == asked
