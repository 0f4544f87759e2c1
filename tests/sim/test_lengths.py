"""The simulator learns run times from jobs that ended earlier in the same run, and from nothing else."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maar.config.file import default_config
from maar.model.elastic import Elastic
from maar.model.lengths import Estimate
from maar.registry import catalog
from maar.sim.cluster import ClusterPlay as Cluster
from maar.sim.papers.applications import Application, Rates
from maar.sim.pool import simulate
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
    play, found = Cluster(Trace(jobs), default_config(catalog()), Setting(1, 8)), dict[str, Estimate | None]()
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


def test_an_elastic_job_has_a_length_if_lengths_are_learnt() -> None:
    """It has 2 workers and takes 100 s with them: 200 s of work on one."""
    jobs = tuple(TraceJob(f"a-{i}", i * 200.0, 100.0, 2, workers=2, min=1, max=2) for i in range(11))
    for lengths in ("learnt", "unknown"):
        setting = Setting(1, 8, lengths="learnt" if lengths == "learnt" else "unknown")
        play, found = Cluster(Trace(jobs), default_config(catalog()), setting), dict[str, Elastic | None]()
        while play.step():
            found.update((key, job.elastic) for key, (job, _) in play.virtual.jobs.items())
        *early, last = [elastic.length for elastic in found.values() if elastic is not None]
        assert [None] * 10 == early
        assert (lengths == "learnt") == (last is not None and 200.0 <= last.half < 230.0)
        assert {math.inf} == {elastic.remaining for elastic in found.values() if elastic is not None}


TABLE = Rates(
    {"a": Application((400.0,), (1, 2, 4), ((1.0, 1.8, 3.0),)), "b": Application((90.0,), (1, 2), ((1.0, 1.5),))}
)
BY_MODEL = {
    "default": Setting(1, 4, lengths="learnt"),
    "rates": Setting(1, 4, model="rates", rates=TABLE, interval=60.0, lengths="learnt", speeds_known=False),
}
JOBS = st.lists(
    st.builds(
        lambda name, submit, duration, workers: (name, submit, duration, workers),
        st.sampled_from("ab"),
        st.integers(0, 500),
        st.integers(1, 300),
        st.sampled_from([1, 2, 4]),
    ),
    min_size=12,
    max_size=40,
)


def trace(jobs: list[tuple[str, int, int, int]]) -> Trace:
    return Trace(
        tuple(
            TraceJob(f"{name}-{i}", submit, duration, workers, workers=workers, min=1, max=workers, model=name)
            for i, (name, submit, duration, workers) in enumerate(jobs)
        )
    )


def decisions(of: Trace, setting: Setting, policy: str, until: float = math.inf) -> dict[str, list[tuple[float, int]]]:
    """The sizes of each job over time, before a moment."""
    run = simulate(of, catalog().algorithms[policy], setting)
    return {job.name: [change for change in job.sizes if change[0] < until] for job in run.jobs}


@pytest.mark.parametrize("model", BY_MODEL)
@given(jobs=JOBS, policy=st.sampled_from(["price", "srtf", "elastic-srjf"]))
def test_safety_the_same_jobs_give_the_same_run(model: str, jobs: list[tuple[str, int, int, int]], policy: str) -> None:
    once, again = (decisions(trace(jobs), BY_MODEL[model], policy) for _ in range(2))
    assert len(jobs) == len(once)
    assert once == again


@given(jobs=JOBS, policy=st.sampled_from(["price", "srtf", "srsf", "afs-l", "elastic-srjf"]), longer=st.integers(0, 39))
def test_safety_what_a_job_takes_is_not_known_before_it_ends(
    jobs: list[tuple[str, int, int, int]], policy: str, longer: int
) -> None:
    """If one job takes longer, nothing is decided otherwise until it would have ended."""
    setting = msgspec.structs.replace(BY_MODEL["default"], patience=0.0)
    number = longer % len(jobs)
    name, submit, duration, workers = jobs[number]
    changed = [*jobs[:number], (name, submit, 10 * duration, workers), *jobs[number + 1 :]]
    run = simulate(trace(jobs), catalog().algorithms[policy], setting)
    end = next(job.end for job in run.jobs if job.name == f"{name}-{number}")
    assert decisions(trace(jobs), setting, policy, end) == decisions(trace(changed), setting, policy, end)
