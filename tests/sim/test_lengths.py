"""The simulator learns run times from jobs that ended earlier in the same run, and from nothing else."""

from __future__ import annotations

from maar.config.file import default_config
from maar.model.jobs import Estimate
from maar.registry import catalog
from maar.sim.cluster import Play
from maar.sim.setting import Setting
from maar.sim.trace import Trace, TraceJob


def estimates(count: int, name: str = "bert", other: str = "", elastic: bool = False) -> list[Estimate | None]:
    """What is known of each job when it runs: jobs of 100 s, one after another."""
    low, high = (1, 4) if elastic else (2, 2)
    jobs = tuple(
        TraceJob(
            f"{other if other and i == count - 1 else name}-{i}", i * 200.0, 100.0, 2, workers=2, min=low, max=high
        )
        for i in range(count)
    )
    play, found = Play(Trace(jobs), default_config(catalog()), Setting(1, 8)), dict[str, Estimate | None]()
    while play.step():
        found.update((key, job.estimate) for key, (job, _) in play.virtual.jobs.items())
    return list(found.values())


def test_the_eleventh_run_of_a_kind_has_an_estimate_and_no_earlier_one() -> None:
    *early, last = estimates(11)
    assert [None] * 10 == early
    assert last is not None
    assert 10 == last.runs
    assert 100.0 <= last.half <= last.most < 115.0


def test_another_name_knows_nothing_and_nor_does_an_elastic_job() -> None:
    assert [None] * 11 == estimates(11, other="gpt")
    assert [None] * 12 == estimates(12, elastic=True)
