"""Forecasts that are kept: `maar web` writes them, with what became of the jobs, and reads how good they were.

The only table that `maar web` writes. Calls never block the caller: they run in a thread of their own. If the database
fails, forecasts are made and shown, but not kept.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from msgspec.structs import replace

from maar.history.address import NONE, read_address
from maar.history.errors import HistoryError, Unreachable
from maar.history.records import Fate, Prediction
from maar.history.store import Store
from maar.history.thread import Thread

T = TypeVar("T")

logger = logging.getLogger("maar.history")

DAYS = 30
"""How long forecasts are kept."""
JUDGED = 20_000
"""The newest forecasts that are read to judge them. Tuned by hand."""
TIMEOUT = 20.0
"""Seconds after which a call counts as unanswered."""


class ForecastLog:
    """The table of forecasts. With the address `none` nothing is kept."""

    def __init__(self, address: str = NONE) -> None:
        self._store = None if address == NONE else Store(read_address(address), make=False)
        self._thread: Thread | None = None
        self.problem = "no history configured" if self._store is None else ""
        """Why forecasts are not kept; empty if they are."""

    @property
    def on(self) -> bool:
        return self._store is not None

    async def load(self) -> tuple[list[Prediction], list[Prediction]]:
        """The newest forecast of each job whose fate is unknown, and all that are judged, oldest first."""
        return await self._call(lambda store: (store.open_predictions(), store.predictions(newest=JUDGED)))

    async def judged(self) -> list[Prediction]:
        return await self._call(lambda store: store.predictions(newest=JUDGED))

    async def save(self, made: Sequence[Prediction], fates: Sequence[Fate], now: float) -> None:
        """Keep forecasts and fates. A job that seems to have gone may have started unseen: its accounts say so."""

        def work(store: Store) -> None:
            known = [_looked_up(store, fate) for fate in fates]
            store.write_predictions(made, known, now - DAYS * 86400.0)

        await self._call(work)

    async def close(self) -> None:
        if self._thread is not None and self._store is not None:
            try:
                async with asyncio.timeout(2.0):
                    await self._thread.call(self._store.close)
            except TimeoutError:
                pass
            self._thread.stop()
            self._thread = None

    async def _call(self, work: Callable[[Store], T]) -> T:
        store = self._store
        if store is None:
            raise Unreachable(self.problem)
        if self._thread is None:
            self._thread = Thread("maar-forecasts")

        def call() -> T:
            if not store.open():
                raise Unreachable(f"{store.name}: no history yet: `maar run` creates it")
            if store.version < 2:
                store.close()
                raise Unreachable(f"{store.name}: tables of version 1: a newer `maar run` adds that of forecasts")
            try:
                return work(store)
            except HistoryError:
                store.close()  # reconnect next time
                raise

        try:
            async with asyncio.timeout(TIMEOUT):
                found = await self._thread.call(call)
        except TimeoutError:
            self._failed(f"{store.name}: no answer for {TIMEOUT:g} s")
            raise Unreachable(self.problem) from None
        except HistoryError as error:
            self._failed(str(error))
            raise
        if self.problem:
            logger.info("forecasts are kept: %s", store.name)
        self.problem = ""
        return found

    def _failed(self, problem: str) -> None:
        if problem != self.problem:
            logger.warning("forecasts are not kept: %s", problem)
        self.problem = problem


def _looked_up(store: Store, fate: Fate) -> Fate:
    if fate.gone is None:
        return fate
    started = store.first_start(fate.namespace, fate.name, fate.uid)
    return fate if started is None else replace(fate, started=started)
