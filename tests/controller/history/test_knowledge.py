"""News of the history are checked at a limited rate, and only changed knowledge triggers a cycle."""

from __future__ import annotations

import asyncio
import itertools
from functools import partial

from tests.support.patience import PATIENCE, until

from maar.controller.history.knowledge import Learner, learnt_from
from maar.history.history import History
from maar.history.records import Event, EventKind, Measurement, Record
from maar.kube.read.knowledge import Learnt, Who
from maar.lengths.runtimes import SIMILAR, STEP, RunSample, Traits


def test_news_that_come_together_are_looked_at_once() -> None:
    every = 0.05

    async def story() -> None:
        looks: list[float] = []
        cycles = asyncio.Queue[int]()
        loop = asyncio.get_running_loop()

        def look() -> bool:
            looks.append(loop.time())
            return len(looks) != 2

        learner = Learner(look, lambda: cycles.put_nowait(len(looks)), every)
        async with asyncio.timeout(PATIENCE):
            for _ in range(10):
                learner.news()
            assert 1 == await cycles.get()
            for _ in range(10):
                learner.news()
            await until(lambda: len(looks) == 2)
            learner.news()
            assert 3 == await cycles.get(), "the second check found nothing new"
        assert all(after - before >= every for before, after in itertools.pairwise(looks))
        learner.news()
        learner.close()

    asyncio.run(story())


def test_a_history_answers_for_the_category_of_a_job() -> None:
    history = History()
    records: list[Record] = [Event("ns", "t-1", EventKind.STARTED, 0.0, "u", "ns/t", "a100", 0, 1)]
    at = 0.0
    for number, workers in enumerate((1, 2, 1, 2, 1)):
        epoch = Measurement("ns", "t-1", number, 12.0 / workers, workers, at + 12.0 / workers, "u", "ns/t", "a100")
        at = epoch.arrived + 3.0  # the cost of a resize
        records += [
            epoch,
            Event("ns", "t-1", EventKind.RESIZED, epoch.arrived, "u", "ns/t", "a100", workers, 3 - workers),
        ]
    for record in records:
        history.model.feed(record)
    knows = partial(learnt_from, history)
    assert Learnt(((1, 1.0), (2, 2.0)), 5 * 12.0, 3.0, 2) == knows(Who("ns", "t-1", "", "a100", 10))
    assert Learnt(((1, 1.0), (2, 2.0)), 10 * 12.0, 3.0, 2) == knows(Who("ns", "t-2", "", "h100", 10)), (
        "from the category"
    )
    assert Learnt() == knows(Who("ns", "t-1", "other", "a100"))


def test_a_history_tells_the_work_of_a_job_by_the_runs_of_similar_jobs() -> None:
    history = History()
    who = Who("ns", "t-99", traits=Traits("ns", "t", 4), requested=2, most=4)
    for _ in range(SIMILAR):
        assert Learnt() == learnt_from(history, who)
        history.run_times.add(RunSample(Traits("ns", "t", 8), 100.0))  # on 4 workers of 2 GPUs, each as fast as one
    found = learnt_from(history, who)
    assert found.length is not None
    assert 400.0 <= found.length.half <= found.length.most < 400.0 * STEP**2
    assert "" == found.kind, "one kind alone tells nothing about others"
