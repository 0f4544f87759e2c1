"""Maar learns speeds from running trainings, and `price` uses them. `make bench-learning` runs more of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support import quick_time
from tests.support.live import GPU, NAMESPACE
from tests.support.trainings import EPOCH, KINDS, Kind, Training, play

from maar.elastic.steps import Basis
from maar.history.estimates import Estimates

EVEN, FLAT = KINDS[0], Kind("flat", 4.0, 8.0)


def training(name: str, kind: Kind, submit: float, epochs: int) -> Training:
    return Training(name, kind, submit, epochs, EPOCH)


def test_in_quick_time_a_timer_for_now_is_due_also_after_years() -> None:
    loop, done = quick_time.QuickLoop(), list[str]()
    loop.clock.passed = 50_371_200.0
    loop.call_later(0, done.append, "done")
    loop.call_soon(loop.stop)
    loop.run_forever()
    loop.close()
    assert ["done"] == done


@pytest.mark.slow
def test_jobs_start_small_are_measured_and_get_what_helps_them(tmp_path: Path) -> None:
    """Of two kinds with hidden speeds, one uses more workers well and one not at all. Four nodes of 4 GPUs."""
    first = [training("even-1", EVEN, 0.0, 15), training("flat-1", FLAT, 1.0, 5)]
    late = training("even-2", EVEN, 600.0, 10)
    history = quick_time.run(play(tmp_path, [*first, late], learns=True))
    estimates = Estimates(history.model)
    even, flat = ((f"{NAMESPACE}/{kind.category}", GPU) for kind in (EVEN, FLAT))
    assert Basis.STEPS == estimates.speeds(even).basis
    assert estimates.speeds(even).measured >= 4, "it was given more workers, and measured there"
    learnt = estimates.curve(even).values(16)
    for size, true in EVEN.truth().items():
        if size <= estimates.speeds(even).measured:
            assert learnt[size] == pytest.approx(true, rel=0.2)
    assert 2 >= estimates.speeds(flat).measured, "two workers are slower than one: more are not tried"
    trainings = [*first, late]
    assert sum(t.packed for t in trainings) >= 0.9 * sum(t.worked for t in trainings), "on the fewest nodes"
    assert late.ended - late.submitted < 0.5 * 10 * EPOCH, "what was learnt helps the next job of the kind"
