"""Plans as JSON and as text, from hand-written plans."""

import json

import pytest

from maar.cli.reports.plan_json import as_json, plan_data
from maar.cli.reports.plan_text import Cycle, as_text, usage
from maar.model.jobs import Job
from maar.model.nodes import Node
from maar.model.plan import (
    Admit,
    Bind,
    Elect,
    Evict,
    Lock,
    Nominate,
    Plan,
    Resize,
    Resume,
    Suspend,
    Wait,
)
from maar.model.reasons import Reason
from maar.model.shapes import Shape
from maar.model.snapshot import Cluster, Snapshot
from maar.model.tasks import Status, Task

LONG = "0/500 nodes fit: " + ", ".join(f"{i} short of resource-{i}.example.com/[gpu]" for i in range(20))

FULL = Plan(
    bind=(Bind("ns/b-1", "n2"), Bind("ns/b-0", "n1")),
    nominate=(Nominate("ns/c-0", "n1"),),
    evict=(Evict("ns/a-1", "ns/c", "lower priority"), Evict("ns/a-0", "ns/c", "lower priority")),
    admit=(Admit("ns/z"), Admit("ns/y")),
    resize=(Resize("ns/e", 2, 4),),
    suspend=(Suspend("ns/s"),),
    resume=(Resume("ns/r", 2),),
    elect=Elect("ns/big", 5.0),
    locks=(Lock("n2", "ns/big", 6.0), Lock("n1", "ns/big", 5.0)),
    wake_at=12.5,
    waiting=(
        Wait("ns/z", (Reason("gang", "NoPods", "no pods yet"),)),
        Wait(
            "ns/big",
            (
                Reason(
                    "allocate",
                    "NotEnoughResources",
                    LONG,
                    resource="cpu",
                    needs=4,
                    has=0,
                    nodes={"tainted": 2, "cpu": 3},
                ),
                Reason("capacity", "OverQuota", "over its quota", queue="q", since=3.0),
            ),
        ),
    ),
)


def snapshot(nodes: tuple[Node, ...] = (Node("n1", {"cpu": 8000}), Node("n2", {"cpu": 8000}))) -> Snapshot:
    def task(name: str, job: str, **said: object) -> Task:
        return Task(f"ns/{name}", f"ns/{job}", Shape((("cpu", 1000), ("pods", 1))), **said)  # type: ignore[arg-type]

    tasks = (
        *(task(f"a-{i}", "a", status=Status.BOUND, node="n1") for i in range(2)),
        *(task(f"b-{i}", "b") for i in range(2)),
        task("c-0", "c"),
    )
    return Snapshot(Cluster(nodes=nodes, tasks=tasks, jobs=tuple(Job(f"ns/{name}") for name in "abc")))


def cycle(plan: Plan) -> Cycle:
    return Cycle(plan, snapshot(), snapshot())


def test_json_is_the_contract() -> None:
    expected = {
        "bind": {"ns/b-0": "n1", "ns/b-1": "n2"},
        "nominate": {"ns/c-0": "n1"},
        "admit": ["ns/y", "ns/z"],
        "evict": [
            {"pod": "ns/a-0", "for": "ns/c", "reason": "lower priority"},
            {"pod": "ns/a-1", "for": "ns/c", "reason": "lower priority"},
        ],
        "resize": [{"job": "ns/e", "from": 2, "to": 4}],
        "suspend": ["ns/s"],
        "resume": [{"job": "ns/r", "to": 2}],
        "elect": "ns/big",
        "locks": {"n1": "ns/big", "n2": "ns/big"},
        "wake_at": 12.5,
        "waiting": [
            {
                "job": "ns/big",
                "reasons": [
                    {
                        "plugin": "allocate",
                        "code": "NotEnoughResources",
                        "message": LONG,
                        "resource": "cpu",
                        "needs": 4,
                        "has": 0,
                        "nodes": {"cpu": 3, "tainted": 2},
                    },
                    {
                        "plugin": "capacity",
                        "code": "OverQuota",
                        "message": "over its quota",
                        "queue": "q",
                        "since": 3.0,
                    },
                ],
            },
            {"job": "ns/z", "reasons": [{"plugin": "gang", "code": "NoPods", "message": "no pods yet"}]},
        ],
    }
    assert expected == plan_data(FULL)
    assert list(expected) == list(plan_data(FULL))


def test_json_of_an_empty_plan_has_every_key() -> None:
    expected: dict[str, object] = {
        "bind": {},
        "nominate": {},
        "admit": [],
        "evict": [],
        "resize": [],
        "suspend": [],
        "resume": [],
        "elect": None,
        "locks": {},
        "wake_at": None,
        "waiting": [],
    }
    assert {"cycles": [expected, expected]} == json.loads(as_json([cycle(Plan()), cycle(Plan())]))


def test_json_is_sorted_whatever_order_the_plan_has() -> None:
    turned = Plan(bind=FULL.bind[::-1], evict=FULL.evict[::-1], locks=FULL.locks[::-1], waiting=FULL.waiting[::-1])
    straight = Plan(bind=FULL.bind, evict=FULL.evict, locks=FULL.locks, waiting=FULL.waiting)
    assert as_json([cycle(straight)]) == as_json([cycle(turned)])


@pytest.mark.parametrize(
    "line",
    [
        "ns/b     2      n1, n2",
        "ns/a      2: a-0, a-1   ns/c   lower priority",
        "ns/c             1      n1",
        "ns/y",
        "ns/e      2 -> 4",
        "ns/r      resumed with 2",
        "ns/s      suspended",
        "ns/big    n1, n2",
        f"ns/big   {LONG}; over its quota",
        "ns/z     no pods yet",
        "all: 2 nodes, in use: cpu 2/16",
    ],
)
def test_text_says_everything_each_on_one_line(line: str) -> None:
    assert line in as_text([cycle(FULL)], 1).splitlines()


def test_text_without_a_terminal_has_no_colour_and_no_trailing_space() -> None:
    text = as_text([cycle(FULL), cycle(Plan())], 2)
    assert "\x1b" not in text
    assert [] == [line for line in text.splitlines() if line != line.rstrip()]
    assert "cycle 2 of 2" in text
    assert all(len(line) <= 100 for line in text.splitlines() if line.startswith("──"))


def test_text_of_an_empty_plan() -> None:
    assert "nothing to do now\n\nall: 2 nodes, in use: cpu 2/16\n" == as_text([cycle(Plan())], 1)


def test_many_nodes_are_counted() -> None:
    nodes = tuple(Node(f"n{i}", {"cpu": 8000}) for i in range(9))
    tasks = tuple(Task(f"ns/t-{i}", "ns/t", Shape()) for i in range(10))
    before = Snapshot(Cluster(nodes=nodes, tasks=tasks, jobs=(Job("ns/t"),)))
    binds = tuple(Bind(f"ns/t-{i}", f"n{max(i - 1, 0)}") for i in range(10))
    text = as_text([Cycle(Plan(bind=binds), before, before)], 1)
    assert "ns/t     10     n0 x2, n1, n2, n3, n4, n5 and 3 more" in text.splitlines()


def test_usage_by_pool() -> None:
    gpu = {"nvidia.com/gpu": 8, "memory": 2**34}
    nodes = (
        Node("n1", gpu, {"nvidia.com/gpu.product": "A100"}),
        Node("n2", gpu, {"nvidia.com/gpu.product": "H100"}),
        Node("n3", {"memory": 2**34}),
    )
    expected = [
        "all: 3 nodes, in use: memory 0/48Gi, nvidia.com/gpu 0/16",
        "A100: 1 node, in use: memory 0/16Gi, nvidia.com/gpu 0/8",
        "H100: 1 node, in use: memory 0/16Gi, nvidia.com/gpu 0/8",
        "no accelerator: 1 node, in use: memory 0/16Gi",
    ]
    assert expected == usage(Snapshot(Cluster(nodes=nodes)))


def test_usage_of_one_pool_is_one_line() -> None:
    nodes = (Node("n1", {"cpu": 1000}, {"nvidia.com/gpu.product": "A100"}),)
    assert ["all: 1 node, in use: cpu 0/1"] == usage(Snapshot(Cluster(nodes=nodes)))
    assert ["all: 0 nodes"] == usage(Snapshot(Cluster()))
