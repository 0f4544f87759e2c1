"""Elastic jobs as properties: what no decision may do to them, and the sizes they reach."""

from __future__ import annotations

import numpy as np
from hypothesis import given, note, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.strategies import described, elastic_clusters, shuffled

from maar.config.config import Config
from maar.config.file import default_config
from maar.decide import decide
from maar.elastic.allocate import allocate
from maar.model.outcome import carry_out
from maar.model.plan import Plan
from maar.model.snapshot import Cluster, Snapshot
from maar.model.tasks import Status
from maar.registry import catalog
from maar.session.resizing.elastic_columns import columns
from maar.session.session import Session
from maar.testing.builders import node
from maar.testing.scenario import check_invariants

NOW = 10.0
ALGORITHMS = tuple(sorted(catalog().algorithms))
SETTLING = ("elastic-fifo", "fifo", "max-min", "ffdl", "afs-l", "price")


def unbraked(algorithm: str = "elastic-fifo", pack: bool = False) -> Config:
    """Maar's default configuration with another algorithm and the four brakes at zero."""
    config, kind = default_config(catalog()), catalog().algorithms[algorithm]
    pool = replace(
        config.pools[0],
        algorithm=kind,
        arguments=kind.arguments(),
        rate_limit=0.0,
        minimum_time=0.0,
        hysteresis=0,
        restart=0.0,
        pack=pack,
    )
    return replace(config, pools=(pool,))


def decided(cluster: Cluster, config: Config, now: float = NOW) -> Plan:
    """The plan; the notes of a failing example show its input."""
    note(described(cluster))
    plan = decide(Snapshot(cluster), config, now)
    note(
        f"{now}: bind {plan.bind}\n  nominate {plan.nominate}\n  evict {plan.evict}\n  hold {plan.reserve}\n"
        f"  resize {plan.resize}\n  suspend {plan.suspend}\n  resume {plan.resume}"
    )
    return plan


@settings(max_examples=150, deadline=None)
@given(elastic_clusters(), st.sampled_from(ALGORITHMS), st.booleans())
def test_safety_room_bounds_and_whole_gangs(cluster: Cluster, algorithm: str, pack: bool) -> None:
    """Running, promised and kept pods fit the nodes; no job leaves [min, max]; no gang is evicted in part."""
    config = unbraked(algorithm, pack)
    for step in range(3):
        plan = decided(cluster, config, NOW + step)
        after = carry_out(cluster, plan, NOW + step)
        check_invariants(cluster, plan, after)
        snapshot = Snapshot(after)
        kept = snapshot.used + snapshot.nominated
        for hold in plan.reserve:
            job = next(j for j in after.jobs if j.key == hold.job)
            assert job.elastic is not None
            row = snapshot.nodes.row[hold.node]
            kept[row] += hold.count * np.array(snapshot.axes.row(dict(job.elastic.shape.requests)))
        # Workers that already exist are among the waiting pods: their room is kept until they are bound.
        assert (kept <= snapshot.nodes.allocatable).all()
        cluster = after


@settings(max_examples=150, deadline=None)
@given(elastic_clusters(), st.integers(0, 1000), st.booleans())
def test_safety_the_order_of_the_input_does_not_matter(cluster: Cluster, seed: int, pack: bool) -> None:
    config = unbraked(pack=pack)
    assert decided(cluster, config) == decided(shuffled(cluster, seed), config)


@settings(max_examples=150, deadline=None)
@given(elastic_clusters())
def test_safety_worker_zero_stays_while_its_job_runs(cluster: Cluster) -> None:
    plan = decided(cluster, unbraked())
    after = carry_out(cluster, plan, NOW)
    stopped = {s.job for s in plan.suspend}
    elastic = {job.key for job in cluster.jobs if job.elastic is not None}
    first = {t.key for t in cluster.tasks if t.job in elastic - stopped and t.index == 0 and t.status is Status.BOUND}
    assert first <= {t.key for t in after.tasks}


@settings(max_examples=100, deadline=None)
@given(elastic_clusters(), st.sampled_from(SETTLING), st.booleans())
def test_liveness_sizes_settle(cluster: Cluster, algorithm: str, pack: bool) -> None:
    """Plans that are carried out and decided again come to rest."""
    config = unbraked(algorithm, pack)
    moved = []
    for step in range(25):
        plan = decided(cluster, config, NOW + step)
        cluster = carry_out(cluster, plan, NOW + step)
        moved.append(bool(plan.resize or plan.suspend or plan.resume))
    assert not any(moved[-5:])


@settings(max_examples=100, deadline=None)
@given(elastic_clusters(gangs=0, elastic=6, gpus_only=True), st.sampled_from(ALGORITHMS), st.integers(1, 4))
def test_liveness_one_queue_without_brakes_is_what_allocate_says(cluster: Cluster, algorithm: str, gpus: int) -> None:
    """Workers of one GPU on nodes with enough of everything else: the sizes are those of the algorithm alone."""
    machines = tuple(node(n.name, cpu=64, gpu=gpus) for n in cluster.nodes)
    tasks = tuple(t for t in cluster.tasks if t.status is not Status.BOUND)
    jobs = tuple(
        replace(j, queue="default", elastic=replace(j.elastic, suspended=True, reserved=()))
        for j in cluster.jobs
        if j.elastic is not None
    )
    cluster = replace(cluster, nodes=machines, tasks=tuple(t for t in tasks if not t.job), jobs=jobs, queues=())
    config = unbraked(algorithm)
    session = Session(Snapshot(cluster), config, NOW)
    table = columns(session, session.elastic())
    expected = allocate(catalog().algorithms[algorithm], table, gpus * len(machines))
    plan = decided(cluster, config)
    given_ = {r.job: r.size for r in plan.resume}
    assert dict(zip(table.names, expected.tolist(), strict=True)) == {job.key: given_.get(job.key, 0) for job in jobs}
