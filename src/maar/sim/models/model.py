"""What a model is: the parts that `maar.sim.pool` and a model have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from maar.config.config import Registration
from maar.elastic.jobs import Jobs
from maar.elastic.order import Serve
from maar.model.resources import Floats, Ints
from maar.sim.setting import Setting
from maar.sim.trace import TraceJob


class Model(Protocol):
    """The jobs of one run, that have come and not ended yet. Jobs are numbers, by their place in time."""

    @property
    def together(self) -> float:
        """Times of one kind (ends, arrivals) that are equal within so much of themselves are one moment."""

    @property
    def arguments(self) -> object:
        """What the policy is asked with."""

    @property
    def serve(self) -> Serve | None:
        """Who fits in the policy's order; None: GPUs are counted, and the order does not matter to the model."""

    @property
    def width(self) -> Ints:
        """GPUs of one worker of each job."""

    @property
    def least(self) -> Ints:
        """Workers without which a job never runs."""

    @property
    def alone(self) -> Floats:
        """Seconds that each job runs at its requested size, undisturbed."""

    def advance(self, now: float) -> None:
        """Let the running jobs work until now."""

    def ended(self, now: float) -> list[int]:
        """Who has done its work by now. They are gone."""

    def arrive(self, first: int, last: int, now: float) -> None:
        """The jobs with numbers from `first` to before `last` are there."""

    def fail(self, now: float, first: int, last: int) -> list[int]:
        """The GPUs from `first` to before `last` are lost to what runs there: who stops, and lost work."""

    def question(self, now: float) -> Jobs:
        """What the policy is asked about: a row a job. Who has no part in any answer may be left out."""

    def suffices(self, now: float, workers: Ints) -> bool:
        """Whether all who were left out would get nothing. If not, more of them are in the next question."""

    def answer(self, now: float, workers: Ints, gpus: int) -> tuple[list[int], list[int]]:
        """Give the jobs of the question these sizes, as far as changes are worth it: whose size changes, to what."""

    def next_end(self) -> float:
        """When the first job will have done its work if nothing happens; infinite if none runs."""

    def next_change(self, now: float) -> float:
        """When time alone would change the policy's answer; infinite if never."""


class Maker(Protocol):
    """Makes a model for one run."""

    def __call__(self, jobs: list[TraceJob], policy: Registration, setting: Setting) -> Model:
        """Jobs by number: sorted by submission."""


class Names(Sequence[str]):
    """The names of the rows of a question, without a copy."""

    def __init__(self, names: Sequence[str], numbers: Ints) -> None:
        self._names, self._numbers = names, numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, row: Any) -> Any:
        return self._names[int(self._numbers[row])]
