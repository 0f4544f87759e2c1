"""Clusters for the page: a small one with everything that it shows, and a large one for measurements."""

from __future__ import annotations

from maar.model.plan import Elect, Lock
from maar.model.queues import Queue
from maar.model.selectors import Taint
from maar.model.snapshot import Cluster
from maar.testing.builders import GPU, Gang, cluster, elastic, gang, node

NOW = 1_790_000_000.0
RACK = "topology.kubernetes.io/rack"
DOWN = Taint("node.kubernetes.io/unreachable", "", "NoExecute")


def small(*more: Gang) -> Cluster:
    """Three racks of four nodes: one failed, one drained, one locked; gangs, an elastic job, queues in a tree."""
    names = [f"r{rack}-n{i}" for rack in range(3) for i in range(4)]
    nodes = [
        node(
            name,
            gpu=8,
            labels={RACK: name[:2]},
            taints=[DOWN] if name == "r0-n3" else (),
            unschedulable=name == "r1-n3",
        )
        for name in names
    ]
    return cluster(
        nodes,
        Queue("research", weight=3, capability={GPU: 64}, created=1.0),
        Queue("vision", parent="research", weight=1, guarantee={GPU: 8}, created=1.0),
        Queue("language", parent="research", weight=2, created=1.0),
        Queue("batch", created=1.0),
        gang("ann/llama", 4, gpu=8, on=["r0-n0", "r0-n1", "r0-n2", "r1-n0"], queue="language", created=NOW - 9000),
        gang("bob/detector", 3, gpu=2, on=["r1-n1", "r1-n1", "r1-n2"], queue="vision", created=NOW - 4000),
        gang("bob/night", 2, gpu=4, on=["r2-n1", "r2-n1"], queue="batch", created=NOW - 3000),
        elastic(
            "ann/tuner",
            1,
            8,
            on=["r1-n2", "r1-n2", "r2-n0", "r2-n0"],
            speedup=((1, 1.0), (2, 1.9), (4, 3.1), (8, 4.5)),
            measured=4,
            job={"queue": "language", "created": NOW - 7000},
        ),
        gang("ann/giant", 8, gpu=8, queue="language", created=NOW - 2000, waiting_since=NOW - 1900),
        gang("bob/probe", 2, gpu=8, queue="vision", created=NOW - 600, waiting_since=NOW - 600),
        Elect("ann/giant", NOW - 100),
        Lock("r2-n3", "ann/giant", NOW - 100),
        *more,
    )


def large(nodes: int = 5000, racks: int = 250) -> Cluster:
    """Nodes with 8 GPUs each, nearly all in use by gangs of different sizes, and 500 waiting jobs."""
    made = [
        node(
            f"gpu-{i:05}",
            gpu=8,
            labels={RACK: f"rack-{i * racks // nodes:03}"},
            taints=[DOWN] if i % 611 == 7 else (),
            unschedulable=i % 397 == 5,
        )
        for i in range(nodes)
    ]
    jobs: list[Gang] = []
    at = number = 0
    while at < nodes:
        size = min((1, 2, 4, 1, 8, 16, 3, 32)[number % 8], nodes - at)
        on = [f"gpu-{i:05}" for i in range(at, at + size)]
        gpu = 4 if number % 7 == 3 else 8
        jobs.append(gang(f"team-{number % 9}/job-{number:04}", size, gpu=gpu, on=on, queue=f"q{number % 6}"))
        at += size
        number += 1
    waiting = [gang(f"team-{i % 9}/next-{i:03}", 4, gpu=8, queue=f"q{i % 6}", created=NOW - i) for i in range(500)]
    return cluster(made, [Queue(f"q{i}", weight=i + 1) for i in range(6)], jobs, waiting)
