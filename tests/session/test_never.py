"""Jobs that can never start as things are: proved, with what would have to change; and nothing is said too early."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from maar.config.file import default_config, default_text, read_config
from maar.decide import decide
from maar.model.jobs import Closeness, Phase
from maar.model.plan import Plan
from maar.model.queues import Queue
from maar.model.reasons import Never, in_one_line
from maar.model.selectors import Requirement, Taint
from maar.model.snapshot import Snapshot
from maar.model.verdicts import verdict
from maar.registry import catalog
from maar.testing.builders import Part, cluster, elastic, gang, node

NODES = [node(f"n{i}", gpu=8, labels={"rack": str(i // 2), "kind": "a"}) for i in range(4)]
RACK = Closeness(key="rack")
DEFAULT = Queue("default")


def plan_of(*parts: Part | Sequence[Part], config: str | None = None) -> Plan:
    loaded = default_config(catalog()) if config is None else read_config(config, "test", catalog()).config
    flat = [one for part in parts for one in (part if isinstance(part, Sequence) else (part,))]
    return decide(Snapshot(cluster(*flat)), loaded, 100.0)


def proofs(*parts: Part | Sequence[Part], config: str | None = None) -> list[Never]:
    """The proofs about the job `waits`."""
    waits = [w for w in plan_of(*parts, config=config).waiting if w.job == "ns/waits"]
    return [reason.never for wait in waits for reason in wait.reasons if reason.never is not None]


def selects(value: str) -> dict[str, Any]:
    return {"node_selector": (Requirement("kind", "In", (value,)),)}


CASES: dict[str, tuple[list[Part], str, str]] = {
    "a pod larger than any node": (
        [gang("waits", gpu=16)],
        "LargerThanAnyNode",
        "never on today's nodes: 1 pod needs 16 nvidia.com/gpu, the largest has 8: "
        "add larger nodes, or ask for less per pod",
    ),
    "a pod that needs two resources that no node has both of": (
        [node("cpus", cpu=128), gang("waits", gpu=1, cpu=100)],
        "LargerThanAnyNode",
        "never on today's nodes: 1 pod needs 1 nvidia.com/gpu, 100 cpu, 1Gi memory, and no node has all of it: "
        "add larger nodes, or ask for less per pod",
    ),
    "larger than the nodes that it may use": (
        [node("small", gpu=1, labels={"kind": "b"}), gang("waits", gpu=2, constraints=selects("b"))],
        "LargerThanAnyNode",
        "never on today's nodes: 1 pod needs 2 nvidia.com/gpu, the largest that it may use has 1: "
        "add larger nodes, or ask for less per pod",
    ),
    "a node that does not exist": (
        [gang("waits", constraints=selects("x"))],
        "NoMatchingNode",
        "never on today's nodes: they do not match the node selector: "
        "add or label nodes, or change what it selects",
    ),
    "a gang larger than the cluster": (
        [gang("waits", 5, gpu=8)],
        "LargerThanCluster",
        "never on today's nodes: needs 5 pods together, all nodes hold 4 if nothing else runs: "
        "add nodes, or lower its minimum",
    ),
    "a gang larger than any rack": (
        [gang("waits", 3, gpu=8, closeness=RACK)],
        "LargerThanAnyDomain",
        "never on today's nodes: needs 3 pods together within one `rack`, the largest holds 2 if nothing else runs: "
        "allow a wider domain, or lower its minimum",
    ),
    "a gang above the limit of its queue": (
        [Queue("small", capability={"nvidia.com/gpu": 8}), gang("waits", 2, gpu=8, queue="small")],
        "LargerThanQueueLimit",
        "never in queue `small`: needs 16 nvidia.com/gpu at once, its capability is 8: "
        "raise the capability, or ask for less",
    ),
    "a group without pods above the limit of its queue": (
        [
            Queue("small", capability={"nvidia.com/gpu": 8}),
            gang("waits", 0, minimum=2, queue="small", phase=Phase.PENDING, min_resources={"nvidia.com/gpu": 9},
                 declared=True),
        ],
        "LargerThanQueueLimit",
        "never in queue `small`: needs 9 nvidia.com/gpu at once, its capability is 8: "
        "raise the capability, or ask for less",
    ),
    "a group without pods larger than the cluster": (
        [gang("waits", 0, minimum=2, phase=Phase.PENDING, min_resources={"nvidia.com/gpu": 99}, declared=True)],
        "LargerThanCluster",
        "never on today's nodes: needs 99 nvidia.com/gpu, all nodes have 32: add nodes, or ask for less",
    ),
    "an elastic job whose minimum its pool cannot hold": (
        [elastic("waits", 5, 6, gpu=8)],
        "LargerThanPool",
        "never in pool `default` as it is: needs at least 5 workers, its nodes hold 4 if nothing else runs: "
        "add nodes, or lower its minimum",
    ),
    "an elastic job with workers larger than any node": (
        [elastic("waits", 1, 2, gpu=16)],
        "LargerThanAnyNode",
        "never in pool `default` as it is: 1 pod needs 16 nvidia.com/gpu, the largest has 8: "
        "add larger nodes, or ask for less per pod",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_is_proved(case: str) -> None:
    parts, code, message = CASES[case]
    assert [Never(code, message)] == proofs(NODES, DEFAULT, parts)


@pytest.mark.parametrize("case", CASES)
def test_the_proof_does_not_depend_on_other_jobs(case: str) -> None:
    parts, code, message = CASES[case]
    busy = [gang(f"busy-{i}", gpu=5, on=[f"n{i}"]) for i in range(4)]
    assert [Never(code, message)] == proofs(NODES, DEFAULT, parts, busy)


CAPACITY = default_text().replace("name: proportion ", "name: capacity ")


def test_limits_of_the_capacity_plugin_too() -> None:
    parts, code, message = CASES["a gang above the limit of its queue"]
    assert [Never(code, message)] == proofs(NODES, DEFAULT, parts, config=CAPACITY)


NOT_YET: dict[str, list[Part]] = {
    "a full cluster": [gang("waits", gpu=8), *(gang(f"busy-{i}", gpu=1, on=[f"n{i}"]) for i in range(4))],
    "a full rack": [
        gang("waits", 2, gpu=8, closeness=RACK),
        *(gang(f"busy-{i}", gpu=1, on=[f"n{i}"]) for i in (0, 2)),
    ],
    "a queue at its limit": [
        Queue("small", capability={"nvidia.com/gpu": 8}),
        gang("waits", gpu=8, queue="small"),
        gang("busy", gpu=1, queue="small", on=["n0"]),
    ],
    "only a cordoned node is large enough": [node("large", gpu=16, unschedulable=True), gang("waits", gpu=16)],
    "only a tainted node is large enough": [
        node("large", gpu=16, taints=[Taint("x", "", "NoSchedule")]),
        gang("waits", gpu=16),
    ],
    "the larger rack has a cordoned node": [
        node("n9", gpu=8, labels={"rack": "0"}, unschedulable=True),
        gang("waits", 3, gpu=8, closeness=RACK),
    ],
    "a part above the minimum": [gang("waits", 9, minimum=4, gpu=8)],
    "an elastic job that others keep from starting": [
        elastic("waits", 4, 4, gpu=8),
        *(gang(f"busy-{i}", gpu=1, on=[f"n{i}"]) for i in range(4)),
    ],
}


@pytest.mark.parametrize("case", NOT_YET)
def test_what_may_still_start_is_not_said_to_be_impossible(case: str) -> None:
    assert [] == proofs(NODES, DEFAULT, NOT_YET[case])
    if case != "a part above the minimum":
        assert any(w.job == "ns/waits" for w in plan_of(NODES, DEFAULT, NOT_YET[case]).waiting)


def test_people_and_objects_read_the_proof_and_data_has_both() -> None:
    (wait,) = plan_of(NODES, DEFAULT, gang("waits", gpu=16)).waiting
    (reason,) = (r for r in wait.reasons if r.never is not None)
    assert reason.never is not None
    assert ("NotEnoughResources", "0/4 nodes fit: 4 short of nvidia.com/gpu (needs 16, best has 8 free)") == (
        reason.code,
        reason.message,
    )
    assert reason.never.message in in_one_line(wait.reasons)
    assert reason.message not in in_one_line(wait.reasons)
    found = verdict((reason,))
    assert ("Unschedulable", "LargerThanAnyNode", reason.never.message) == (found.condition, found.code, found.text)


@given(
    st.lists(st.integers(0, 8), min_size=1, max_size=5),
    st.integers(1, 6),
    st.integers(1, 10),
    st.booleans(),
    st.integers(0, 40),
)
def test_safety_a_job_that_can_never_start_does_not_start_alone(
    gpus: list[int], count: int, each: int, close: bool, limit: int
) -> None:
    """And the other way round: a job that does not start alone is proved not to, here where sizes are all there is."""
    nodes: list[Part] = [node(f"n{i}", gpu=n, labels={"rack": str(i % 2)}) for i, n in enumerate(gpus)]
    queue = Queue("q", capability={"nvidia.com/gpu": limit}) if limit else Queue("q")
    where: dict[str, Any] = {"closeness": RACK} if close else {}
    job = gang("waits", count, gpu=each, queue="q", **where)
    starts = bool(plan_of(nodes, DEFAULT, queue, job).bind)
    assert starts == (not proofs(nodes, DEFAULT, queue, job))


def test_pods_of_one_role_with_two_shapes_are_not_counted_twice() -> None:
    """Three of four workers are needed, of which two are small: each shape alone has only two."""
    large, small = gang("waits", 2, gpu=8, minimum=3, role_min={"w": 3}), gang("waits", 2, gpu=1)
    pods = [*large.tasks, *(replace(t, key=f"{t.key}s", index=t.index + 2) for t in small.tasks)]
    made = replace(large, tasks=tuple(replace(t, role="w") for t in pods))
    assert [] == proofs(node("n1", gpu=8), node("n2", gpu=8), gang("runs", gpu=8, on=["n1"]), made)
