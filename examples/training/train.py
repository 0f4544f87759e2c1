"""An elastic training on CPU: a small network, trained by as many processes as Maar gives it.

    python train.py --folder /tmp/run --rank 0 &       # the coordinator; it computes too
    python train.py --folder /tmp/run --rank 1 &       # one more worker, at any time
    python train.py --folder /tmp/run --show           # the epochs so far

In an Indexed Job the rank is JOB_COMPLETION_INDEX. Workers find the coordinator by a file in the folder that all share,
so no DNS is needed. Every step has the same number of samples whatever the number of workers is: workers share them.
So the training gives the same result on any number of workers, but it takes longer on few.

- A worker that comes is given its part from the next step on. For a worker that goes, the coordinator computes its part.
- On SIGTERM a worker ends after its step. The coordinator first writes a checkpoint.
- A coordinator that starts continues from the checkpoint, in the middle of an epoch too.

It needs numpy and `maar.report`, which is one file: without Maar in your image, copy src/maar/report.py beside this one.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

try:
    from maar.report import Reporter
except ImportError:
    from report import Reporter

Array = np.ndarray[Any, np.dtype[np.float32]]

INPUTS, CLASSES = 64, 10
LEARNING_RATE, MOMENTUM = 0.02, 0.9
STEP_S = 30.0
"""Seconds after which a worker that does not answer counts as gone."""
PATIENCE_S = 300.0
"""Seconds for which a worker looks for a coordinator."""
STOPPED = 128 + signal.SIGTERM
"""The exit code after SIGTERM. It is not 0: the Job would count the worker as complete."""


# The model: two layers, and the gradient of the cross entropy. All parameters are one vector, which is easy to send.


@dataclass(frozen=True)
class Network:
    """The sizes of a network with one hidden layer."""

    hidden: int

    @property
    def size(self) -> int:
        return INPUTS * self.hidden + self.hidden * CLASSES

    def initial(self, seed: int) -> Array:
        draw = np.random.default_rng(seed).standard_normal
        scales = np.repeat([INPUTS**-0.5, self.hidden**-0.5], [INPUTS * self.hidden, self.hidden * CLASSES])
        return (draw(self.size) * scales).astype(np.float32)

    def layers(self, weights: Array) -> tuple[Array, Array]:
        cut = INPUTS * self.hidden
        return weights[:cut].reshape(INPUTS, self.hidden), weights[cut:].reshape(self.hidden, CLASSES)

    def outputs(self, weights: Array, inputs: Array) -> tuple[Array, Array]:
        """The hidden layer and the scores of each class."""
        first, second = self.layers(weights)
        active = np.maximum(inputs @ first, 0)
        return active, active @ second

    def gradient(self, weights: Array, inputs: Array, labels: Array) -> tuple[Array, float]:
        """The sum over these samples of the gradients and of the losses."""
        active, scores = self.outputs(weights, inputs)
        scores -= scores.max(axis=1, keepdims=True)
        chances = np.exp(scores)
        chances /= chances.sum(axis=1, keepdims=True)
        rows = np.arange(len(labels))
        loss = -float(np.log(chances[rows, labels] + 1e-9).sum())
        chances[rows, labels] -= 1
        _, second = self.layers(weights)
        below = (chances @ second.T) * (active > 0)
        return np.concatenate([(inputs.T @ below).ravel(), (active.T @ chances).ravel()]), loss


def samples(count: int) -> tuple[Array, Array]:
    """Generated data: the labels come from another network. Every worker generates the same."""
    teacher = Network(hidden=16)
    inputs = np.random.default_rng(1).standard_normal((count, INPUTS)).astype(np.float32)
    _, scores = teacher.outputs(teacher.initial(seed=2), inputs)
    return inputs, scores.argmax(axis=1)


# What is saved. The epochs are part of the checkpoint: one file, replaced at once, cannot contradict itself.


@dataclass
class Progress:
    """Where the training is."""

    weights: Array
    velocity: Array
    epoch: int = 0
    step: int = 0
    loss: float = 0.0  # sum over the samples of this epoch
    finished: bool = False
    epochs: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def load(cls, folder: Path, network: Network) -> Progress:
        """The last checkpoint, or a start."""
        try:
            with np.load(folder / "checkpoint.npz") as saved:
                rest = json.loads(str(saved["rest"]))
                return cls(weights=saved["weights"], velocity=saved["velocity"], **rest)
        except FileNotFoundError:
            return cls(network.initial(seed=0), np.zeros(network.size, np.float32))

    def save(self, folder: Path) -> None:
        rest = {name: getattr(self, name) for name in ("epoch", "step", "loss", "finished", "epochs")}
        with (folder / "checkpoint.tmp").open("wb") as file:
            np.savez(file, weights=self.weights, velocity=self.velocity, rest=np.array(json.dumps(rest)))
            file.flush()
            os.fsync(file.fileno())
        (folder / "checkpoint.tmp").replace(folder / "checkpoint.npz")


# What is sent: a line of JSON, then an array.


def send(stream: BinaryIO, array: Array | None = None, **head: Any) -> None:
    data = b"" if array is None else array.astype(np.float32).tobytes()
    stream.write(json.dumps({**head, "bytes": len(data)}).encode() + b"\n" + data)
    stream.flush()


def receive(stream: BinaryIO) -> tuple[dict[str, Any], Array]:
    line = stream.readline(4096)
    if not line.endswith(b"\n"):
        raise ConnectionError("the connection was closed")
    head = json.loads(line)
    data = stream.read(head["bytes"])
    if len(data) != head["bytes"]:
        raise ConnectionError("the connection was closed")
    return head, np.frombuffer(data, np.float32)


class Stopping:
    """Whether this process was asked to end."""

    def __init__(self) -> None:
        self.asked = False
        signal.signal(signal.SIGTERM, self._ask)

    def _ask(self, *_: object) -> None:
        self.asked = True
        print("asked to end", flush=True)


class Training:
    """What all workers know: the model and the data."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.network = Network(options.hidden)
        self.batch: int = options.batch
        self.inputs, self.labels = samples(options.samples)
        self.steps: int = options.samples // options.batch

    def part(self, epoch: int, step: int, begin: int, end: int) -> Array:
        """Some of the samples of one step. Every epoch has another order, which is the same on every worker."""
        order = np.random.default_rng([3, epoch]).permutation(len(self.inputs))
        return order[step * self.batch + begin : step * self.batch + end]

    def gradient(self, weights: Array, epoch: int, step: int, begin: int, end: int) -> tuple[Array, float]:
        chosen = self.part(epoch, step, begin, end)
        return self.network.gradient(weights, self.inputs[chosen], self.labels[chosen])


class Members:
    """The other workers. A thread accepts new ones at any time."""

    def __init__(self, folder: Path, address: str) -> None:
        self._streams: dict[int, BinaryIO] = {}
        self._lock = threading.Lock()
        self._server = socket.create_server(("", 0))
        (folder / "coordinator.tmp").write_text(f"{address} {self._server.getsockname()[1]}")
        (folder / "coordinator.tmp").replace(folder / "coordinator")
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            connection, _ = self._server.accept()
            connection.settimeout(STEP_S)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            stream = connection.makefile("rwb")
            try:
                rank = int(receive(stream)[0]["rank"])
            except (OSError, ValueError, KeyError):
                connection.close()
                continue
            with self._lock:
                self._streams[rank] = stream
            print(f"worker {rank} joined", flush=True)

    def now(self) -> dict[int, BinaryIO]:
        with self._lock:
            return dict(sorted(self._streams.items()))

    def drop(self, rank: int, stream: BinaryIO) -> None:
        with self._lock:
            if self._streams.get(rank) is stream:
                del self._streams[rank]
        print(f"worker {rank} left", flush=True)

    def count(self) -> int:
        """All workers, with the coordinator."""
        return len(self.now()) + 1

    def dismiss(self) -> None:
        """Tell all that the training is finished."""
        for stream in self.now().values():
            try:
                send(stream, what="finished")
            except OSError:
                pass  # it left a moment ago


def one_step(training: Training, progress: Progress, members: Members) -> None:
    """Share the samples of one step, add the gradients up, and move the weights."""
    at = progress.epoch, progress.step
    others = members.now()
    bounds = np.linspace(0, training.batch, len(others) + 2).astype(int).tolist()
    parts = dict(zip([0, *others], zip(bounds, bounds[1:], strict=False), strict=True))
    for rank, stream in others.items():
        try:
            send(stream, progress.weights, what="step", at=[*at, *parts[rank]])
        except OSError:
            pass  # the answer below is missing too
    gradient, loss = training.gradient(progress.weights, *at, *parts[0])
    for rank, stream in others.items():
        try:
            head, sent = receive(stream)
            gradient, loss = gradient + sent, loss + head["loss"]
        except (OSError, ValueError):
            members.drop(rank, stream)
            own, more = training.gradient(progress.weights, *at, *parts[rank])
            gradient, loss = gradient + own, loss + more
    progress.velocity = MOMENTUM * progress.velocity - LEARNING_RATE * gradient / training.batch
    progress.weights = progress.weights + progress.velocity
    progress.loss += loss
    progress.step += 1


def coordinate(training: Training, options: argparse.Namespace, stopping: Stopping) -> int:
    """Rank 0: train until all epochs are done, or until this process is asked to end."""
    folder: Path = options.folder
    progress = Progress.load(folder, training.network)
    members = Members(folder, options.address)
    reporter = Reporter(total_epochs=options.epochs, workers=members.count, rank=0)
    print(f"begin at epoch {progress.epoch}, step {progress.step}", flush=True)
    while progress.epoch < options.epochs:
        began, complete = time.time(), progress.step == 0
        if complete:  # the duration of a part of an epoch says nothing
            reporter.start_epoch(progress.epoch)
        while progress.step < training.steps and not stopping.asked:
            one_step(training, progress, members)
        if progress.step < training.steps:
            progress.save(folder)
            print(f"saved at epoch {progress.epoch}, step {progress.step}", flush=True)
            return STOPPED
        if complete:
            reporter.end_epoch(training.steps)
        entry = {
            "epoch": progress.epoch,
            "loss": progress.loss / (training.steps * training.batch),
            "workers": members.count(),
            "seconds": time.time() - began,
            "ended": time.time(),
        }
        print("epoch {epoch}: loss {loss:.4f}, {workers} workers, {seconds:.2f} s".format(**entry), flush=True)
        progress.epochs.append(entry)
        progress.epoch, progress.step, progress.loss = progress.epoch + 1, 0, 0.0
        progress.finished = progress.epoch >= options.epochs
        progress.save(folder)
    members.dismiss()
    reporter.flush()
    return 0


def join(training: Training, options: argparse.Namespace, stopping: Stopping) -> int:
    """All other ranks: compute what the coordinator asks for, and look for a new one when it is gone."""
    deadline = time.monotonic() + PATIENCE_S
    while not stopping.asked and time.monotonic() < deadline:
        if Progress.load(options.folder, training.network).finished:
            return 0
        try:
            address, _, port = (options.folder / "coordinator").read_text().partition(" ")
            with socket.create_connection((address, int(port)), timeout=5) as connection:
                connection.settimeout(STEP_S)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                stream = connection.makefile("rwb")
                send(stream, rank=options.rank)
                while not stopping.asked:
                    head, weights = receive(stream)
                    if head["what"] == "finished":
                        return 0
                    gradient, loss = training.gradient(weights, *head["at"])
                    send(stream, gradient, loss=loss)
                    deadline = time.monotonic() + PATIENCE_S
        except (OSError, ValueError):
            time.sleep(0.2)  # not there yet, or gone
    if not stopping.asked:
        print(f"no coordinator within {PATIENCE_S:g} s", file=sys.stderr)
        return 1
    return STOPPED


def show(folder: Path) -> int:
    """Print the epochs of the last checkpoint."""
    if not (folder / "checkpoint.npz").is_file():
        print(f"no checkpoint in `{folder}`", file=sys.stderr)
        return 1
    print("epoch  loss    workers  seconds")
    for entry in Progress.load(folder, Network(1)).epochs:
        print("{epoch:<5}  {loss:.4f}  {workers:<7}  {seconds:.2f}".format(**entry))
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Train a small network with as many workers as there are.")
    parser.add_argument("--folder", type=Path, required=True, help="where all workers see the same files")
    parser.add_argument("--rank", type=int, default=int(os.environ.get("JOB_COMPLETION_INDEX", "0")))
    parser.add_argument("--address", default=os.environ.get("POD_IP", "127.0.0.1"), help="where workers reach rank 0")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--samples", type=int, default=40960, help="samples of an epoch")
    parser.add_argument("--batch", type=int, default=4096, help="samples of a step, whatever the number of workers is")
    parser.add_argument("--hidden", type=int, default=512, help="size of the hidden layer")
    parser.add_argument("--show", action="store_true", help="print the epochs so far, and do nothing else")
    options = parser.parse_args()
    if options.show:
        return show(options.folder)
    if not 0 < options.batch <= options.samples:
        parser.error(f"--batch: expected a number from 1 to {options.samples}, got {options.batch}")
    options.folder.mkdir(parents=True, exist_ok=True)
    stopping = Stopping()
    training = Training(options)
    return (coordinate if options.rank == 0 else join)(training, options, stopping)


if __name__ == "__main__":
    sys.exit(main())
