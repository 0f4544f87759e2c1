"""Report the duration of epochs to Maar, from within a training script.

    from maar.report import Reporter

    reporter = Reporter(total_epochs=90)
    for epoch in reporter.epochs(90):
        train(epoch)

With PyTorch it can also measure the gradient noise scale, which says how much larger batches help:

    optimizer.register_step_pre_hook(reporter.noise(model, batch_size=32))

This file needs only Python 3.8: copy it beside your script if Maar is not installed in your image. It imports nothing
else from Maar, and does nothing unless it knows an address (`url`, or MAAR_URL) and the name of the job.

It never makes a training fail: nothing here raises, a report that cannot be sent is dropped, a separate thread with
short timeouts sends, and the end of the program waits for it for at most one second.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib
import json
import logging
import math
import operator
import os
import re
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, TypeVar

    F = TypeVar("F", bound=Callable[..., Any])

logger = logging.getLogger("maar.report")

TIMEOUT = 2.0
"""Seconds for a connection, and for each response."""
WAITING = 64
"""Maximum reports that wait to be sent; the oldest are dropped."""
LARGEST = 1e15
SIZES = 64
"""The largest noise scale and goodput, and the most sizes of a goodput, that Maar accepts."""
FAREWELL = 1.0
"""Maximum seconds that the end of the program waits for the last report."""
NAMESPACE_FILE = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
TOKEN_FILES = ("/var/run/secrets/maar/token", "/var/run/secrets/kubernetes.io/serviceaccount/token")
"""A token for Maar only, if the pod mounts one; else the token that every pod has."""

SIZE = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "HOROVOD_SIZE", "PMI_SIZE")
LOCAL_SIZE = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "HOROVOD_LOCAL_SIZE", "MPI_LOCALNRANKS")
RANK = ("RANK", "OMPI_COMM_WORLD_RANK", "HOROVOD_RANK", "PMI_RANK")
POD = re.compile(r"-(?:master|worker|launcher|chief|ps)(?:-[a-z0-9]+)?$")
"""The suffix that training operators append to the name of a job to name its pods."""


def _quietly(function: F) -> F:
    """Never raise: errors are logged, the first at WARNING and the others at DEBUG."""

    @functools.wraps(function)
    def quiet(self: Reporter, *args: Any, **kwargs: Any) -> Any:
        try:
            return function(self, *args, **kwargs)
        except Exception as error:  # noqa: BLE001 a report must never stop a training
            self._complain("%s: %r", function.__name__, error)
            return None

    return quiet  # type: ignore[return-value]


class Reporter:
    """Reports of one job. Only rank 0 sends.

    Missing arguments come from the environment: `url` from MAAR_URL, `job` from MAAR_JOB, JOB_NAME or the pod's name,
    `namespace` from MAAR_NAMESPACE or the service account, `workers` (pods, not processes: a number or a function) from
    torch.distributed if it is initialized, else from the variables of torchrun and mpirun, `token` from MAAR_TOKEN,
    the file MAAR_TOKEN_FILE, or the pod's service account, which is enough. Maar usually knows the category
    (MAAR_CATEGORY), the accelerator (MAAR_ACCELERATOR) and the nodes (`nodes` or MAAR_NODES: how many; a number or a
    function).

    `noise_scale` and `goodput` may be set at any time, to a value or a function; the next reports have them. `goodput`
    is the progress per second by number of workers, in any unit, as adaptive frameworks know it: `{1: 10.0, 2: 18.5}`.
    """

    def __init__(
        self,
        url: str | None = None,
        job: str | None = None,
        namespace: str | None = None,
        total_epochs: int | None = None,
        workers: int | Callable[[], int] | None = None,
        local_batch_size: int | None = None,
        global_batch_size: int | None = None,
        category: str | None = None,
        accelerator: str | None = None,
        token: str | None = None,
        rank: int | Callable[[], int] | None = None,
        timeout: float = TIMEOUT,
        nodes: int | Callable[[], int] | None = None,
    ) -> None:
        self.total_epochs = total_epochs
        self.noise_scale: float | Callable[[], float | None] | None = None
        self.goodput: dict[int, float] | Callable[[], dict[int, float] | None] | None = None
        self.local_batch_size = local_batch_size
        self.global_batch_size = global_batch_size
        self._category = category
        self._accelerator = accelerator
        self._workers = workers
        self._nodes = nodes
        self._rank = rank
        self._hvd: Any = None
        self._complained = False
        self._epoch: tuple[Any, float, float, int] | None = None
        self._sender: _Sender | None = None
        self._set_up(url, job, namespace, token, timeout)

    @_quietly
    def _set_up(
        self, url: str | None, job: str | None, namespace: str | None, token: str | None, timeout: float
    ) -> None:
        env = os.environ
        url = url or env.get("MAAR_URL")
        job = job or env.get("MAAR_JOB") or env.get("JOB_NAME") or _job_of_pod(env.get("HOSTNAME", ""))
        if job and "/" in job:
            namespace, _, job = job.partition("/")
        namespace = namespace or env.get("MAAR_NAMESPACE") or _read(NAMESPACE_FILE) or "default"
        self._category = self._category or env.get("MAAR_CATEGORY")
        self._accelerator = self._accelerator or env.get("MAAR_ACCELERATOR")
        if not url or not job:
            logger.debug("no address (MAAR_URL) or no job (MAAR_JOB): nothing is reported")
            return
        if not url.startswith(("http://", "https://")):
            raise ValueError("MAAR_URL is not an HTTP address: " + url)
        namespace, job = urllib.parse.quote(namespace, ""), urllib.parse.quote(job, "")
        path = f"/v1/jobs/{namespace}/{job}/measurements"
        token = token or env.get("MAAR_TOKEN")
        files = (env["MAAR_TOKEN_FILE"],) if env.get("MAAR_TOKEN_FILE") else TOKEN_FILES
        self._sender = _Sender(url.rstrip("/") + path, token, files, float(timeout), self._complain)

    # -- epochs

    def epochs(self, epochs: int | Iterable[int]) -> Iterator[int]:
        """`for epoch in reporter.epochs(90)`: like `range(90)`, and each completed epoch is reported.

        It also takes a range or any other iterable: `reporter.epochs(range(first, 90))` after a checkpoint.
        """
        with contextlib.suppress(TypeError):  # not a number
            epochs = range(operator.index(epochs))  # type: ignore[arg-type]
        if self.total_epochs is None and isinstance(epochs, range) and epochs:
            self.total_epochs = epochs[-1] + 1
        for epoch in epochs:  # type: ignore[union-attr]
            with self.epoch(epoch):  # A `break` in the loop raises GeneratorExit here.
                yield epoch

    def epoch(self, epoch: int, steps: int | None = None) -> _Epoch:
        """`with reporter.epoch(3): ...`; an epoch that raises is not reported."""
        return _Epoch(self, epoch, steps)

    @_quietly
    def start_epoch(self, epoch: int) -> None:
        """Start the clock of an epoch; the first one is 0."""
        self._epoch = None
        self._epoch = (epoch, time.time(), time.perf_counter(), self._count_workers())

    @_quietly
    def end_epoch(self, steps: int | None = None) -> None:
        """Report the epoch that was started."""
        if self._epoch is None:
            return
        (epoch, started, begin, workers), self._epoch = self._epoch, None
        self.report(epoch, time.perf_counter() - begin, started=started, workers_at_start=workers, steps=steps)

    @_quietly
    def report(
        self,
        epoch: int,
        seconds: float,
        started: float | None = None,
        workers_at_start: int | None = None,
        steps: int | None = None,
    ) -> None:
        """Report an epoch that was measured elsewhere."""
        if self._sender is None or self._get_rank() != 0:
            return
        workers = self._count_workers()
        nodes = _now(self._nodes)
        if nodes is None and os.environ.get("MAAR_NODES"):
            nodes = int(os.environ["MAAR_NODES"])
        local, every = self.local_batch_size, self.global_batch_size
        if every is None and local is not None:
            every = int(local) * self._get_size()
        fields = {
            "epoch": int(epoch),
            "seconds": float(seconds),
            "workers": workers,
            "resized": workers_at_start is not None and workers_at_start != workers,
            "started": time.time() - seconds if started is None else started,
            "total_epochs": None if self.total_epochs is None else int(self.total_epochs),
            "local_batch_size": None if local is None else int(local),
            "global_batch_size": None if every is None else int(every),
            "step_seconds": seconds / steps if steps else None,
            "nodes": None if nodes is None else int(nodes),
            "noise_scale": self._get_noise_scale(),
            "goodput": self._get_goodput(),
            "category": self._category,
            "accelerator": self._accelerator,
        }
        self._sender.put(json.dumps({n: v for n, v in fields.items() if v is not None}, allow_nan=False))

    @_quietly
    def _get_noise_scale(self) -> float | None:
        """What is known; without it, the report is sent all the same."""
        noise = _now(self.noise_scale)
        return None if noise is None or not 0 <= float(noise) <= LARGEST else float(noise)

    @_quietly
    def _get_goodput(self) -> dict[str, float] | None:
        speeds = {int(n): float(speed) for n, speed in (_now(self.goodput) or {}).items()}
        good = sorted((n, speed) for n, speed in speeds.items() if n >= 1 and 0 < speed <= LARGEST)
        return {str(n): speed for n, speed in good[:SIZES]} or None

    @_quietly
    def flush(self, seconds: float = FAREWELL) -> None:
        """Wait until all reports are sent, but at most `seconds`."""
        if self._sender is not None:
            self._sender.flush(min(float(seconds), threading.TIMEOUT_MAX))

    # -- frameworks

    def horovod(self, hvd: Any) -> Reporter:
        """Ask Horovod for rank and size, which may change at any time: `reporter = Reporter().horovod(hvd)`."""
        self._hvd = hvd
        return self

    def keras(self) -> Any:
        """A callback for `model.fit(..., callbacks=[reporter.keras()])`; without Keras, it does nothing."""
        try:
            base = _keras().callbacks.Callback
            return _keras_callback(base)(self)
        except Exception as error:  # noqa: BLE001 a report must never stop a training
            self._complain("cannot make a callback for Keras: %r", error)
            return _Silent()

    def noise(self, model: Any, batch_size: int | None = None, every: int = 10) -> Any:
        """Measure the gradient noise scale of a PyTorch model, and report it.

        Call the result after the backward passes of a step and before the gradients are clipped or used, or let the
        optimizer do it: `optimizer.register_step_pre_hook(reporter.noise(model, batch_size=32))`. `batch_size` is that
        of one backward pass in one process. One of `every` steps is measured. `NoiseScale` says how.
        """
        try:
            size = batch_size if batch_size is not None else self.local_batch_size
            if size is None:
                raise ValueError("the batch size is not known: noise(model, batch_size=32)")
            noise = NoiseScale(model.parameters(), size, self._get_size, every, self._complain)
        except Exception as error:  # noqa: BLE001 a report must never stop a training
            self._complain("cannot measure the noise scale: %r", error)
            return lambda *args, **kwargs: None
        self.noise_scale = noise.value
        return noise

    # -- rank and size

    def _get_size(self) -> int:
        if self._hvd is not None:
            return int(self._hvd.size())
        torch = _torch()
        if torch is not None:
            return int(torch.get_world_size())
        pods = 1 if self._workers is None else self._count_workers() * _from_env(LOCAL_SIZE, 1)
        return _from_env(SIZE, pods)

    def _count_workers(self) -> int:
        """Number of pods: processes divided by processes per pod."""
        if self._workers is not None:
            return int(self._workers() if callable(self._workers) else self._workers)
        local = int(self._hvd.local_size()) if self._hvd is not None else _from_env(LOCAL_SIZE, 1)
        return max(1, self._get_size() // max(1, local))

    def _get_rank(self) -> int:
        if self._rank is not None:
            return int(self._rank() if callable(self._rank) else self._rank)
        if self._hvd is not None:
            return int(self._hvd.rank())
        torch = _torch()
        return int(torch.get_rank()) if torch is not None else _from_env(RANK, 0)

    def _complain(self, message: str, *args: Any) -> None:
        logger.log(logging.DEBUG if self._complained else logging.WARNING, message, *args)
        self._complained = True


class NoiseScale:
    """The gradient noise scale of a PyTorch model: the batch size at which noise and gradient are equal, in samples.

    It compares the squared norm of gradients of small and large batches (McCandlish et al., 2018). The small batch is
    that of one backward pass in this process, seen by hooks before the processes exchange gradients. The large one is
    that of the whole step: all processes and all backward passes. If both are the same, the large one is the mean with
    the gradient of the step before, which is kept for that. Gradients that are split between processes (FSDP) do not
    work. It never raises, and needs no other part of PyTorch than hooks, gradients and sums.
    """

    KEPT = 0.95
    """Weight of the past in the running means. Tuned by hand: about the last 20 measured steps count."""

    def __init__(
        self,
        parameters: Iterable[Any],
        batch_size: int,
        processes: Callable[[], int],
        every: int = 10,
        complain: Callable[..., None] = logger.warning,
    ) -> None:
        self._parameters = [p for p in parameters if p.requires_grad]
        self._batch = float(batch_size)
        self._processes = processes
        self._every = max(1, int(every))
        self._complain = complain
        self._steps = 0
        self._squares: Any = 0.0
        self._passes = 0
        self._before: list[Any] | None = None
        self._noise = _Mean(self.KEPT)
        self._signal = _Mean(self.KEPT)
        for number, parameter in enumerate(self._parameters):
            parameter.register_hook(self._counted if number == 0 else self._seen)

    def value(self) -> float | None:
        """The noise scale; None as long as it is not clear."""
        noise, signal = self._noise.value(), self._signal.value()
        if noise is None or signal is None or noise <= 0 or signal <= 0:
            return None
        return noise / signal

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """A step: all its backward passes are done, and its gradients are not used yet."""
        try:
            self._step()
        except Exception as error:  # noqa: BLE001 a report must never stop a training
            self._complain("cannot measure the noise scale: %r", error)
        self._squares, self._passes = 0.0, 0
        self._steps += 1

    def _is_measured(self, step: int) -> bool:
        return step % self._every == 0

    def _counted(self, gradient: Any) -> None:
        self._passes += 1
        self._seen(gradient)

    def _seen(self, gradient: Any) -> None:
        if self._is_measured(self._steps):
            self._squares = self._squares + _square(gradient)

    def _step(self) -> None:
        gradients = [p.grad for p in self._parameters if p.grad is not None]
        passes, parts = self._passes, self._passes * self._processes()
        if not gradients or not passes:
            return
        if parts > 1:
            if self._is_measured(self._steps):
                # The gradient of the step is the sum of its passes, whether or not the loss is divided by their number.
                large = float(sum(map(_square, gradients))) / passes**2
                self._learn(float(self._squares) / passes, large, parts)
        elif self._is_measured(self._steps) and self._before is not None and len(self._before) == len(gradients):
            pairs = list(zip(self._before, gradients))  # noqa: B905, new in Python 3.10
            small = float(sum(_square(old) + _square(new) for old, new in pairs)) / 2
            self._learn(small, float(sum(_square(old + new) for old, new in pairs)) / 4, 2)
            self._before = None
        elif self._is_measured(self._steps + 1):
            self._before = [gradient.detach().clone() for gradient in gradients]

    def _learn(self, small: float, large: float, parts: int) -> None:
        """Learn from squared norms of gradients of a small batch, and of one that has `parts` times as many samples."""
        noise = (small - large) * self._batch * parts / (parts - 1)
        signal = (parts * large - small) / (parts - 1)
        if math.isfinite(noise) and math.isfinite(signal):  # loss scaling makes infinite gradients now and then
            self._noise.add(noise)
            self._signal.add(signal)


class _Mean:
    """A running mean in which old values fade."""

    def __init__(self, kept: float) -> None:
        self._kept = kept
        self._sum = 0.0
        self._weight = 0.0

    def add(self, value: float) -> None:
        self._sum = self._kept * self._sum + value
        self._weight = self._kept * self._weight + 1.0

    def value(self) -> float | None:
        return self._sum / self._weight if self._weight else None


def _square(gradient: Any) -> Any:
    """The squared norm, left where the gradient is: the processor does not wait for a GPU."""
    gradient = gradient.detach().float()
    return (gradient * gradient).sum()


class _Epoch:
    def __init__(self, reporter: Reporter, epoch: int, steps: int | None) -> None:
        self._reporter = reporter
        self._number = epoch
        self._steps = steps

    def __enter__(self) -> _Epoch:
        self._reporter.start_epoch(self._number)
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            self._reporter.end_epoch(self._steps)
        else:
            self._reporter._epoch = None


class _Sender:
    """The thread that sends, started with the first report; failed reports are sent again with the next one."""

    def __init__(
        self, url: str, token: str | None, files: tuple[str, ...], timeout: float, complain: Callable[..., None]
    ) -> None:
        self._url = url
        self._token = token
        self._files = files
        self._timeout = timeout
        self._complain = complain
        self._open = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirects).open
        self._changed = threading.Condition()
        self._waiting: deque[str] = deque(maxlen=WAITING)
        self._fresh = False
        self._busy = False
        self._process = 0

    def put(self, report: str) -> None:
        if self._process == 0:
            self._process = os.getpid()
            threading.Thread(target=self._run, name="maar-report", daemon=True).start()
            atexit.register(self.flush, FAREWELL)
        if self._process != os.getpid():
            return  # A fork, for example of a data loader, has no thread and nothing to report.
        with self._changed:
            self._waiting.append(report)
            self._fresh = True
            self._changed.notify_all()

    def flush(self, seconds: float) -> None:
        if self._process != os.getpid():
            return
        deadline = time.monotonic() + seconds
        if not self._changed.acquire(timeout=seconds):
            return
        try:
            while self._fresh or self._busy:
                left = deadline - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    return
        finally:
            self._changed.release()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._fresh:
                    self._changed.wait()
                reports = list(self._waiting)
                self._waiting.clear()
                self._fresh, self._busy = False, True
            try:
                done = self._send(reports)
            except Exception as error:  # noqa: BLE001 a report must never stop a training
                self._complain("cannot send reports: %r", error)
                done = False
            with self._changed:
                if not done:
                    kept = reports + list(self._waiting)
                    self._waiting.clear()
                    self._waiting.extend(kept)
                self._busy = False
                self._changed.notify_all()

    def _send(self, reports: list[str]) -> bool:
        """Whether the reports are done: sent, or refused for good."""
        body = ("[" + ",".join(reports) + "]").encode()
        headers = {"Content-Type": "application/json", "User-Agent": "maar-report"}
        # The files are read each time, because the kubelet renews tokens.
        token = self._token or next(filter(None, map(_read, self._files)), None)
        if token:
            headers["Authorization"] = "Bearer " + token
        request = urllib.request.Request(self._url, body, headers, method="POST")  # noqa: S310 the address is checked before
        try:
            with self._open(request, timeout=self._timeout) as answer:
                answer.read(1024)
                return True
        except urllib.error.HTTPError as error:
            reason = error.read(1024).decode("utf-8", "replace")
            error.close()
            self._complain("reports refused: %s %s", error.code, reason)
            return error.code < 500 and error.code not in (408, 425, 429)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirects: the token is for Maar alone."""

    def redirect_request(self, *args: Any) -> None:
        return None


class _Silent:
    """Replaces a callback: every method does nothing."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: None


def _keras_callback(base: Any) -> Any:
    class MaarCallback(base):  # type: ignore[misc]
        def __init__(self, reporter: Reporter) -> None:
            super().__init__()
            self.reporter = reporter

        def on_train_begin(self, logs: Any = None) -> None:
            if self.reporter.total_epochs is None:
                self.reporter.total_epochs = _param(self, "epochs")

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.reporter.start_epoch(epoch)

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.reporter.end_epoch(_param(self, "steps"))

    return MaarCallback


def _keras() -> Any:
    """The Keras that the script uses: the imported one, else an installed one."""
    for name in ("keras", "tensorflow.keras"):
        if name in sys.modules:
            return sys.modules[name]
    try:
        return importlib.import_module("keras")
    except ImportError:
        return importlib.import_module("tensorflow").keras


def _param(callback: Any, name: str) -> Any:
    """One of the parameters that Keras passes to its callbacks, if it did."""
    params = getattr(callback, "params", None)
    return params.get(name) if isinstance(params, dict) else None


def _now(value: Any) -> Any:
    """A value, or what a function returns now."""
    return value() if callable(value) else value


def _torch() -> Any:
    """torch.distributed, if the script uses it and it is initialized."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed
    return None


def _from_env(names: tuple[str, ...], otherwise: int) -> int:
    """The first variable that is set. Raises if it is not a number: no report is better than a wrong one."""
    return next((int(os.environ[name]) for name in names if name in os.environ), otherwise)


def _job_of_pod(pod: str) -> str | None:
    """The name of the job from the name of its pod, if it is clear: `resnet` for `resnet-worker-3`."""
    found = POD.search(pod)
    return pod[: found.start()] if found else None


def _read(file: str) -> str | None:
    try:
        with open(file, encoding="utf-8") as stream:
            return stream.read().strip() or None
    except (OSError, ValueError):
        return None
