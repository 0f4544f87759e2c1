"""Long queues: asking a policy about some of the waiting jobs gives the same answer as asking about all."""

from __future__ import annotations

import random

import msgspec
import numpy as np
import pytest

from maar.config.config import Serving
from maar.elastic.jobs import make_jobs
from maar.registry import catalog
from maar.sim.faults import Chance, Faults
from maar.sim.models.default import Default
from maar.sim.models.desk import Desk
from maar.sim.models.line import FRONT, Line
from maar.sim.pool import PoolPlay
from maar.sim.setting import Setting
from maar.sim.trace import Trace, TraceJob

POLICIES = ["fifo", "srjf", "elastic-fifo", "elastic-srjf", "srtf", "srsf", "optimus", "max-min", "tiresias"]
SIZES = ((1, 1, 1), (2, 2, 2), (4, 4, 4), (1, 2, 4), (3, 4, 9), (16, 16, 16), (5, 5, 5))


def overloaded(seed: int, jobs: int, at_once: bool = False) -> Trace:
    """Many more jobs than fit, many of them equal, so that there are ties."""
    dice = random.Random(seed)
    made = []
    for i in range(jobs):
        least, workers, most = dice.choice(SIZES)
        each, duration = dice.choice((1, 1, 2)), dice.choice((100.0, 1000.0, 5000.0, dice.lognormvariate(7, 1)))
        submit = 0.0 if at_once else float(dice.randrange(0, 5 * jobs, 100))
        job = TraceJob(f"{dice.randrange(10**6)}-{i}", submit, duration, workers * each, workers, each, least, most)
        made.append(msgspec.structs.replace(job, priority=dice.choice((0, 0, 0, 1))))
    return Trace(tuple(made))


def played(policy: str, trace: Trace, setting: Setting, in_line: bool) -> tuple[bytes, int, int]:
    """The result, the maximum of jobs at once, and the maximum of jobs in a question after all have arrived."""
    algorithm = catalog().algorithms[policy]
    if not in_line:  # the same function, but the simulator does not know that it serves in order
        algorithm = msgspec.structs.replace(algorithm, serving=Serving.TOGETHER)
    pool = PoolPlay(trace, algorithm, setting)
    there = asked = 0
    while pool.step():
        assert isinstance(pool.model, Default)
        there = max(there, pool.ledger.there)
        asked = max(asked, len(pool.model.desk))
    return msgspec.json.encode(msgspec.structs.replace(pool.run(), policy=policy)), there, asked


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    ("seed", "setting"),
    [
        (1, Setting(8, 8, patience=300.0)),
        (2, Setting(4, 8, restart=0.0, faults=Faults(chance=Chance(50_000, 4000, 7)), patience=300.0)),
    ],
)
def test_a_line_changes_nothing(policy: str, seed: int, setting: Setting) -> None:
    trace = overloaded(seed, 900)
    whole, there, asked = played(policy, trace, setting, in_line=False)
    assert there == asked > 600
    short, there, asked = played(policy, trace, setting, in_line=True)
    assert whole == short
    assert asked < there - 200


@pytest.mark.parametrize("policy", ["fifo", "tiresias"])
def test_a_line_of_jobs_that_come_at_once(policy: str) -> None:
    trace, setting = overloaded(3, 600, at_once=True), Setting(8, 8, patience=1000.0)
    assert played(policy, trace, setting, in_line=False)[0] == played(policy, trace, setting, in_line=True)[0]


def test_who_came_to_the_desk_already_is_no_longer_due() -> None:
    jobs = 3 * FRONT
    desk = Desk(make_jobs([str(i) for i in range(jobs)]))
    desk.put(slice(0, jobs))
    line = Line(desk)
    line.set_aside(np.arange(jobs), np.ones(jobs, dtype=np.int64), np.arange(100.0, 100.0 + jobs))
    assert (list(range(FRONT)), 100.0 + FRONT) == (desk.number.tolist(), line.next_due())
    assert not line.suffices(np.zeros(FRONT, dtype=np.int64), now=0.0)  # the front is served: more jobs are added
    assert (list(range(2 * FRONT)), 100.0 + 2 * FRONT) == (desk.number.tolist(), line.next_due())
    assert line.suffices(np.zeros(FRONT, dtype=np.int64), now=0.0)
    assert line.bring_due(0.0, 100.0 + 2 * FRONT)
    assert [2 * FRONT, 2 * FRONT + 1] == desk.number.tolist()[2 * FRONT :]
