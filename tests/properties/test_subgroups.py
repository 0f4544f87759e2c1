"""Safety and liveness of subgroups, against a plain-Python reference."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.subgroups import divided, switches, wrongs

from maar.config.config import Config
from maar.decide import decide
from maar.model.jobs import Closeness, SubgroupPolicy
from maar.model.nodes import Node
from maar.model.outcome import carry_out
from maar.model.snapshot import Cluster, Snapshot
from maar.model.tasks import Status, Subgroup
from maar.testing.builders import Gang, cluster, gang, node, shape
from maar.testing.scenario import configured, scene

CONFIG = configured("""
actions: "enqueue, allocate, preempt, backfill"
tiers:
- plugins:
  - {name: priority}
  - name: gang
    arguments: {gang.eviction: whole}
  - {name: predicates}
  - {name: topology}
""")
RECLAIM = configured("""
actions: "allocate, reclaim"
tiers:
- plugins:
  - {name: priority}
  - name: gang
    arguments: {gang.eviction: whole}
  - {name: topology}
- plugins:
  - {name: predicates}
  - {name: proportion}
""")


@st.composite
def gangs(draw: st.DrawFn, name: str) -> Gang:
    priority, queue = draw(st.integers(0, 3)), draw(st.sampled_from(["default", "other"]))
    if draw(st.integers(0, 3)) == 0:
        count = draw(st.integers(1, 4))
        return gang(name, count, minimum=draw(st.integers(0, count)), gpu=draw(st.integers(1, 2)), priority=priority)
    size, sizes = draw(st.integers(1, 3)), draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    complete, total = sum(n >= size for n in sizes), sum(sizes)
    made = divided(
        name,
        sizes,
        size=size,
        minimum=draw(st.integers(0, total)),
        least=draw(st.integers(0, complete)),
        tier=draw(st.sampled_from([None, 1, 1, 2])),
        hard=draw(st.integers(0, 3)) > 0,
        loose=draw(st.integers(0, 2)),
        gpu=draw(st.integers(0, 2)),
        cpu=draw(st.sampled_from([0, 1])),
        memory=0,
        priority=priority,
        queue=queue,
        closeness=draw(
            st.sampled_from([None, None, Closeness(tier=1), Closeness(tier=2), Closeness(tier=1, hard=False)])
        ),
        task={"controlled": draw(st.booleans())},
    )
    if draw(st.booleans()):
        return made
    # A second policy, two shapes and two roles: the last subgroup is of its own kind, odd pods are larger.
    other = SubgroupPolicy("others", draw(st.integers(1, sizes[-1])), draw(st.integers(0, 1)), Closeness(tier=1))
    last, large = Subgroup(0, (str(len(sizes) - 1),)), shape(gpu=2, cpu=0, memory=0)
    tasks = (
        replace(
            task,
            subgroup=Subgroup(1, ("x",)) if task.subgroup == last else task.subgroup,
            shape=large if i % 2 else task.shape,
            role="odd" if i % 2 else "even",
        )
        for i, task in enumerate(made.tasks)
    )
    policies = (replace(made.job.subgroups[0], least=min(made.job.subgroups[0].least, 1)), other)
    return replace(made, job=replace(made.job, subgroups=policies, role_min={"even": 1}), tasks=tuple(tasks))


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Cluster, list[list[str]], list[Gang]]:
    leaves: list[list[str]] = []
    nodes: list[Node] = []
    for s in range(draw(st.integers(1, 3))):
        names = [f"n{s}{i}" for i in range(draw(st.integers(1, 3)))]
        leaves.append(names)
        nodes.extend(node(name, gpu=draw(st.integers(1, 4)), cpu=8) for name in names)
    first = [draw(gangs(f"a{i}")) for i in range(draw(st.integers(1, 3)))]
    later = [draw(gangs(f"b{i}")) for i in range(draw(st.integers(0, 2)))]
    return cluster(nodes, switches(*leaves), first), leaves, later


@pytest.mark.parametrize("config", [CONFIG, RECLAIM], ids=["preempt", "reclaim"])
@settings(max_examples=40, deadline=None)
@given(worlds(), st.data())
def test_safety_no_subgroup_is_started_in_part_or_crosses_its_domain(
    config: Config, world: tuple[Cluster, list[list[str]], list[Gang]], data: st.DataObject
) -> None:
    now, leaves, later = world
    for step in range(6):
        if step == 3:
            now = replace(
                now, jobs=(*now.jobs, *(g.job for g in later)), tasks=(*now.tasks, *(t for g in later for t in g.tasks))
            )
        if step == 2:
            running = [t.key for t in now.tasks if t.status is Status.BOUND]
            lost = set(data.draw(st.lists(st.sampled_from(running), max_size=2))) if running else set()
            tasks = (replace(t, status=Status.PENDING, node="") if t.key in lost else t for t in now.tasks)
            now = replace(now, tasks=tuple(tasks))
        plan = decide(Snapshot(now), config, float(step))
        after = carry_out(now, plan, float(step))
        assert not wrongs(now, after, leaves)
        now = after


@pytest.mark.parametrize("config", [CONFIG, RECLAIM], ids=["preempt", "reclaim"])
@settings(max_examples=15, deadline=None)
@given(worlds())
def test_liveness_every_scene_settles(config: Config, world: tuple[Cluster, list[list[str]], list[Gang]]) -> None:
    now, _, later = world
    jobs, tasks = [g.job for g in later], [t for g in later for t in g.tasks]
    scene(replace(now, jobs=(*now.jobs, *jobs), tasks=(*now.tasks, *tasks)), config)
