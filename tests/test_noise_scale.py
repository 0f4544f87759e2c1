"""The noise scale of `maar.report`: on gradients whose noise scale is known.

PyTorch itself is too heavy for these tests. `Tensor` and `Parameter` have the part of its interface that is used, with
numpy inside, and `Processes` averages gradients as DistributedDataParallel does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from maar.report import NoiseScale, Reporter

SIZES = (200, 100)
"""Numbers in each of two parameters."""
Array = np.ndarray[Any, np.dtype[np.float64]]


class Tensor:
    """A tensor."""

    def __init__(self, values: Array) -> None:
        self.values = values

    def detach(self) -> Tensor:
        return self

    def float(self) -> Tensor:
        return self

    def clone(self) -> Tensor:
        return Tensor(self.values.copy())

    def sum(self) -> np.float64:
        return np.float64(self.values.sum())

    def __mul__(self, other: Tensor) -> Tensor:
        return Tensor(self.values * other.values)

    def __add__(self, other: Tensor) -> Tensor:
        return Tensor(self.values + other.values)


class Parameter:
    """A parameter of a model, which calls its hooks with the gradient of each backward pass."""

    def __init__(self, requires_grad: bool = True) -> None:
        self.requires_grad = requires_grad
        self.grad: Tensor | None = None
        self._hooks: list[Callable[[Tensor], None]] = []

    def register_hook(self, hook: Callable[[Tensor], None]) -> None:
        assert self.requires_grad, "as PyTorch"
        self._hooks.append(hook)

    def backward(self, gradient: Array) -> None:
        for hook in self._hooks:
            hook(Tensor(gradient))
        self.grad = Tensor(gradient) if self.grad is None else self.grad + Tensor(gradient)


class Model:
    """Per sample, the gradient is `signal` plus noise of variance `noise` in each of its numbers."""

    def __init__(self, signal: float, noise: float, seed: int = 1) -> None:
        self.weights = [Parameter() for _ in SIZES]
        self._signal, self._noise = signal, noise
        self._dice = np.random.default_rng(seed)

    def parameters(self) -> list[Parameter]:
        return [*self.weights, Parameter(requires_grad=False)]

    @property
    def noise_scale(self) -> float:
        """The trace of the covariance of a sample's gradient, over the square of the mean."""
        return self._noise / self._signal**2

    def train(
        self,
        after: Callable[[], None],
        *,
        steps: int,
        batch: int,
        passes: int = 1,
        processes: int = 1,
        loss: float = 1.0,
    ) -> None:
        """Steps of several passes; the gradients of all processes are averaged at the last one."""
        for _ in range(steps):
            for weight, size in zip(self.weights, SIZES, strict=True):
                weight.grad = None
                mine = [loss * self._gradient(size, batch) for _ in range(passes)]
                for gradient in mine:
                    weight.backward(gradient)
                others = [sum(loss * self._gradient(size, batch) for _ in range(passes)) for _ in range(processes - 1)]
                weight.grad = Tensor(np.asarray(sum((sum(mine), *others))) / processes)
            after()

    def _gradient(self, size: int, batch: int) -> Array:
        return self._signal + self._dice.normal(0.0, (self._noise / batch) ** 0.5, size)


@pytest.mark.parametrize(
    ("passes", "processes", "loss"), [(1, 4, 1.0), (4, 1, 1.0), (4, 1, 0.25), (2, 2, 1024.0), (1, 1, 1.0)]
)
@pytest.mark.parametrize("every", [1, 5])
def test_it_is_the_noise_scale(passes: int, processes: int, loss: float, every: int) -> None:
    """By several processes, by several passes (whether or not the loss is divided), and by steps that follow."""
    model = Model(signal=0.1, noise=2.0)
    noise = NoiseScale(model.parameters(), 16, lambda: processes, every)
    assert noise.value() is None
    model.train(noise, steps=400 * every, batch=16, passes=passes, processes=processes, loss=loss)
    assert noise.value() == pytest.approx(model.noise_scale, rel=0.15)
    assert 200.0 == pytest.approx(model.noise_scale)


def test_it_follows_the_training() -> None:
    """As gradients become smaller, noise dominates."""
    early, late = Model(signal=1.0, noise=1.0), Model(signal=0.05, noise=1.0)
    noise = NoiseScale(early.parameters(), 8, lambda: 4, 1)
    early.train(noise, steps=100, batch=8, processes=4)
    assert noise.value() == pytest.approx(1.0, rel=0.3)
    late.weights = early.weights
    late.train(noise, steps=300, batch=8, processes=4)
    assert noise.value() == pytest.approx(400.0, rel=0.3)


def test_the_next_report_has_it() -> None:
    model, reporter = Model(signal=0.1, noise=2.0), Reporter(local_batch_size=16)
    step = reporter.noise(model, every=1)
    assert reporter._get_noise_scale() is None
    model.train(step, steps=100, batch=16, passes=4)
    assert reporter._get_noise_scale() == pytest.approx(200.0, rel=0.3)


def test_as_a_hook_of_an_optimizer() -> None:
    """PyTorch calls it with the optimizer and the arguments of `step`, and expects nothing."""
    model = Model(signal=0.1, noise=2.0)
    hook = Reporter().noise(model, batch_size=16, every=1)
    for _ in range(3):
        model.train(lambda: None, steps=1, batch=16, passes=2)
        assert None is hook(object(), (), {})


@pytest.mark.parametrize("batch", [None, "many", [1]])
def test_what_cannot_be_measured_breaks_nothing(batch: Any) -> None:
    model, reporter = Model(signal=0.1, noise=2.0), Reporter()
    model.train(reporter.noise(model, batch_size=batch), steps=2, batch=4)
    model.train(reporter.noise(object()), steps=2, batch=4)
    assert reporter._get_noise_scale() is None


def test_broken_gradients_are_left_out() -> None:
    model = Model(signal=0.1, noise=2.0)
    noise = NoiseScale(model.parameters(), 16, lambda: 1, 1)
    model.train(noise, steps=50, batch=16, passes=4)
    before = noise.value()
    for loss in (np.inf, np.nan):
        with np.errstate(all="ignore"):
            model.train(noise, steps=1, batch=16, passes=4, loss=loss)
    assert before == noise.value()
    for weight in model.weights:
        weight.grad = None
    noise()
    assert before == noise.value()
