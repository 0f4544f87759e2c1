"""Writes the Shard objects of a process: what its jobs want at once, figures for people every few seconds."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Callable

from maar.controller.shards.holding import Holding
from maar.kube.client.api import Api
from maar.kube.client.backoff import Backoff
from maar.kube.client.errors import ApiError, Conflict, NotFound, NotLeading
from maar.kube.wire.shards import ShardSpec, ShardStatus
from maar.kube.write.shards import Document, read_shard, write_shard

logger = logging.getLogger("maar.shards")

FIGURES_EVERY = 5.0
"""Seconds between two writes that change only figures; tuned by hand."""


class ShardObjects:
    """What the objects of the held shards should say, and what they say."""

    def __init__(self, api: Api, holding: Holding, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._holding = holding
        self._clock = clock
        self._wanted: dict[int, tuple[ShardSpec, ShardStatus]] = {}
        self._shown: dict[int, tuple[ShardSpec, ShardStatus]] = {}
        self._documents: dict[int, Document] = {}
        self._at: dict[int, float] = {}
        self._bell = asyncio.Event()

    def show(self, shard: int, spec: ShardSpec, status: ShardStatus) -> None:
        """What an object should say from now on."""
        self._wanted[shard] = (spec, status)
        if self._is_due(shard):
            self._bell.set()

    async def clear(self, shard: int, epoch: int) -> None:
        """A shard has ended: its object says that nobody holds it, and that it wants nothing."""
        with contextlib.suppress(ApiError):
            document = await read_shard(self._api, shard)
            if document is not None:
                await write_shard(self._api, shard, ShardSpec(), ShardStatus(epoch=epoch), before=document)

    def forget(self, shard: int) -> None:
        """A shard was given back, or is taken over: what its object says is not known."""
        for known in (self._wanted, self._shown, self._documents, self._at):
            known.pop(shard, None)

    @property
    def figures_are_due(self) -> bool:
        """Whether new figures would be written."""
        return self._clock() >= min(self._at.values(), default=0.0) + FIGURES_EVERY

    def _is_due(self, shard: int) -> bool:
        wanted, shown = self._wanted[shard], self._shown.get(shard)
        if shown is None or wanted[0] != shown[0]:
            return True
        return wanted[1] != shown[1] and self._clock() >= self._at.get(shard, 0.0) + FIGURES_EVERY

    async def run(self) -> None:
        backoff = Backoff(0.05, 5.0, random.Random(0))
        while True:
            await self._bell.wait()
            self._bell.clear()
            for shard in [shard for shard in self._wanted if self._is_due(shard)]:
                if shard not in self._holding.epochs:
                    continue
                try:
                    await self._write(shard)
                    backoff.reset()
                except NotLeading:
                    return
                except ApiError as error:
                    logger.warning("Shard of shard %d could not be written, will retry: %s", shard, error)
                    self._documents.pop(shard, None)
                    await asyncio.sleep(backoff.next(error.retry_after))
                    self._bell.set()

    async def _write(self, shard: int) -> None:
        wanted = self._wanted[shard]
        document = self._documents.get(shard)
        try:
            if document is None:
                document = await read_shard(self._api, shard)
            self._documents[shard] = await write_shard(self._api, shard, *wanted, before=document)
        except (Conflict, NotFound):
            self._documents.pop(shard, None)
            self._bell.set()
            await asyncio.sleep(0.02)
            return
        self._shown[shard], self._at[shard] = wanted, self._clock()
