"""Gangs of real pods: their processes start together or not at all, and end gracefully when they make room."""

from __future__ import annotations

from tests.node.conftest import GPUS
from tests.support.node.jobs import SAVING_S, Jobs, containers, reason
from tests.support.patience import wait_until


def test_a_gang_starts_together_and_one_that_does_not_fit_starts_nothing(jobs: Jobs) -> None:
    jobs.submit("large", pods=GPUS + 1, gpus=1)
    wait_until(lambda: f"all nodes hold {GPUS}" in reason(jobs.pods("large")), "a reason of `large`")
    jobs.submit("fits", pods=4, gpus=2)
    jobs.await_noted("fits", "started", 4)
    assert [] == jobs.noted("fits", "ended")  # all four run at the same time
    jobs.end("fits")
    jobs.await_complete("fits")
    # There was room for 8 of its 9 pods all the time, before and after.
    assert GPUS + 1 == len(jobs.pods("large"))
    assert [] == jobs.noted("large", "started")
    assert {} == containers(jobs.pods("large"))
    assert [""] * (GPUS + 1) == [pod["spec"].get("nodeName", "") for pod in jobs.pods("large")]


def test_preemption_ends_processes_gracefully(jobs: Jobs, priorities: None) -> None:
    jobs.submit("low", pods=2, gpus=GPUS // 2, priority="low")
    jobs.await_noted("low", "started", 2)

    jobs.submit("high", pods=2, gpus=GPUS // 2, priority="high")
    asked, saved = jobs.await_noted("low", "asked", 2), jobs.await_noted("low", "saved", 2)
    started = jobs.await_noted("high", "started", 2)
    # The kubelet would have killed them after their grace period. Then they would have saved nothing.
    assert all(end - begin >= SAVING_S for begin, end in zip(asked, saved, strict=True))
    assert saved[-1] < started[0]  # nobody was on the GPUs of others
    assert 2 == len(jobs.noted("low", "started"))  # its new pods wait

    jobs.end("high")
    jobs.await_complete("high")
    jobs.await_noted("low", "started", 4)
    jobs.end("low")
    jobs.await_complete("low")
    assert 0 == jobs.job("low")["status"].get("failed", 0)
