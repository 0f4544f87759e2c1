"""Take-over: what a new leader does before its first decision.

The predecessor may have sent writes that have not taken effect yet. All of them are in its intents, which came with the
lease. Each object in them gets a fence, after which no such write succeeds. Then all pods are listed again: the list
has every bind that did succeed. The first cycle finishes or releases gangs that are bound in part.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable

from maar.kube.client.api import Api
from maar.kube.client.backoff import Backoff
from maar.kube.client.errors import ApiError, NotLeading, ServerFault, TooManyRequests, Unauthorized, Unreachable
from maar.kube.write.fence import fence
from maar.kube.write.intents import Intents

logger = logging.getLogger("maar.controller")

AT_ONCE = 32
"""Fences in flight at once; tuned by hand."""
NOT_NOW = (Unreachable, ServerFault, TooManyRequests, Unauthorized)


async def take_over(api: Api, intents: Intents, list_pods: Callable[[], Awaitable[None]]) -> None:
    """Settle everything that earlier leaders may have sent, and learn what became of it."""
    if not intents.succeeds:
        return
    paths = intents.inherited
    if paths:
        logger.info("epoch %d: fencing %d objects that earlier leaders announced", intents.epoch, len(paths))
        await fence_all(api, paths, intents.epoch)
    await list_pods()
    intents.fenced()


async def fence_all(api: Api, paths: Iterable[str], epoch: int) -> None:
    """Fence all objects, and return when every fence was answered."""
    left = iter(sorted(paths))

    async def some() -> None:
        for path in left:
            await _fence(api, path, epoch)

    await asyncio.gather(*(some() for _ in range(AT_ONCE)))


async def _fence(api: Api, path: str, epoch: int) -> None:
    backoff = Backoff(0.1, 5.0, random.Random(path))
    while True:
        try:
            await fence(api, path, epoch)
            return
        except NotLeading:
            raise
        except NOT_NOW as error:
            logger.debug("fence of %s, will retry: %s", path, error)
            await asyncio.sleep(backoff.next(error.retry_after))
        except ApiError as error:
            # The predecessor had the same rights: where this write is refused, its own would be too.
            logger.error("%s cannot be fenced: %s", path, error)
            return
