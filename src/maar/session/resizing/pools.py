"""Pools: which nodes elastic jobs share, and which jobs share them.

A node belongs to the first configured pool whose labels it has, otherwise to `default`. A job belongs to the pool that
it names, otherwise to the pool whose labels its workers select, otherwise to the first pool (`default` before the
others) with a node that its workers can use.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from maar.config.config import PoolOption
from maar.model.elastic import Elastic
from maar.model.jobs import Job, Phase
from maar.model.nodes import NodeTable
from maar.model.reasons import Reason
from maar.model.resources import Mask
from maar.model.tasks import Status
from maar.session.resizing.workers import elastic_of, is_ending
from maar.session.session import RESTS, Session


@dataclass
class SharedPool:
    """The nodes of a pool, and the elastic jobs that share them in this session."""

    option: PoolOption
    nodes: Mask
    jobs: list[Job] = field(default_factory=list)


def pools_of(session: Session) -> list[SharedPool]:
    """The pools with elastic jobs, and their jobs."""
    jobs = [job for job in session.elastic() if _takes_part(session, job)]
    if not jobs:
        return []
    pools = _make(session)
    for job in jobs:
        pool = _pool_of(session, job, pools)
        if isinstance(pool, Reason):
            session.note(job, pool)
        else:
            pool.jobs.append(job)
    return [pool for pool in pools if pool.jobs]


def _takes_part(session: Session, job: Job) -> bool:
    trouble = session.trouble(job)
    # One that rests and runs does not grow (its bounds say so), but gives up workers as any other.
    runs = trouble is not None and trouble.code == RESTS and job.is_elastic and elastic_of(job).now > 0
    if not job.is_elastic or not (trouble is None or runs):
        return False
    return not _is_over(session, job) and not is_ending(session, job)


def _is_over(session: Session, job: Job) -> bool:
    """Whether its group is completed. Tenants can write that too, so it counts only if no pod of the job is left."""
    left = (Status.PENDING, Status.NOMINATED, Status.BOUND)
    return job.phase is Phase.COMPLETED and not len(session.tasks_of(job, *left))


def nodes_of_pools(table: NodeTable, options: Iterable[PoolOption]) -> list[tuple[PoolOption, Mask]]:
    left = np.ones(len(table), dtype=np.bool_)
    pools = []
    for option in sorted(options, key=lambda p: not p.nodes):
        mask = left.copy()
        for label, value in option.nodes.items():
            mask &= table.label(label).one_of([value])
        left &= ~mask
        pools.append((option, mask))
    return pools


def _make(session: Session) -> list[SharedPool]:
    return [SharedPool(option, mask) for option, mask in nodes_of_pools(session.snapshot.nodes, session.config.pools)]


def _pool_of(session: Session, job: Job, pools: list[SharedPool]) -> SharedPool | Reason:
    assert job.elastic is not None
    selected = _selects(job.elastic)
    if job.elastic.pool:
        named = next((p for p in pools if p.option.name == job.elastic.pool), None)
        # Jobs of Voda name an accelerator by a node label, which need not be the name of a pool.
        if named is None and job.elastic.pool not in selected.values():
            known = ", ".join(sorted(p.option.name for p in pools))
            what = f"pool `{job.elastic.pool}` does not exist; known: {known}"
            return Reason("resize", "PoolNotFound", what)
        if named is not None:
            return named
    for pool in pools:
        if pool.option.nodes and pool.option.nodes.items() <= selected.items():
            return pool
    usable = session.view(session.snapshot.shapes.number[job.elastic.shape]).open
    by_default = sorted(pools, key=lambda p: bool(p.option.nodes))
    return next((p for p in by_default if (p.nodes & usable).any()), by_default[0])


def _selects(elastic: Elastic) -> dict[str, str]:
    """Node labels for which a worker requires exactly one value."""
    wanted = [r for r in elastic.shape.node_selector if r.operator == "In" and len(r.values) == 1]
    terms = elastic.shape.node_terms
    if terms is not None and len(terms) == 1:
        wanted += [r for r in terms[0].expressions if r.operator == "In" and len(r.values) == 1]
    return {r.key: r.values[0] for r in wanted}
