"""The interface between `maar.sim.pool` and a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from maar.config.config import Registration
from maar.elastic.jobs import Jobs
from maar.elastic.order import Serve
from maar.model.resources import Floats, Ints
from maar.sim.setting import Setting
from maar.sim.trace import TraceJob


class SimModel(Protocol):
    """The active jobs of one run: arrived and not ended. Jobs are numbered in the order of submission."""

    together: float
    """Relative tolerance for simultaneous events of one kind (ends, arrivals)."""
    arguments: Any
    """The arguments of the policy."""
    serve: Serve | None
    """Says which jobs fit, in the policy's order. With None, GPUs are only counted and the order is not used."""
    width: Ints
    """GPUs per worker of each job."""
    least: Ints
    """Minimum workers of each job."""
    alone: Floats
    """Seconds of each job at its requested size, without restarts."""

    def advance(self, now: float) -> None:
        """Let the running jobs progress until now."""

    def ended(self, now: float) -> list[int]:
        """Remove and return the jobs that have ended by now."""

    def arrive(self, first: int, last: int, now: float) -> None:
        """Add the jobs `first` to `last - 1`."""

    def fail(self, now: float, first: int, last: int) -> list[int]:
        """Fail the GPUs `first` to `last - 1`. Returns the jobs that stop; they lose unsaved work."""

    def question(self, now: float) -> Jobs:
        """The jobs to ask the policy about, one row each. Jobs that would get nothing may be left out."""

    def suffices(self, now: float, workers: Ints) -> bool:
        """Whether all jobs that were left out would get nothing. If not, the next question has more of them."""

    def answer(self, now: float, workers: Ints, gpus: int) -> tuple[list[int], list[int]]:
        """Resize the jobs of the question where a change is worth it. Returns the changed jobs and their new sizes."""

    def next_end(self) -> float:
        """The time of the next end if nothing else happens; infinite if no job runs."""

    def next_change(self, now: float) -> float:
        """The time at which time alone changes the policy's answer; infinite if never."""


Maker = Callable[[list[TraceJob], Registration, Setting], SimModel]
"""Creates the model of one run; the jobs are sorted by submission."""


class Names(Sequence[str]):
    """The job names of the rows of a question, without a copy."""

    def __init__(self, names: Sequence[str], numbers: Ints) -> None:
        self._names, self._numbers = names, numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, row: Any) -> Any:
        return self._names[int(self._numbers[row])]
