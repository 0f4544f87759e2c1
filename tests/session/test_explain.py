"""Why a job waits, in one line and as data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from maar.config.config import PluginOption, Registration
from maar.model.codes import LOCKED, NODES, Code
from maar.model.queues import Queue
from maar.model.reasons import Reason, Refusal, in_one_line
from maar.model.resources import Mask
from maar.model.tasks import Status
from maar.plugins import gang as gang_plugin
from maar.session.explain import why_waiting
from maar.session.hooks import Limit
from maar.session.register import Register
from maar.session.session import Session
from maar.testing.builders import Part, cluster, gang, node

Opened = Callable[..., Session]
TAINTED, SELECTOR = Code("Tainted", NODES), Code("Selector", NODES)
GANG = PluginOption(Registration("gang", gang_plugin.Gang, gang_plugin.Arguments), gang_plugin.Arguments())


def rows(session: Session, *names: str) -> Mask:
    return np.isin(np.array(session.snapshot.nodes.names), names)


def tainted(*names: str) -> Callable[[Session, Register], None]:
    return lambda session, on: on.predicate(
        lambda shape: [Refusal("taints", TAINTED, "tainted", rows(session, *names))]
    )


def why(opened: Opened, *parts: Any, plugins: tuple[Any, ...] = (), job: str = "ns/waits") -> tuple[Reason, ...]:
    flat: list[Part] = []
    for part in parts:
        flat.extend(part if isinstance(part, list) else [part])
    session = opened(cluster(flat), [GANG, *plugins])
    return tuple(why_waiting(session, session.job(session.snapshot.jobs.number[job])))


def test_the_line_of_the_style_guide(opened: Opened) -> None:
    nodes = [node(f"free-{i}", gpu=8) for i in range(312)] + [node(f"tainted-{i}", gpu=8) for i in range(188)]
    busy = [gang(f"busy-{i}", gpu=6 if i else 7, on=[f"free-{i}"]) for i in range(312)]
    taint = tainted(*(f"tainted-{i}" for i in range(188)))
    (reason,) = why(opened, nodes, busy, gang("waits", gpu=4, created=3.0), plugins=(taint,))
    assert "0/500 nodes fit: 312 short of nvidia.com/gpu (needs 4, best has 2 free), 188 tainted" == reason.message
    assert (
        Reason(
            "allocate",
            "NotEnoughResources",
            reason.message,
            resource="nvidia.com/gpu",
            needs=4,
            has=2,
            nodes={"nvidia.com/gpu": 312, "Tainted": 188},
            lasting=reason.lasting,
        )
        == reason
    )


@pytest.mark.parametrize(
    ("nodes", "wants", "message"),
    [
        ([], {"gpu": 1}, "0/0 nodes fit"),
        (
            [node("n1", cpu=2), node("n2", cpu="1500m")],
            {"cpu": 4},
            "0/2 nodes fit: 2 short of cpu (needs 4, best has 2 free)",
        ),
        (
            [node("n1", memory="2Gi"), node("n2", memory="512Mi")],
            {"memory": "4Gi"},
            "0/2 nodes fit: 2 short of memory (needs 4Gi, best has 2Gi free)",
        ),
        ([node("n1", pods=0)], {}, "0/1 nodes fit: 1 short of pods (needs 1, best has 0 free)"),
        # A node is counted once, under its scarcest resource: devices before CPU before memory.
        (
            [node("n1", cpu=1), node("n2", cpu=1, gpu=8), node("n3", memory="1Gi", gpu=8)],
            {"gpu": 1, "cpu": 2, "memory": "2Gi"},
            "0/3 nodes fit: 1 short of cpu (needs 2, best has 1 free), "
            "1 short of memory (needs 2Gi, best has 1Gi free), 1 short of nvidia.com/gpu (needs 1, best has 0 free)",
        ),
    ],
)
def test_short_of_a_resource(opened: Opened, nodes: list[Part], wants: dict[str, Any], message: str) -> None:
    assert [message] == [reason.message for reason in why(opened, nodes, gang("waits", **wants))]


def test_a_gang_that_fits_in_part(opened: Opened) -> None:
    nodes = [node("n1", gpu=4), node("n2", gpu=2), node("n3", gpu=1)]
    (reason,) = why(opened, nodes, gang("waits", 4, gpu=2))
    assert (
        "needs 4 pods together, there is room for 3: 2/3 nodes fit: "
        "1 short of nvidia.com/gpu (needs 2, best has 1 free)"
    ) == reason.message


def test_nodes_that_predicates_refuse(opened: Opened) -> None:
    (reason,) = why(opened, [node("n1"), node("n2")], gang("waits"), plugins=(tainted("n1", "n2"),))
    assert ("taints", "Tainted", "0/2 nodes fit: 2 tainted") == (reason.plugin, reason.code, reason.message)
    assert {"Tainted": 2} == reason.nodes


def test_the_first_predicate_that_refuses_a_node_counts(opened: Opened) -> None:
    def both(session: Session, on: Register) -> None:
        on.predicate(
            lambda shape: [
                Refusal("taints", TAINTED, "tainted", rows(session, "n1", "n2")),
                Refusal(
                    "selectors",
                    Code("Selector", NODES),
                    "do not match the node selector",
                    rows(session, "n1", "n2", "n3"),
                ),
            ]
        )

    (reason,) = why(opened, [node("n1"), node("n2"), node("n3")], gang("waits"), plugins=(both,))
    assert "0/3 nodes fit: 2 tainted, 1 do not match the node selector" == reason.message


def test_locked_nodes(opened: Opened) -> None:
    def lock(session: Session, on: Register) -> None:
        locked = Refusal("locks", LOCKED, "locked for `ns/target`", rows(session, "n1"))
        on.job_nodes(lambda job: None if job.key == "ns/target" else locked)

    (reason,) = why(opened, [node("n1", gpu=8), node("n2", gpu=1)], gang("waits", gpu=4), plugins=(lock,))
    assert (
        "0/2 nodes fit: 1 locked for `ns/target`, 1 short of nvidia.com/gpu (needs 4, best has 1 free)"
    ) == reason.message


def test_what_placed_pods_leave(opened: Opened) -> None:
    def spread(session: Session, on: Register) -> None:
        cause = Refusal("affinity", Code("AntiAffinity", NODES), "repelled by pods there", rows(session, "n1", "n2"))
        on.limit(lambda shape, later: Limit(np.zeros(2, dtype=np.int64), True, (cause,)))

    (reason,) = why(opened, [node("n1"), node("n2")], gang("waits"), plugins=(spread,))
    assert "0/2 nodes fit: 2 repelled by pods there" == reason.message


def test_a_queue_that_refuses(opened: Opened) -> None:
    def quota(session: Session, on: Register) -> None:
        on.allocatable(
            lambda job, shape, wanted: 1, lambda job, shape, wanted: Reason("quota", "Over", f"not {wanted}", queue="q")
        )

    reasons = why(opened, node("n1"), gang("waits", 3, queue="q", created=2.0), Queue("q"), plugins=(quota,))
    assert (Reason("quota", "Over", "not 3", queue="q"),) == reasons


def test_groups_that_fit_only_one_by_one(opened: Opened) -> None:
    """Two roles that each fit alone, but not together."""
    big, small = gang("waits", 1, gpu=2, minimum=3), gang("small", 2, gpu=1)
    members = (*big.tasks, *(replace(t, job="ns/waits", key=f"ns/waits-s{t.index}", role="s") for t in small.tasks))
    (reason,) = why(opened, node("n1", gpu=3), replace(big, tasks=members))
    assert ("NotTogether", "its 3 missing pods fit one by one but not together") == (reason.code, reason.message)


def test_one_that_fits(opened: Opened) -> None:
    (reason,) = why(opened, node("n1"), gang("waits"))
    assert ("NotReached", "fits, but was not reached in this cycle") == (reason.code, reason.message)


def test_room_that_is_promised_to_another_is_not_there(opened: Opened) -> None:
    promised = gang("other", gpu=3, task={"status": Status.NOMINATED, "node": "n1"})
    assert "0/1 nodes fit: 1 short of nvidia.com/gpu (needs 2, best has 1 free)" == in_one_line(
        why(opened, node("n1", gpu=4), promised, gang("waits", gpu=2))
    )


def test_equal_messages_appear_once() -> None:
    a, b = Reason("x", "A", "no room"), Reason("y", "B", "no quota")
    assert "no room; no quota" == in_one_line((a, b, a))


# -- what is written on objects


def locked(*names: str) -> Callable[[Session, Register], None]:
    return lambda session, on: on.job_nodes(
        lambda job: Refusal("locks", LOCKED, "locked for `big`", rows(session, *names))
    )


def test_the_text_for_objects_has_nothing_that_other_jobs_change(opened: Opened) -> None:
    nodes = [node(f"n{i}", gpu=8) for i in range(3)]
    for busy in ([], [gang("a", gpu=3, on=["n0"])], [gang("a", gpu=3, on=["n0"]), gang("b", gpu=8, on=["n1"])]):
        (reason,) = why(opened, nodes, busy, gang("waits", 4, gpu=8), plugins=(tainted("n2"),))
        assert (
            "no nodes with enough free room: asks for 4 pods with 8 nvidia.com/gpu, 1 cpu, 1Gi memory each;"
            " other nodes: tainted" == reason.lasting
        )


def test_a_job_that_would_start_without_the_locks_waits_for_them_and_not_for_nodes(opened: Opened) -> None:
    nodes = [node("n0", gpu=8), node("n1", gpu=8)]
    (reason,) = why(opened, nodes, gang("waits", gpu=4), plugins=(locked("n0", "n1"),))
    assert ("Locked", "0/2 nodes fit: 2 locked for `big`") == (reason.code, reason.message)
    assert "big" not in reason.lasting
    (reason,) = why(opened, nodes, gang("waits", 3, gpu=8), plugins=(locked("n0"),))
    assert "NotEnoughResources" == reason.code, "without the lock it would not fit either"
    busy = [gang("busy", gpu=8, on=["n1"])]
    (reason,) = why(opened, nodes, busy, gang("waits", gpu=4), plugins=(locked("n0"),))
    assert "Locked" == reason.code, "the locked node has room"
    (reason,) = why(opened, nodes, gang("waits", gpu=16), plugins=(locked("n0", "n1"),))
    assert "NotEnoughResources" == reason.code, "no node would have room"
    (reason,) = why(opened, nodes, gang("waits"), plugins=(locked("n0", "n1"), tainted("n0", "n1")))
    assert ("Tainted", "no node fits: tainted; asks for 1 pod with 1 cpu, 1Gi memory") == (reason.code, reason.lasting)


def test_a_gang_that_some_nodes_would_take_lacks_room_and_not_tolerations(opened: Opened) -> None:
    nodes = [node("n0", gpu=8), node("n1", gpu=8), node("n2", gpu=8)]
    (reason,) = why(opened, nodes, gang("waits", 2, gpu=8), plugins=(tainted("n1", "n2"),))
    assert "NotEnoughResources" == reason.code
    (reason,) = why(opened, nodes, gang("waits", gpu=8), plugins=(tainted("n0", "n1", "n2"),))
    assert ("Tainted", "no node fits: tainted; asks for 1 pod with 8 nvidia.com/gpu, 1 cpu, 1Gi memory") == (
        reason.code,
        reason.lasting,
    )
