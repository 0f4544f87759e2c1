"""Gangs as columns: the same order and the same openings as unit by unit, on random scenes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from tests.support.rich_scenes import plain, scene

from maar.config.file import default_config
from maar.model.snapshot import Snapshot
from maar.model.tasks import NO_TASKS
from maar.registry import catalog
from maar.session.eviction.gang_table import GangTable
from maar.session.eviction.openings import Openings
from maar.session.eviction.victims import Candidates, find
from maar.session.hooks import Claim
from maar.session.session import Session

SCENES = 60


def claims(across_queues: bool) -> Iterator[tuple[Session, Claim]]:
    """Claims of waiting jobs, each with an open session of its own scene."""
    for seed in range(SCENES):
        session = Session(Snapshot(plain(scene(seed))), default_config(catalog()), 100.0)
        session.open()
        session.state.soften()
        for job in session.active():
            pending = session.snapshot.jobs.members[job.index]
            if session.state.job_pending[job.index] and not session.state.job_allocated[job.index].any():
                shape = int(session.snapshot.tasks.shape[pending[0]])
                yield session, Claim(job, shape, across_queues, priority=job.priority)


@pytest.mark.parametrize("across_queues", [False, True])
@pytest.mark.parametrize("wanted", [1, 3])
def test_the_cheapest_opening_is_the_same_with_and_without_the_table(across_queues: bool, wanted: int) -> None:
    opened = 0
    for session, claim in claims(across_queues):
        tasks, rows = find(session, claim), np.arange(len(session.snapshot.nodes))
        view, nothing = session.view(claim.shape, later=True), GangTable(session, claim, NO_TASKS)
        with_table, without = Candidates(session, claim, tasks), Candidates(session, claim, tasks, nothing)
        expected = Openings(session, without, view, rows).cheapest(wanted)
        assert expected == Openings(session, with_table, view, rows).cheapest(wanted)
        opened += expected is not None and len(with_table.gangs.row) > 0
    assert opened > SCENES / 10


def test_units_have_the_same_order_with_and_without_the_table() -> None:
    several = 0
    for session, claim in claims(across_queues=False):
        candidates = Candidates(session, claim, find(session, claim))
        expected = candidates.units()
        assert expected == list(candidates.in_turn())
        several += len(expected) > 1 and len(candidates.gangs.job) > 0
    assert several > SCENES / 10


def test_a_gang_that_left_is_not_in_turn() -> None:
    for session, claim in claims(across_queues=False):
        candidates = Candidates(session, claim, find(session, claim))
        first = next(candidates.in_turn(), None)
        if first is not None and first.whole:
            with session.statement():
                session.state.evict(*first.tasks)
                assert first not in candidates.in_turn()
            assert first == next(candidates.in_turn())
            return
    pytest.fail("no scene has a gang that may leave")
