"""Lists: every filter, every order, every part, without a server."""

from __future__ import annotations

from typing import Any

import pytest

from maar.config.file import default_config
from maar.decide import decide
from maar.model.plan import Lock
from maar.model.queues import Queue
from maar.model.selectors import Taint
from maar.model.snapshot import Snapshot
from maar.registry import catalog
from maar.testing.builders import cluster, gang, node
from maar.views.records import OwnerView
from maar.views.tally import Tally
from maar.web.api.errors import Refused
from maar.web.api.queries import (
    ORDERS,
    STATES_OF,
    JobQuery,
    NodeQuery,
    QueueQuery,
    chosen_jobs,
    chosen_nodes,
    chosen_queues,
    read,
)

NOW = 100.0
SNAPSHOT = Snapshot(
    cluster(
        node("a", gpu=8, taints=[Taint("spot", "", "NoSchedule")]),
        node("b", gpu=8, unschedulable=True),
        node("c", gpu=8, taints=[Taint("node.kubernetes.io/unreachable", "", "NoExecute")]),
        node("d", gpu=8),
        node("e", gpu=8),
        Queue("red", weight=3, priority=1),
        Queue("blue", weight=2, priority=7, open=False),
        Queue("grey", parent="nothing"),
        gang("x/old", 1, gpu=6, on=["d"], created=1.0, priority=5, queue="red"),
        gang("x/new", 9, gpu=8, created=9.0, priority=2, queue="default"),
        gang("y/mid", 9, gpu=8, created=4.0, priority=9, queue="red", waiting_since=50.0),
        gang("y/bad", 1, created=2.0, queue="nowhere"),
        Lock("e", "y/mid", 1.0),
    )
)
OWNERS = {
    "x/new": OwnerView(api_version="batch/v1", kind="Job", name="new"),
    "y/mid": OwnerView(api_version="kubeflow.org/v1", kind="PyTorchJob", name="mid"),
}
TALLY = Tally(SNAPSHOT, decide(SNAPSHOT, default_config(catalog()), NOW), NOW, owners=OWNERS)


def listed(kind: type[Any], **given: str) -> list[str]:
    """The names that a request with these parameters gets."""
    query = read(kind, {name: [value] for name, value in given.items()})
    if kind is JobQuery:
        jobs = SNAPSHOT.jobs.jobs
        return [jobs[row].key for row in chosen_jobs(TALLY, list(range(len(jobs))), query)]
    if kind is NodeQuery:
        return [SNAPSHOT.nodes.names[row] for row in chosen_nodes(TALLY, query)]
    return [SNAPSHOT.queues.queues[row].name for row in chosen_queues(TALLY, query)]


SORTED: dict[type[Any], dict[str, list[str]]] = {
    JobQuery: {
        "name": ["x/new", "x/old", "y/bad", "y/mid"],
        "created": ["x/old", "y/bad", "y/mid", "x/new"],
        "since": ["x/old", "y/bad", "x/new", "y/mid"],
        "priority": ["y/bad", "x/new", "x/old", "y/mid"],
        "queue": ["x/new", "y/bad", "x/old", "y/mid"],
        "state": ["y/bad", "x/new", "y/mid", "x/old"],
        "-created": ["x/new", "y/mid", "y/bad", "x/old"],
    },
    NodeQuery: {
        "name": ["a", "b", "c", "d", "e"],
        "state": ["c", "b", "e", "a", "d"],
        "free": ["d", "a", "b", "c", "e"],
        "-free": ["a", "b", "c", "e", "d"],
    },
    QueueQuery: {
        "name": ["blue", "default", "grey", "red", "root"],
        "weight": ["default", "grey", "root", "blue", "red"],
        "priority": ["default", "grey", "root", "red", "blue"],
        "-weight": ["red", "blue", "default", "grey", "root"],
    },
}


@pytest.mark.parametrize(("kind", "order"), [(kind, order) for kind, of in SORTED.items() for order in of])
def test_lists_are_sorted_and_equal_items_by_name(kind: type[Any], order: str) -> None:
    assert SORTED[kind][order] == listed(kind, sort=order)


def test_every_order_and_every_state_is_tried() -> None:
    assert {kind: set(of) for kind, of in ORDERS.items()} == {
        kind: {order.removeprefix("-") for order in of} for kind, of in SORTED.items()
    }
    assert {kind: set(of) for kind, of in STATES_OF.items() if kind is not JobQuery} == {
        kind: {state for case, state, _ in CHOSEN if case is kind and "," not in state}
        for kind in (NodeQuery, QueueQuery)
    }


CHOSEN: list[tuple[type[Any], str, list[str]]] = [
    (NodeQuery, "failed", ["c"]),
    (NodeQuery, "cordoned", ["b"]),
    (NodeQuery, "locked", ["e"]),
    (NodeQuery, "tainted", ["a"]),
    (NodeQuery, "ready", ["d"]),
    (NodeQuery, "ready,failed", ["c", "d"]),
    (QueueQuery, "open", ["default", "red", "root"]),
    (QueueQuery, "closed", ["blue"]),
    (QueueQuery, "invalid", ["grey"]),
    (QueueQuery, "closed,invalid", ["blue", "grey"]),
    (JobQuery, "running", ["x/old"]),
    (JobQuery, "invalid,running", ["x/old", "y/bad"]),
]


@pytest.mark.parametrize(("kind", "state", "names"), CHOSEN)
def test_lists_are_chosen_by_state(kind: type[Any], state: str, names: list[str]) -> None:
    assert names == listed(kind, state=state)


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({"namespace": "x"}, ["x/new", "x/old"]),
        ({"queue": "red"}, ["x/old", "y/mid"]),
        ({"owner": "job"}, ["x/new"]),
        ({"owner": "PyTorchJob/mid"}, ["y/mid"]),
        ({"owner": "Job/mid"}, []),
        ({"namespace": "y", "queue": "red", "state": "waiting", "owner": "PyTorchJob"}, ["y/mid"]),
        ({"namespace": "x", "queue": "red", "state": "waiting"}, []),
    ],
)
def test_jobs_are_chosen_by_all_that_is_stated(given: dict[str, str], names: list[str]) -> None:
    assert names == listed(JobQuery, **given)


@pytest.mark.parametrize(
    ("kind", "given", "field", "says"),
    [
        (NodeQuery, {"sort": "fre"}, "query.sort", "did you mean `free`?"),
        (QueueQuery, {"sort": "created"}, "query.sort", "unknown order `created`"),
        (QueueQuery, {"state": "opn"}, "query.state", "did you mean `open`?"),
        (QueueQuery, {"offset": "-1"}, "query.offset", "expected a number from 0"),
    ],
)
def test_bad_parameters_are_named(kind: type[Any], given: dict[str, str], field: str, says: str) -> None:
    with pytest.raises(Refused) as refused:
        listed(kind, **given)
    assert (400, field) == (refused.value.status, refused.value.view.field)
    assert says in refused.value.view.error
