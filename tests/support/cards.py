"""A counter of one's own, as a plugin outside `src`: cards that pods share, in halves of a card.

A pod that requests 2 halves needs one whole card. Two cards with half of each free have 2 halves free, and no card.
Running pods are on the cards that the arguments name; the counter chooses cards for new pods.
"""

from __future__ import annotations

import msgspec
import numpy as np

from maar.config.config import Registration
from maar.model.codes import NODES, Code
from maar.model.fitting import Mode
from maar.model.reasons import Refusal
from maar.model.resources import Ints
from maar.session.counters import Counter
from maar.session.hooks import Limit
from maar.session.register import Register
from maar.session.session import Session

HALVES = "example.com/half-cards"
WHOLE = 2
NO_CARD = Code("NoCard", NODES)


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    cards: dict[str, int] = {}
    """Task to its card, for those that run."""


class Cards(Counter):
    """Rows are nodes, columns are cards; `taken` is in halves."""

    def __init__(self, session: Session, cards: dict[str, int]) -> None:
        self._state, self._tasks = session.state, session.snapshot.tasks
        dim = session.snapshot.axes.index.get(HALVES, 0)
        self._asks: Ints = session.snapshot.shapes.requests[:, dim]
        has = session.snapshot.nodes.allocatable[:, dim] // WHOLE
        self._there = np.arange(int(has.max(initial=0))) < has[:, None]
        self.taken: Ints = session.state.column(self._there.shape)
        self.leaving: Ints = session.state.column(self._there.shape)
        self.card: dict[int, int] = {}
        for task in np.flatnonzero(session.state.node >= 0).tolist():
            of = self._tasks.tasks[task]
            if (card := dict(of.chosen).get("cards", cards.get(of.key))) is not None:
                self.card[task] = int(card)
                self.taken[session.state.node[task], int(card)] += self._asks[self._tasks.shape[task]]

    def limit(self, shape: int, mode: Mode, gone: Ints) -> Limit | None:
        asks = int(self._asks[shape])
        if not asks:
            return None
        room = self._there * WHOLE
        if mode is not Mode.EMPTY:
            room = room - self.taken * self._there
        if mode is Mode.LATER:
            room = room + self.leaving
        for task in gone.tolist():
            if task in self.card:
                room[self._state.node[task], self.card[task]] += self._asks[self._tasks.shape[task]]
        fits = np.maximum(room // asks, 0).sum(axis=1)
        refusal = Refusal("cards", NO_CARD, "have no card with enough of it free", fits == 0)
        return Limit(fits, coupled=False, causes=(refusal,))

    def take(self, shape: int, tasks: Ints, rows: Ints, counts: Ints, *, nominated: bool) -> None:
        asks = int(self._asks[shape])
        for task, row in zip(tasks.tolist() if asks else (), np.repeat(rows, counts).tolist(), strict=False):
            room = (WHOLE - self.taken[row] + (self.leaving[row] if nominated else 0)) * self._there[row]
            card = int(np.argmax(np.where(room >= asks, -room, -9)))  # the fullest card that has room
            self._state.put(self.card, task, card)
            self._state.add(self.taken, (row, card), asks)

    def give_back(self, shape: int, tasks: Ints, rows: Ints, counts: Ints) -> None:
        for task, row in zip(tasks.tolist(), rows.tolist(), strict=False):
            if task in self.card:
                self._state.add(self.taken, (row, self.card[task]), -int(self._asks[shape]))
                self._state.drop(self.card, task)

    def leave(self, task: int, row: int, sign: int) -> None:
        if task in self.card:
            self._state.add(self.leaving, (row, self.card[task]), sign * self._asks[self._tasks.shape[task]])

    def chosen(self, task: int) -> str:
        return str(self.card[task]) if task in self.card else ""


class Plugin:
    def __init__(self, arguments: Arguments) -> None:
        self._cards = arguments.cards

    def open(self, session: Session, on: Register) -> None:
        on.counter(Cards(session, self._cards))


cards = Registration("cards", Plugin, Arguments)
