"""The composition root of `maar run`: builds all parts of one process, and runs them until SIGTERM or SIGINT.

`cli` parses options and calls `run`. The HTTP server is passed in, because `web` is above this package.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import socket
import uuid
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any

from maar.controller.observer import Observer, when_it_answers
from maar.controller.process import LEASE_NAMESPACE, NAME, RunError, Sources, access_of, live, run_process, sources_of
from maar.controller.scheduler import Scheduler
from maar.controller.settings.settings import Observing
from maar.controller.shards.membership import Membership, together
from maar.controller.shards.moving import LostShard
from maar.history.address import default_address
from maar.history.history import History
from maar.kube.client.api import Api
from maar.kube.client.backoff import cancel
from maar.kube.client.errors import Forbidden
from maar.kube.kinds.cluster import SHARD_MAPS
from maar.kube.read.shards import BrokenMap
from maar.kube.wire.api_resources import LEASES
from maar.kube.wire.references import Reference
from maar.kube.write.intents import Intents
from maar.kube.write.leases import LeaderElection, LeaseClaims, LeaseHeld
from maar.kube.write.shards import read_map

logger = logging.getLogger("maar")

LEASE_SECONDS = 15
"""The default of client-go."""
RENEWED = 0.9
"""The share of the lease time after which a holder that could not renew it gives up; tuned by hand. client-go has two
thirds. Only useless requests depend on it, and a new start takes longer than a slow answer of the API server."""
SHARED = "this cluster has a ShardMap: this process stops, and is a shard when it starts again"

Web = Callable[[Observer, History, Scheduler | None], AbstractAsyncContextManager[None]]
"""Serves HTTP for an observer and its history while the context is open, and for the scheduler, if it is one."""


class Options(Observing, frozen=True):
    """The options of one `maar run`."""

    record: Path | None = None
    lease_namespace: str = LEASE_NAMESPACE
    lease_seconds: int = LEASE_SECONDS
    shards: int | None = None
    """How many shards a new ShardMap has; `None`: one Maar leads, unless the cluster has a ShardMap."""
    rack_label: str = ""
    """The node label that names racks, which shards keep together; empty: HyperNodes do."""
    stand_by: bool = True
    """Wait while another process leads; otherwise that is an error."""


def run(options: Options, web: Web | None = None) -> None:
    """Run Maar on a cluster until it is stopped."""
    sources = sources_of(options, default_address(os.environ), write=True)
    run_process(_run(options, sources, web), LeaseHeld, LostShard)


async def _run(options: Options, sources: Sources, web: Web | None) -> None:
    api = await Api.open(access_of(options))
    config, brakes, brake_file, history = sources
    in_flight = options.settings.in_flight
    intents = Intents(2 * in_flight, 4 * in_flight, announcing=options.settings.announce)
    scheduler = Scheduler(api, options.settings, config, brakes, options.record, history, intents)
    config.on_refused.append(lambda problems: _tell_refused(scheduler, options, problems))
    if brake_file is not None:
        brake_file.on_changed.append(scheduler.publisher.look)
    served = None if web is None else web(scheduler, history, scheduler)
    await live(scheduler, api, sources, served, partial(_work, api, scheduler, intents, options))


def _tell_refused(scheduler: Scheduler, options: Options, problems: list[str]) -> None:
    lease = lease_name(min(options.settings.scheduler_names))
    about = Reference(LEASES.api_version, LEASES.kind, options.lease_namespace, lease)
    scheduler.events.emit(about, "Warning", "ConfigurationRefused", "; ".join(problems))


async def _work(api: Api, scheduler: Scheduler, intents: Intents, options: Options) -> None:
    await scheduler.sync()
    obeys = SHARD_MAPS.family not in options.settings.without
    if options.shards is not None or (obeys and await has_map(api)):
        await share(api, scheduler, intents, options)
    else:
        work = partial(_lead_alone, api, scheduler) if obeys else scheduler.lead
        await lead_all(elections(api, intents, options), work)


async def has_map(api: Api) -> bool:
    """Whether the cluster has shards: then every Maar is one of them, however it was started."""
    try:
        return await when_it_answers(lambda: read_map(api)) is not None
    except BrokenMap:
        return True
    except Forbidden as error:
        logger.warning("cannot see whether this cluster has shards: %s", error)
        return False


async def _lead_alone(api: Api, scheduler: Scheduler) -> None:
    """Decide for the whole cluster, as long as it has no shards. The Lease is that of the first shard."""
    if await has_map(api):
        raise RunError(SHARED)
    leading = asyncio.create_task(scheduler.lead())
    try:
        while not leading.done():
            await asyncio.wait([leading], timeout=1.0)
            if scheduler.picture.objects.of(SHARD_MAPS):
                raise RunError(SHARED)
        leading.result()
    finally:
        await cancel([leading])


async def share(api: Api, scheduler: Scheduler, intents: Intents, options: Options) -> None:
    """Hold one or more shards, and decide for them."""
    shards = scheduler.share(options.rack_label)
    decides, me = asyncio.Event(), identity()

    def candidate(shard: int, claims: LeaseClaims) -> LeaderElection:
        name = lease_of_shard(min(options.settings.scheduler_names), shard)
        return _election(api, name, me, intents, options, claims, lambda: shards.holding.epoch_of(shard))

    def begin() -> None:
        scheduler.outbox.memory.belongs_to(min(shards.holding.epochs))
        decides.set()
        scheduler.look_again()

    async def decide() -> None:
        await decides.wait()
        await scheduler.lead()

    membership = Membership(
        api.while_not(lambda: intents.lost),
        shards,
        candidate,
        scheduler.take_over,
        scheduler.outbox.unsettled,
        begin,
        wanted=options.shards or 1,
        namespace=options.lease_namespace,
        lease_seconds=options.lease_seconds,
    )
    await together(decide(), membership)


def elections(api: Api, intents: Intents, options: Options) -> list[LeaderElection]:
    """One candidate for the lease of each scheduler name, in the order in which all processes take them."""
    names = sorted({lease_name(name) for name in options.settings.scheduler_names})
    me = identity()
    return [_election(api, name, me, intents, options) for name in names]


def _election(
    api: Api,
    name: str,
    me: str,
    intents: Intents,
    options: Options,
    claims: LeaseClaims | None = None,
    known_epoch: Callable[[], int] = lambda: 0,
) -> LeaderElection:
    seconds = options.lease_seconds
    return LeaderElection(
        api,
        name,
        options.lease_namespace,
        me,
        lease_seconds=seconds,
        renew_seconds=seconds * RENEWED,
        retry_seconds=seconds * 2 / 15,
        intents=intents,
        stand_by=options.stand_by,
        is_dead=(lambda holder: False) if options.stand_by else has_ended,
        claims=claims or LeaseClaims(),
        known_epoch=known_epoch,
    )


async def lead_all(candidates: list[LeaderElection], work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Work while all leases are held: each is taken when the one before it is."""
    first, *rest = candidates
    await first.lead(
        (lambda: lead_all(rest, work)) if rest else work,
        lambda: logger.warning("lost the lease: this instance stops deciding"),
    )


def lease_name(scheduler: str) -> str:
    """The name of the lease for the pods with this scheduler name."""
    if scheduler == NAME:
        return NAME
    # A prefix, because other schedulers have leases with their own names.
    return f"{NAME}-{re.sub('[^a-z0-9.-]', '-', scheduler.lower()).strip('.-') or 'x'}"


def lease_of_shard(scheduler: str, shard: int) -> str:
    """The name of the lease of a shard; the first one has the lease of the Maar that led alone."""
    name = lease_name(scheduler)
    return f"{name}-shard-{shard}" if shard else name


def identity() -> str:
    """The holder identity in the lease. It is random, because containers may share host name and process id."""
    return f"{socket.gethostname()}_{uuid.uuid4().hex[:12]}_{os.getpid()}"


def has_ended(holder: str) -> bool:
    """Whether a holder was a process on this host, or of this container before its restart, and has ended."""
    host, _, process = (*holder.rsplit("_", 2), "", "")[:3]
    if host != socket.gethostname() or not process.isdecimal():
        return False
    if int(process) == os.getpid():
        return True
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        pass
    return False
