"""Take-over: what a new leader does before its first decision.

The predecessor may have sent writes that have not taken effect yet. All of them are in its intents, which came with the
lease. Each object in them gets a fence, after which no such write succeeds. Then all pods are listed again: the list
has every bind that did succeed. The first cycle finishes or releases gangs that are bound in part.

No fence stops an eviction that was decided (`kube.write.decided`), so it is carried out here: a late copy of the
predecessor's request meets a pod that is gone or going. A budget that refuses it ends that, because the owner of the
budget must not delay everybody. Then a late copy may still evict the pod, if the budget permits it.

If somebody has changed the intents so that they cannot be read, everything that Maar may write to gets a fence.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Iterable

from maar.kube.client.api import Api
from maar.kube.client.backoff import Backoff
from maar.kube.client.errors import ApiError, DisruptionRefused, NotLeading, ServerFault
from maar.kube.write.decided import DecidedVictim
from maar.kube.write.fence import REFUSED, fence
from maar.kube.write.guarded import evict_by_uid
from maar.kube.write.intents import Intents
from maar.kube.write.outcomes import Done, Failed

logger = logging.getLogger("maar.controller")

AT_ONCE = 8
"""Fences in flight at once; tuned by hand. They must not keep a busy API server from the renewals of the lease."""
REFUSED_SECONDS = 60.0
"""How long a fence is tried that the server refuses. After this time (its default `--request-timeout`), an API server
gives up what it has received, so that only a request that a proxy holds back could still take effect."""


async def take_over(
    api: Api,
    intents: Intents,
    list_pods: Callable[[], Awaitable[None]],
    everything: Callable[[], Iterable[str]],
    *,
    may_evict: Callable[[list[DecidedVictim]], list[DecidedVictim]] = lambda victims: victims,
    evicted: Callable[[DecidedVictim], None] = lambda victim: None,
) -> None:
    """Settle everything that earlier leaders may have sent, and learn what became of it.

    `everything` returns the paths of all objects that Maar may write to. `may_evict` leaves out the victims that the
    cluster's owner protects by the brakes. `evicted` is called for each pod that was evicted here.
    """
    if not intents.succeeds:
        return
    if decided := list(intents.inherited_decided.values()):
        victims = may_evict(decided)
        logger.info("epoch %d: carrying out %d evictions that were decided", intents.epoch, len(victims))
        if held := len(decided) - len(victims):
            logger.warning("decided evictions of an earlier leader that the brakes block: %d", held)
        await evict_all(api, victims, done=intents.fenced_one, evicted=evicted)
    paths = intents.inherited
    if intents.unreadable:
        await list_pods()
        paths |= set(everything())
    if paths:
        logger.info("epoch %d: fencing %d objects that earlier leaders announced", intents.epoch, len(paths))
        await fence_all(api, paths, intents.epoch, done=intents.fenced_one)
    await list_pods()
    intents.fenced()


async def fence_all(
    api: Api,
    paths: Iterable[str],
    epoch: int,
    patience: float = REFUSED_SECONDS,
    done: Callable[[str], None] = lambda path: None,
) -> None:
    """Fence all objects, and return when every fence was answered, or refused for `patience` seconds.

    `done` is called for each object. If this process dies, its successor goes on with the rest.
    """
    left, until = iter(sorted(paths)), time.monotonic() + patience

    async def some() -> None:
        for path in left:
            await _fence(api, path, epoch, until)
            done(path)

    await asyncio.gather(*(some() for _ in range(AT_ONCE)))


async def _fence(api: Api, path: str, epoch: int, until: float) -> None:
    """Only an answer ends it. One object that refuses every fence delays the others, but does not stop them."""
    backoff = Backoff(0.1, 5.0, random.Random(path))
    while True:
        try:
            await fence(api, path, epoch)
            return
        except NotLeading:
            raise
        except ApiError as error:
            wait = backoff.next(error.retry_after)
            # 500: for example a webhook that protects the object and does not answer.
            refused = isinstance(error, REFUSED) or (isinstance(error, ServerFault) and error.status == 500)
            if refused and time.monotonic() + wait >= until:
                logger.error("%s cannot be fenced: a late write of an earlier leader may take effect: %s", path, error)
                return
            logger.log(logging.WARNING if refused else logging.DEBUG, "fence, will retry: %s", error)
            await asyncio.sleep(wait)


async def evict_all(
    api: Api,
    victims: Iterable[DecidedVictim],
    patience: float = REFUSED_SECONDS,
    done: Callable[[str], None] = lambda path: None,
    evicted: Callable[[DecidedVictim], None] = lambda victim: None,
) -> None:
    """Carry out decided evictions, and return when each pod is gone or going, or the server has refused for good.

    `done` is called for each pod that is gone or going, so that it needs no fence.
    """
    left, until = iter(sorted(victims, key=lambda victim: victim.path)), time.monotonic() + patience

    async def some() -> None:
        for victim in left:
            if await _evict(api, victim, until):
                evicted(victim)
                done(victim.path)

    await asyncio.gather(*(some() for _ in range(AT_ONCE)))


async def _evict(api: Api, victim: DecidedVictim, until: float) -> bool:
    """Evict one pod; whether it is gone or going. Without an answer, it is tried again."""
    backoff = Backoff(0.1, 5.0, random.Random(victim.path))
    while True:
        outcome = await evict_by_uid(api, victim)
        if isinstance(outcome, Done):
            return True
        error = outcome.error
        wait = backoff.next(error.retry_after)
        refused = error.status in (409, 500) and time.monotonic() + wait >= until
        if isinstance(outcome, Failed) or isinstance(error, DisruptionRefused) or refused:
            logger.warning("%s was to be evicted, but a late request may still do so: %s", victim.path, error)
            return False
        logger.debug("eviction, will retry: %s", error)
        await asyncio.sleep(wait)
