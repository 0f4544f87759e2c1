"""Elastic sizes and node groups: jobs compete only for nodes that both may use."""

from __future__ import annotations

from msgspec.structs import replace

from maar.decide import decide
from maar.model.elastic import Past
from maar.model.plan import Plan
from maar.model.queues import NodeGroups, Queue
from maar.model.snapshot import Snapshot
from maar.plugins.nodegroup import LABEL
from maar.testing.builders import cluster, elastic, gang, node
from maar.testing.scenario import configured, cycles, scene

CONFIG = configured("""
actions: "allocate, resize"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: nodegroup}]
pools: [{name: default, algorithm: elastic-fifo, rate-limit: 0s, minimum-time: 0s, restart: 0s}]
""")
NODES = [node(f"{group}{i}", gpu=2, labels={LABEL: group}) for group in "ab" for i in (1, 2)]
A, B = (Queue(f"q{group}", node_groups=NodeGroups(required=(group,))) for group in "ab")


def sizes(plans: list[Plan]) -> dict[str, int]:
    """The last size of each job."""
    found = {}
    for plan in plans:
        found.update({r.job: r.size for r in plan.resume})
        found.update({r.job: r.after for r in plan.resize})
    return found


def test_gang_that_waits_in_one_group_does_not_stop_growth_in_another() -> None:
    waits = gang("waits", 2, gpu=2, queue="qa")
    full = gang("full", 2, gpu=2, on=["a1", "a2"], queue="qa")
    grows = elastic("grows", 1, 4, on=["b1"], job={"queue": "qb"})
    assert {"ns/grows": 4} == sizes(scene(cluster(NODES, A, B, full, waits, grows), CONFIG))
    stays = elastic("grows", 1, 4, on=["a1"], job={"queue": "qa"})
    one = gang("full", 1, gpu=2, on=["a2"], queue="qa")
    assert {} == sizes(scene(cluster(NODES, A, B, one, waits, stays), CONFIG))


def test_gang_that_fits_only_with_nodes_of_another_group_stops_no_job() -> None:
    """It would fit the cluster, but never its group."""
    never = gang("never", 3, gpu=2, queue="qa")
    grows = elastic("grows", 1, 4, on=["a1"], job={"queue": "qa"})
    assert {"ns/grows": 4} == sizes(scene(cluster(NODES, A, B, never, grows), CONFIG))


def test_algorithm_divides_only_the_nodes_that_jobs_may_use() -> None:
    """All together have eight GPUs; what the jobs of one group cannot use goes to the other."""
    first = elastic("first", 1, 8, job={"queue": "qa", "created": 0.0})
    second = elastic("second", 1, 8, job={"queue": "qa", "created": 1.0})
    other = elastic("other", 1, 8, job={"queue": "qb", "created": 2.0})
    plan = decide(Snapshot(cluster(NODES, A, B, first, second, other)), CONFIG, 0.0)
    assert {"ns/first": 2, "ns/second": 2, "ns/other": 4} == {t.job: t.planned for t in plan.targets}


def test_no_room_is_kept_on_nodes_of_another_group() -> None:
    """The owner of the job can write the holds, and the groups of a queue can change."""
    job = elastic("e", 1, 4, on=["b1"], job={"queue": "qb"})
    assert job.job.elastic is not None
    held = replace(job.job.elastic, size=3, reserved=(("a1", 2),), past=Past(last_resize=0.0))
    job = replace(job, job=replace(job.job, elastic=held))
    new = gang("new", 1, gpu=2, queue="qa")
    only = [n for n in NODES if n.name != "a2"]
    plans, _ = cycles(cluster(only, A, B, job, new), CONFIG, 1)
    assert ["a1"] == [b.node for b in plans[0].bind]
    assert "a1" not in {hold.node for hold in plans[0].reserve}
