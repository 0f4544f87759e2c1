"""How long jobs rest that change while they are being started."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from maar.controller.writing.refusals import FIRST, MOST, Restless


class Cache:
    """What `Restless` uses of the cache, with one job."""

    def __init__(self, uid: str = "u1") -> None:
        self.given: list[float] = []
        self.resting = False
        self.named(uid)

    def named(self, uid: str) -> None:
        self.latest = SimpleNamespace(jobs=SimpleNamespace(number={"ns/a": 0}, jobs=[SimpleNamespace(uid=uid)]))

    def rests(self, job: str) -> bool:
        return self.resting

    def rest(self, job: str, uid: str, seconds: float) -> None:
        assert self.latest.jobs.jobs[0].uid == uid
        self.given.append(seconds)


def made() -> tuple[Cache, Restless]:
    cache: Any = Cache()
    return cache, Restless(cache)


def test_each_rest_is_twice_as_long_up_to_a_limit() -> None:
    cache, restless = made()
    for _ in range(9):
        restless.refused("ns/a", often=True)
    assert [FIRST, 2 * FIRST, 4 * FIRST] == cache.given[:3]
    assert [MOST, MOST] == cache.given[-2:]


def test_one_change_is_decided_again_at_once_and_a_second_one_in_a_row_is_not() -> None:
    cache, restless = made()
    restless.refused("ns/a", often=False)
    assert [] == cache.given
    restless.refused("ns/a", often=False)
    assert [FIRST] == cache.given


def test_refusals_of_several_pods_of_a_job_are_one() -> None:
    cache, restless = made()
    restless.refused("ns/a", often=True)
    cache.resting = True
    restless.refused("ns/a", often=True)
    cache.resting = False
    restless.refused("ns/a", often=True)
    assert [FIRST, 2 * FIRST] == cache.given


def test_a_job_that_was_started_or_is_another_one_begins_again() -> None:
    cache, restless = made()
    restless.refused("ns/a", often=True)
    restless.started("ns/a")
    restless.refused("ns/a", often=True)
    cache.named("u2")
    restless.refused("ns/a", often=True)
    assert [FIRST, FIRST, FIRST] == cache.given


def test_a_job_that_is_gone_needs_no_rest() -> None:
    cache, restless = made()
    restless.refused("ns/gone", often=True)
    assert [] == cache.given
