"""The last change of each pool: decided, written, refused."""

from __future__ import annotations

from maar.controller.snapshots.pool_times import PoolTimes
from maar.model.plan import Plan, Resize, Resume, Suspend


def times() -> PoolTimes:
    made = PoolTimes()
    made.begin({"a": 1.0})
    return made


PLAN = Plan(
    resize=(Resize("x", 1, 2, pool="a"),), suspend=(Suspend("y", pool="a"),), resume=(Resume("z", 1, pool="b"),)
)


def test_a_change_counts_as_soon_as_it_is_decided() -> None:
    made = times()
    made.decide(PLAN, 5.0)
    assert {"a": 5.0, "b": 5.0} == made.current()


def test_a_refused_change_did_not_happen() -> None:
    made = times()
    made.decide(PLAN, 5.0)
    made.settle("z", made=False)
    made.settle("x", made=False)
    assert {"a": 5.0} == made.current(), "another change of the pool is on its way"
    made.settle("y", made=False)
    assert {"a": 1.0} == made.current()


def test_one_written_change_is_enough() -> None:
    made = times()
    made.decide(PLAN, 5.0)
    made.settle("x", made=True)
    made.settle("y", made=False)
    made.settle("unknown", made=True)
    assert {"a": 5.0, "b": 5.0} == made.current()
    made.decide(Plan(resize=(Resize("w", 1, 2),)), 7.0)
    assert {"a": 5.0, "b": 5.0} == made.current(), "a job outside of all pools"


def test_a_start_forgets_what_was_on_its_way() -> None:
    made = times()
    made.decide(PLAN, 5.0)
    made.begin({"b": 2.0})
    assert {"b": 2.0} == made.current()
