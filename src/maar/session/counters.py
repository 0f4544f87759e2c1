"""Counters: what limits how many tasks fit on nodes, besides the columns of resources.

A counter answers one question in every mode: how many more tasks of a shape each node takes, also as if some tasks were
gone. Only the counter can answer the second part: half a card free on each of two cards is not one card, whatever the
sums say. Placement, eviction, explanations and proofs all ask it through `session.capacity`.

A counter that keeps columns of its own makes them with `State.column`, and changes them only with `State.add` and
`State.put`: then a rollback undoes them with everything else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from maar.model.fitting import Mode
from maar.model.resources import Ints
from maar.session.hooks import Limit


class Counter:
    """The base of all counters: the verbs do nothing, for those that count what the state already keeps."""

    only_takes: bool = True
    """Whether a placed task never makes room for another one, so that a proof that there is no room may rely on it."""

    listens: ClassVar[bool] = False
    """Whether it has verbs of its own."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.listens = any(getattr(cls, verb) is not getattr(Counter, verb) for verb in ("take", "give_back", "leave"))

    def applies(self, shape: int) -> bool:
        """Whether it may ever limit this shape: asked once in a session, at the first question about the shape."""
        return True

    def limit(self, shape: int, mode: Mode, gone: Ints) -> Limit | None:
        """How many more tasks of a shape nodes take now, later or empty, without the tasks `gone`; `None`: any number.

        Its causes are the refusals: code and words for the nodes that take none. The answer for empty nodes proves that
        a job can never start: it is at least what nodes take whatever else runs, and stays the same in a session.
        """
        raise NotImplementedError

    def take(self, shape: int, tasks: Ints, rows: Ints, counts: Ints, *, nominated: bool) -> None:
        """Tasks come: `counts[i]` of them, in order, to `rows[i]`. No tasks: room is reserved for pods to come.

        `nominated`: the room may still be used by releasing tasks.
        """

    def give_back(self, shape: int, tasks: Ints, rows: Ints, counts: Ints) -> None:
        """The reverse of `take` with `nominated`: a nomination is withdrawn, or room is no longer reserved."""

    def leave(self, task: int, row: int, sign: int) -> None:
        """A bound task is going to leave (1), or stays after all (-1). Until it has left, its part is not free now."""

    def chosen(self, task: int) -> str:
        """What was chosen for a task that came, for the writer of its bind; empty: nothing."""
        return ""


class Function(Counter):
    """A limit that a plugin states as a function, which does not know the room without some tasks."""

    only_takes = False

    def __init__(
        self, limit: Callable[[int, bool], Limit | None], applies: Callable[[int], bool] | None = None
    ) -> None:
        self._limit = limit
        self._applies = applies

    def applies(self, shape: int) -> bool:
        return self._applies is None or self._applies(shape)

    def limit(self, shape: int, mode: Mode, gone: Ints) -> Limit | None:
        return None if mode is Mode.EMPTY else self._limit(shape, mode is Mode.LATER)
