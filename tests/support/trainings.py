"""Simulated trainings with hidden speeds on the embedded cluster: they train as fast as their pods run, and report.

The true speeds have another form than the one that Maar fits: computing and communication overlap, and communication
grows with the logarithm of workers and nodes. A training loses `RESTART` seconds when its workers change, and its
epochs differ by a few percent. Everything runs in one event loop, whose time passes only while nothing is left to do
(`quick_time`): hours take a minute, and a busy machine changes nothing. Only the HTTP process is left out; reports take
its way from the decoding of the request on.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from tests.support.live import GPU, NAMESPACE, Live, Seen, connected, scheduling
from tests.support.quick_time import still, wall

from maar.controller.settings.settings import Settings
from maar.elastic.steps import Basis
from maar.embedded.objects.metadata import CLOCK
from maar.embedded.parts.kubelets import Kubelets
from maar.embedded.parts.operators import TrainingOperator
from maar.embedded.server import EmbeddedServer, Part
from maar.history.estimates import Speeds
from maar.history.history import History
from maar.kube.client.errors import NotFound
from maar.kube.kinds.kubeflow import pytorchjob
from maar.web.front.routes import reports_in
from maar.web.measurements import take
from maar.web.messages import MeasurementBatch, Post

PYTORCH = pytorchjob.KIND.resource
NODES, GPUS = 4, 4
RESTART = 30.0
CONFIG = f"""
actions: "enqueue, allocate, resize"
tiers:
- plugins: [{{name: priority}}, {{name: gang}}]
- plugins: [{{name: predicates}}, {{name: proportion}}, {{name: binpack}}]
pools:
- name: default
  algorithm: price
  arguments: {{node: {GPUS}}}
  rate-limit: 0
  minimum-time: 0
  hysteresis: 0
  restart: {RESTART}
  pack: true
"""
TICK = 5.0
"""Seconds between two looks at the pods."""
EPOCH = 100.0
"""Seconds of an epoch on one worker, about."""
STEP = 1.0
"""Seconds of a step on one worker: jobs of a category differ in the number of steps, not in their length."""
BATCH = 32


@dataclass(frozen=True)
class Kind:
    """The hidden truth about the trainings of one category."""

    category: str
    inside: float
    """Seconds of communication for each doubling of the workers of a node, for a second of computing."""
    across: float
    """The same for each doubling of the nodes."""

    def speed(self, workers: int, nodes: int) -> float:
        """How many times faster than one worker."""
        each = math.ceil(workers / nodes)
        communication = self.inside * math.log2(each) + self.across * math.log2(nodes)
        return workers / math.hypot(1.0, communication)

    def truth(self, node: int = GPUS, most: int = NODES * GPUS) -> dict[int, float]:
        """The speed-up on the fewest nodes, for all sizes inside a node, and for whole nodes."""
        return {n: self.speed(n, math.ceil(n / node)) for n in (*range(1, node), *range(node, most + 1, node))}


KINDS = (
    Kind("even", 0.05, 0.15),
    Kind("good", 0.15, 0.4),
    Kind("fair", 0.4, 0.8),
    Kind("poor", 1.0, 1.5),
    Kind("flat", 1.5, 2.6),
)
"""Their speed-ups rise and flatten, so a curve of Maar (`maar.elastic.speedup`) can tell them: 5 % off at most."""


@dataclass
class Training:
    """One job."""

    name: str
    kind: Kind
    submit: float
    """Seconds after the beginning."""
    epochs: int
    epoch_seconds: float
    """On one worker."""
    most: int = 16
    dice: np.random.Generator = field(default_factory=np.random.default_rng)
    reports: list[dict[str, Any]] = field(default_factory=list)
    """Epochs that were not sent yet, as a request has them."""
    submitted: float = 0.0
    ended: float = 0.0
    epoch: int = 0
    part: float = 0.0
    """The part of the current epoch that is done."""
    pods: frozenset[str] = frozenset()
    workers: int = 0
    nodes: int = 1
    starts: float = 0.0
    """Until then it restarts."""
    worked: float = 0.0
    """Worker seconds in which it trained."""
    packed: float = 0.0
    """Those of them on the fewest nodes that hold its workers."""
    restarts: int = 0
    epoch_began: float = 0.0
    workers_then: int = 0
    noise: float = 1.0

    @property
    def left(self) -> float:
        """Seconds on one worker, after the last whole epoch: what reports tell."""
        return (self.epochs - self.epoch) * self.epoch_seconds

    def see(self, pods: Sequence[Seen], now: float) -> None:
        """Take the workers that run now; if others ran before, restart."""
        running = frozenset(pod.uid for pod in pods)
        if running != self.pods:
            self.pods, self.workers = running, len(pods)
            self.nodes = len({pod.node for pod in pods}) or 1
            self.starts = now + RESTART
            self.restarts += bool(running)
            self.epoch_began = 0.0 if self.part == 0.0 else self.epoch_began

    def train(self, before: float, now: float) -> None:
        """Train from one moment to another, and report each epoch that ends."""
        at = max(before, self.starts)
        while self.workers and at < now and not self.ended:
            if not self.epoch_began:
                self.epoch_began, self.workers_then = at, self.workers
                self.noise = float(np.exp(self.dice.normal(0.0, 0.05)))
            rate = self.kind.speed(self.workers, self.nodes) / (self.epoch_seconds * self.noise)
            end = at + (1.0 - self.part) / rate
            self._count(min(end, now) - at)
            if end > now:
                self.part += (now - at) * rate
                return
            self._report(end)
            self.epoch, self.part, self.epoch_began, at = self.epoch + 1, 0.0, 0.0, end
            if self.epoch == self.epochs:
                self.ended = end

    def _count(self, seconds: float) -> None:
        self.worked += seconds * self.workers
        self.packed += seconds * self.workers * (self.nodes == math.ceil(self.workers / GPUS))

    def _report(self, end: float) -> None:
        """Report an epoch, as `maar.report` does."""
        seconds = end - self.epoch_began
        steps = self.epoch_seconds / STEP / self.workers
        self.reports.append(
            {
                "epoch": self.epoch,
                "seconds": seconds,
                "started": self.epoch_began,
                "workers": self.workers,
                "workers_at_start": self.workers_then,
                "nodes": self.nodes,
                "total_epochs": self.epochs,
                "global_batch_size": BATCH * self.workers,
                "step_seconds": seconds / steps,
            }
        )


class Truthful(History):
    """A history that knows the truth instead of what was learnt."""

    def __init__(self, address: str, trainings: Sequence[Training]) -> None:
        super().__init__(address)
        self._trainings = {f"{NAMESPACE}/{training.name}": training for training in trainings}

    def speeds(self, job: str, category: str, accelerator: str) -> Speeds:
        truth = self._trainings[job].kind.truth()
        return Speeds(tuple(truth.items()), max(truth), Basis.POINTS)

    def remaining(
        self, job: str, category: str = "", accelerator: str = "", total_epochs: int | None = None
    ) -> float | None:
        return self._trainings[job].left


def workload(seed: int, jobs: int, span: float, work: float, epoch: float = EPOCH) -> list[Training]:
    """Jobs that arrive at random within `span` seconds; `work` is their median length on one worker, in seconds.

    `epoch` is about the length of an epoch on one worker.
    """
    dice = np.random.default_rng(seed)
    trainings = []
    for number, submit in enumerate(np.sort(dice.uniform(0.0, span, jobs)).tolist()):
        kind = KINDS[int(dice.integers(len(KINDS)))]
        seconds = float(np.clip(dice.lognormal(math.log(work), 0.8), work / 4, work * 6))
        epochs = max(round(seconds / epoch), 4)
        trainings.append(
            Training(
                *(f"{kind.category}-{number}", kind, submit, epochs, seconds / epochs),
                dice=np.random.default_rng((seed, number)),
            )
        )
    return trainings


async def play(folder: Path, trainings: Sequence[Training], *, learns: bool) -> History:
    """Run all trainings under Maar to their ends, in a loop of `quick_time`; returns the history."""
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "config.yaml"
    config.write_text(CONFIG)
    CLOCK.set(wall)
    parts: list[Part] = [Kubelets(start=2.0, stop=2.0), TrainingOperator()]
    server = EmbeddedServer(parts=parts, bookmark_seconds=15.0)
    server.faults.cut_watches_every = math.inf  # not even looked at: each look would take a moment of real time
    async with server, connected(server.kubeconfig(folder / "kubeconfig")) as live:
        await live.nodes(NODES, gpu=GPUS)
        address = str(folder / "history.db")
        history = History(address) if learns else Truthful(address, trainings)
        history.start()
        try:
            async with scheduling(live, Settings(), config, history=history, clock=wall):
                await _train(live, history, trainings)
        finally:
            await still(history.close())
    return history


def _send(history: History, training: Training) -> None:
    """Send reports; those that are refused are sent again later."""
    if training.reports:
        reports = reports_in(json.dumps(training.reports).encode())
        (problem,) = take(history, MeasurementBatch([Post(NAMESPACE, training.name, reports)]), wall()).problems
        if not problem:
            training.reports.clear()


async def _train(live: Live, history: History, trainings: Sequence[Training]) -> None:
    """Submit trainings, let them train, and end them, until all have ended."""
    begin = before = wall()
    coming, there = list(trainings), list[Training]()
    while coming or there:
        now = wall()
        while coming and begin + coming[0].submit <= now:
            there.append(coming.pop(0))
            there[-1].submitted = now
            await _submit(live, there[-1])
        pods: dict[str, list[Seen]] = {}
        for pod in await live.pods():
            if pod.phase == "Running" and not pod.leaving:
                pods.setdefault(pod.name.rpartition("-worker-")[0], []).append(pod)
        now = wall()
        for training in there:
            training.train(before, now)
            _send(history, training)
            training.see(pods.get(training.name, ()), now)
            if training.ended:
                await _finish(live, training)
        there = [training for training in there if not training.ended]
        await still(history.settled())  # its thread has read and written everything
        before = now
        await asyncio.sleep(TICK)


async def _submit(live: Live, training: Training) -> None:
    asks = {"requests": {"cpu": "100m"}, "limits": {GPU: "1"}}
    pod = {"schedulerName": "maar", "containers": [{"name": "pytorch", "image": "train", "resources": asks}]}
    worker = {"replicas": 1, "restartPolicy": "OnFailure", "template": {"spec": pod}}
    says = {"maar.dev/category": training.kind.category, "maar.dev/epochs": str(training.epochs)}
    job: dict[str, Any] = {
        "apiVersion": PYTORCH.api_version,
        "kind": PYTORCH.kind,
        "metadata": {"name": training.name, "namespace": NAMESPACE, "annotations": says},
        "spec": {
            "runPolicy": {"suspend": True, "cleanPodPolicy": "All"},
            "elasticPolicy": {"minReplicas": 1, "maxReplicas": training.most},
            "pytorchReplicaSpecs": {"Worker": worker},
        },
    }
    await live.api.create(PYTORCH.path(NAMESPACE), job)


async def _finish(live: Live, training: Training) -> None:
    for pod in await live.pods():
        if pod.name.startswith(f"{training.name}-worker-") and pod.node:
            with suppress(NotFound):
                await live.pod_status(pod.name, phase="Succeeded")


def mean_completion(trainings: Sequence[Training]) -> float:
    return sum(training.ended - training.submitted for training in trainings) / len(trainings)
