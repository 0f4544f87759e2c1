"""Tables that only grow are made again in time, and rows that no pod shows take no memory."""

from __future__ import annotations

from pathlib import Path

from maar.config.file import default_config
from maar.decide import decide
from maar.model.selectors import Port
from maar.model.shapes import MOST_NEW
from maar.model.snapshot import Cluster, Snapshot
from maar.registry import catalog
from maar.testing.builders import Gang, cluster, gang, node

PAGE = 4096


def with_ports(name: str, first: int, count: int) -> Gang:
    """A gang that fits nowhere, with host ports of its own."""
    ports = tuple(Port(number, "TCP", "0.0.0.0") for number in range(first, first + count))
    return gang(name, 1, gpu=64, constraints={"ports": ports})


def test_shapes_of_jobs_that_are_gone_do_not_stay_in_the_tables() -> None:
    snapshot = Snapshot(cluster(node("n1", gpu=8)))
    rest, number = Cluster(nodes=snapshot.cluster.nodes), 0
    for number in range(2 * MOST_NEW):
        one = with_ports("one", number + 1, 1)
        following = snapshot.after(rest, {"ns/one": (one.job, one.tasks)})
        if following is None:
            break
        snapshot = following
    assert len(snapshot.shapes) + len(snapshot.shapes.feature) <= MOST_NEW + 4
    assert number > MOST_NEW / 4, "not for every new shape"


def resident() -> int:
    """The resident memory of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def test_safety_thousands_of_host_ports_take_no_memory_on_every_node() -> None:
    """40 pods with 500 ports each on 1,000 nodes: a column for each would take 160 MB in each of four tables."""
    nodes = [node(f"n{i}", gpu=8) for i in range(1000)]
    before = resident()
    snapshot = Snapshot(cluster(nodes, *(with_ports(f"g{i}", 1 + 500 * i, 500) for i in range(40))))
    one = gang("one", 1, gpu=1)
    rest = Cluster(nodes=snapshot.cluster.nodes)
    following = snapshot.after(rest, {"ns/one": (one.job, one.tasks)})
    assert following is not None
    assert ["ns/one-0"] == [b.task for b in decide(following, default_config(catalog()), 0.0).bind]
    assert resident() - before < 200 * 2**20
