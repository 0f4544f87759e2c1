"""Plain gangs: which waiting jobs differ in name and age only, and that they are told what others are told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from maar.config.file import default_config
from maar.model.queues import Queue
from maar.model.snapshot import Snapshot
from maar.model.tasks import Status
from maar.registry import catalog
from maar.session import plain
from maar.session.explain import why_waiting
from maar.session.session import Session
from maar.testing.builders import Gang, cluster, gang, node

CONFIG = default_config(catalog())


def session_of(*waiting: Gang) -> Session:
    """Two nodes with 8 GPUs, half of them taken."""
    nodes = [node(name, gpu=8, cpu=96, memory="768Gi") for name in ("n1", "n2")]
    queues = [Queue("q1"), Queue("q2", capability={"nvidia.com/gpu": 6})]
    runs = gang("runs", 2, gpu=4, on=["n1", "n2"], queue="q1")
    session = Session(Snapshot(cluster(nodes, queues, runs, list(waiting))), CONFIG, 100.0)
    session.open()
    return session


def kind(session: Session, name: str) -> plain.PlainKind | None:
    return plain.plain_kind(session, session.job(session.snapshot.jobs.number[f"ns/{name}"]))


def test_gangs_that_differ_in_name_and_age_are_of_one_kind() -> None:
    fields: dict[str, Any] = {"gpu": 2, "queue": "q1"}
    session = session_of(
        gang("a", 3, created=1.0, **fields),
        gang("b", 3, created=2.0, **fields),
        gang("more", 4, **fields),
        gang("part", 4, minimum=3, **fields),
    )
    assert kind(session, "a") == kind(session, "b") is not None
    assert len({kind(session, name) for name in ("a", "more", "part")}) == 3


@pytest.mark.parametrize(
    "job",
    [
        gang("job", minimum=2, gpu=2),
        gang("job", 2, gpu=2, task={"preemptable": False}),
        gang("job", roles={"master": 1, "worker": 2}, gpu=2),
        gang("job", 2, cpu=0, memory=0),
    ],
    ids=["too few pods", "protected", "roles", "best effort"],
)
def test_other_gangs_have_no_kind(job: Gang) -> None:
    assert kind(session_of(job), "job") is None


def test_a_gang_of_which_a_pod_is_placed_has_no_kind() -> None:
    session = session_of(gang("a", 2, gpu=2, queue="q1"))
    job = session.job(session.snapshot.jobs.number["ns/a"])
    assert kind(session, "a") is not None
    task = session.tasks_of(job, Status.PENDING)[:1]
    session.state.bind(job.index, session.snapshot.tasks.shape.item(task[0]), task, np.array([0]), np.array([1]))
    assert kind(session, "a") is None


@pytest.mark.parametrize("queue", ["q1", "q2"])
@pytest.mark.parametrize("gpu", [1, 4, 8, 9])
@pytest.mark.parametrize(("count", "minimum"), [(1, 1), (2, 0), (3, 3), (5, 3), (40, 40)])
def test_a_plain_gang_waits_for_the_reasons_of_any_other(queue: str, gpu: int, count: int, minimum: int) -> None:
    session, other = (session_of(gang("a", count, minimum=minimum, gpu=gpu, queue=queue)) for _ in range(2))
    other.memo.fixed(plain.OWNER, plain.KINDS, dict)  # no gang is plain
    assert kind(session, "a") is not None
    assert kind(other, "a") is None
    of = session.snapshot.jobs.number["ns/a"]
    assert why_waiting(other, other.job(of)) == why_waiting(session, session.job(of))
