"""What happens to Maar and to the node while jobs run and wait: nothing is lost."""

from __future__ import annotations

import time

import pytest
from tests.node.conftest import GPUS
from tests.support.charts import NAMESPACE
from tests.support.node.chart import Installed, is_ready, tag_of
from tests.support.node.jobs import Jobs, containers
from tests.support.node.node import RealNode
from tests.support.patience import PATIENCE
from tests.support.real.processes import wait_until

LATER = "waits-too"
"""Its name comes after that of `waits`: both may be created in the same second, and then names decide."""


class Life:
    """A gang that runs and one that waits for its room, while something happens around them."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        jobs.submit("runs", pods=2, gpus=2)
        jobs.await_noted("runs", "started", 2)
        jobs.submit("waits", pods=2, gpus=GPUS // 2)
        wait_until(lambda: len(jobs.pods("waits")) == 2, "pods of `waits`", PATIENCE)
        self._before = self._now()

    def _now(self) -> list[object]:
        """What must not change: the pods, and the containers of the gang that runs."""
        uids = [pod["metadata"]["uid"] for name in ("runs", "waits") for pod in self._jobs.pods(name)]
        return [sorted(uids), containers(self._jobs.pods("runs")), containers(self._jobs.pods("waits"))]

    def check(self) -> None:
        """Nothing is lost: the same pods run and wait, the job that waits gets its room, and then a new one."""
        jobs = self._jobs
        assert self._before == self._now()
        assert [] == jobs.noted("runs", "asked")
        jobs.submit(LATER, pods=2, gpus=GPUS // 2)
        for name, following in (("runs", "waits"), ("waits", LATER)):
            assert [] == jobs.noted(following, "started")
            jobs.end(name)
            jobs.await_complete(name)
            jobs.await_noted(following, "started", 2)
        jobs.end(LATER)
        jobs.await_complete(LATER)


@pytest.fixture
def life(jobs: Jobs) -> Life:
    return Life(jobs)


def test_the_leader_is_deleted(node: RealNode, installed: Installed, life: Life) -> None:
    leader = installed.leader()
    assert leader
    node.cluster.delete({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": leader, "namespace": NAMESPACE}})
    wait_until(lambda: installed.leader() not in ("", leader), "another pod leads", PATIENCE)
    life.check()


def test_containerd_is_restarted(node: RealNode, installed: Installed, life: Life) -> None:
    before = containers(installed.pods())
    node.stop_containerd()
    node.start_containerd()
    life.check()
    assert before == containers(installed.pods())  # Maar itself went on, too


def test_the_image_is_upgraded_and_rolled_back(installed: Installed, next_image: str, life: Life) -> None:
    begin = installed.tag
    installed.upgrade(next_image)
    assert {begin, next_image} == watch_rollout(installed, next_image)
    assert all(f"Maar {next_image} on " in installed.log(pod) for pod in installed.pods())
    installed.rollback()
    assert {begin, next_image} == watch_rollout(installed, begin)
    assert all(f"Maar {begin} on " in installed.log(pod) for pod in installed.pods())
    life.check()


def watch_rollout(installed: Installed, goal: str) -> set[str]:
    """Wait for a rollout. Returns the versions that were ready at the same time."""
    together: set[str] = set()
    deadline = time.monotonic() + PATIENCE
    while True:
        pods = installed.pods()
        ready = {tag_of(pod) for pod in pods if is_ready(pod)}
        together = max(together, ready, key=len)
        if len(pods) == 2 and all(is_ready(pod) and tag_of(pod) == goal for pod in pods):
            return together
        assert time.monotonic() < deadline, f"not all pods are ready with `{goal}`\n{installed.story()}"
        time.sleep(0.2)
