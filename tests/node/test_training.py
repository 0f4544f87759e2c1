"""A real training that Maar resizes while it trains: examples/training on a real node.

It has the node alone, shares it with a second job, is suspended for an urgent one, and has the node alone again. At the
end a gang waits for it, with a forecast that is judged by what happens.
"""

from __future__ import annotations

import json
import time
from itertools import groupby, pairwise
from statistics import median
from typing import Any

import psycopg
import pytest
from tests.node.conftest import GPUS
from tests.support.charts import NAMESPACE
from tests.support.node.chart import WEB_PODS, Installed, is_ready
from tests.support.node.jobs import Jobs
from tests.support.node.node import GPU, RealNode
from tests.support.node.training import Training
from tests.support.node.users import Users, cluster_ip
from tests.support.patience import wait_until

EPOCHS = 90
WORKERS = 4
SOME = 6
"""Epochs that are enough to see a size."""


@pytest.fixture
def users(node: RealNode, installed: Installed, history: str) -> Users:
    return Users(node, history)


def test_an_elastic_training_is_resized_while_it_trains(
    node: RealNode, image: str, jobs: Jobs, users: Users, priorities: None, history: str
) -> None:
    url = f"http://{cluster_ip(node, 'maar')}:8080"
    training = Training(node, jobs.namespace, image, url, EPOCHS, gpus=GPUS // WORKERS)
    name = f"{jobs.namespace}/{training.name}"
    training.submit()
    training.await_workers(WORKERS, SOME)

    # A second job arrives, and ends: the training shrinks, and grows again.
    jobs.submit("second", pods=WORKERS // 2, gpus=GPUS // WORKERS, in_pool=True)
    jobs.await_noted("second", "started", WORKERS // 2)
    training.await_workers(WORKERS // 2, SOME)
    jobs.end("second")
    jobs.await_complete("second")
    training.await_workers(WORKERS, SOME)

    # An urgent job needs the whole node: the training is suspended, and goes on from its checkpoint.
    jobs.submit("urgent", pods=2, gpus=GPUS // 2, priority="high")
    jobs.await_noted("urgent", "started", 2)
    before = training.saved()
    jobs.end("urgent")
    jobs.await_complete("urgent")
    training.await_workers(WORKERS, SOME)
    assert before["epochs"] == training.epochs()[: len(before["epochs"])]
    assert f"begin at epoch {before['epoch']}, step {before['step']}" in training.said()

    # A gang that needs the whole node waits for the end of the training.
    submitted = time.time()
    jobs.submit("after", pods=GPUS, gpus=1)
    forecast = await_forecast(users, f"{jobs.namespace}/after")
    assert submitted < forecast["startP50"] <= forecast["startP90"]
    assert "50 %" in users.when(f"{jobs.namespace}/after")
    print(users.when(f"{jobs.namespace}/after"), users.when(name), sep="\n")
    waited = time.time()
    training.may_end()
    jobs.await_complete(training.name)
    started = jobs.await_noted("after", "started", GPUS)

    # No epoch is lost or trained twice, and the loss falls in every one, whatever happens between them.
    epochs = training.epochs()
    assert list(range(EPOCHS)) == [entry["epoch"] for entry in epochs]
    assert all(later["loss"] < earlier["loss"] for earlier, later in pairwise(epochs))

    learned = json.loads(users.history(name, "--output", "json"))
    check_life(learned["jobs"], name)
    check_speed(learned["categories"], epochs)
    assert "speed-up" in users.history(name)
    print(users.history(name), training.story(), *epochs, sep="\n")

    check_judgement(node, jobs, users, history, waited, started[-1])


def check_life(accounts: list[Any], name: str) -> None:
    """What `maar history` says about the life of the training."""
    (account,) = [job for job in accounts if job["job"] == name]
    assert ("completed", EPOCHS - 1, EPOCHS) == (account["state"], account["epoch"], account["total_epochs"])
    events = account["events"]
    sizes = [event["after"] for event in events]
    assert [0, *sizes[:-1]] == [event["before"] for event in events]
    # Other jobs end one pod after the other, so the training may grow again in one step or in several.
    kinds = [kind for kind, _ in groupby(event["kind"] for event in events)]
    assert ["submitted", "started", "resized", "suspended", "started"] == kinds[:5]
    assert kinds[5:] in (["ended"], ["resized", "ended"])
    assert [0, WORKERS, WORKERS // 2] == sizes[:3]
    grown = [event["before"] for event in events if event["kind"] in ("suspended", "ended")]
    assert [WORKERS, WORKERS] == grown


def check_speed(categories: list[Any], epochs: list[Any]) -> None:
    """The speed-up that `maar history` shows is that of the epochs as the training itself has measured them."""
    (category,) = categories  # every report has its accelerator, whichever replica it reached
    assert GPU == category["accelerator"]
    shown = {size["workers"]: size for size in category["sizes"] if size["epochs"]}
    assert {WORKERS // 2, WORKERS} <= set(shown)
    # It is the median of the newest epochs; how much epochs differ depends on the machine.
    for size in (WORKERS // 2, WORKERS):
        own = [epoch["seconds"] for epoch in epochs if epoch["workers"] == size]
        assert min(own) * 0.99 <= shown[size]["epoch_seconds"] <= max(own) * 1.01
    few, many = shown[WORKERS // 2], shown[WORKERS]
    faster = few["epoch_seconds"] / many["epoch_seconds"]
    assert many["speedup"] / few["speedup"] == pytest.approx(faster, rel=0.3)  # the fit may differ from each point


def await_forecast(users: Users, job: str) -> Any:
    """Wait until `maar web` expects a start of a job. Returns its forecast."""
    found: list[Any] = []

    def expected() -> bool:
        try:
            found.append(json.loads(users.when(job, "--output", "json"))["detail"]["forecast"])
        except AssertionError:
            return False  # `maar web` has not seen the job yet
        return bool(found[-1]["verdict"] == "expected")

    wait_until(expected, f"a forecast of {job}")
    return found[-1]


def check_judgement(node: RealNode, jobs: Jobs, users: Users, history: str, waited: float, started: float) -> None:
    """The forecast of `after` was kept, and is judged by its real start, which was between these times."""
    jobs.submit("last", pods=GPUS, gpus=1)  # it waits, so a forecast is made, with which the fates of others are kept
    after = f"{jobs.namespace}/after"
    wait_until(lambda: after in kept_forecasts(history), "the fate of `after` is kept")
    expected, real = kept_forecasts(history)[after]
    assert waited < real < started + 1  # to the second
    # Forecasts are judged every ten minutes, and at the start of `maar web`.
    for pod in node.pods(NAMESPACE, WEB_PODS):
        node.cluster.delete({"apiVersion": "v1", "kind": "Pod", "metadata": pod["metadata"]})

    def restarted() -> bool:
        return [True] == [is_ready(pod) for pod in node.pods(NAMESPACE, WEB_PODS)]

    wait_until(restarted, "`maar web` is ready again")
    judged: list[Any] = []

    def is_judged() -> bool:
        try:
            judged[:] = [one for one in users.forecasts()["quality"] if one["age"] == "at submission"]
        except OSError:
            return False  # kube-proxy needs a moment to find the new pod
        return bool(judged)

    wait_until(is_judged, "a judgement")
    (one,) = judged  # of all jobs that have waited in the queue so far, also of other tests
    errors = [abs(was - will) for will, was in kept_forecasts(history).values()]
    assert abs(real - expected) in errors
    assert median(errors) == pytest.approx(one["medianError"])


def kept_forecasts(history: str) -> dict[str, tuple[float, float]]:
    """By job: when the first forecast after its submission expected its start, and when it really started."""
    with psycopg.connect(history) as connection:
        rows = connection.execute(
            "SELECT namespace, name, start_p50, started FROM maar_forecasts"
            " WHERE first AND age < 60 AND verdict = 'expected' AND started IS NOT NULL"
        ).fetchall()
    return {f"{namespace}/{name}": (expected, started) for namespace, name, expected, started in rows}
