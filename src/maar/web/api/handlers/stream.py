"""Server-sent events: what changes, for one viewer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial

import msgspec

from maar.views.jobs import job_view
from maar.views.nodes import node_views
from maar.web.api.answers import Answer, ChangeEvent
from maar.web.api.desk import Api1, UserRequest
from maar.web.api.mirror import Changes
from maar.web.authentication import SECONDS
from maar.web.forecasting.view import with_forecast
from maar.web.reviews import User

PULSE = 5.0
"""Seconds between two signs of life on a stream: the page calls a silent stream dead after twice as many."""
PACE = 0.2
"""Minimum seconds between two events of a stream."""


async def stream(api: Api1, user: User, again: Callable[[], Awaitable[User]]) -> AsyncGenerator[bytes, None]:
    """Server-sent events for one viewer: what changes, while she may see it.

    `again` asks the API server about her token again. What it says about tokens and rights is believed for as long as
    in all other answers, so a stream tells nothing for longer after a right was revoked.
    """
    changes, happened = Changes(all=True), asyncio.Event()
    happened.set()

    def note(more: Changes) -> None:
        changes.add(more)
        happened.set()

    api.mirror.readers.append(note)
    checked = api.access.clock()
    try:
        while True:
            try:
                async with asyncio.timeout(PULSE):
                    await happened.wait()
            except TimeoutError:
                yield _pulse(api)
            if api.access.clock() - checked > SECONDS:
                user, checked = await again(), api.access.clock()
            if not happened.is_set():
                continue
            happened.clear()
            now, changes = changes, Changes()
            asked = await api.asked(user, None, {})
            event = await api.made(partial(_event, api, asked, now))
            yield b"event: change\ndata: " + msgspec.json.encode(event) + b"\n\n"
            await asyncio.sleep(PACE)
    finally:
        api.mirror.readers.remove(note)


def _pulse(api: Api1) -> bytes:
    """A sign of life, with how old the data is: on a quiet cluster there is no change that would say it."""
    moment = api.mirror.moment
    assert moment is not None, "a stream begins after the first decision"
    return b"event: pulse\ndata: " + msgspec.json.encode(Answer(**api.stamp(moment))) + b"\n\n"


def _event(api: Api1, asked: UserRequest, changes: Changes) -> ChangeEvent:
    tally, sight = asked.moment.tally, asked.sight
    jobs, nodes = tally.snapshot.jobs.number, tally.snapshot.nodes.row
    mine = sorted(sight.only(changes.jobs))
    here = sorted(changes.nodes)
    return ChangeEvent(
        **api.stamp(asked.moment),
        all=changes.all,
        jobs=tuple(
            with_forecast(job_view(tally, jobs[k], sight), api.latest)
            for k in mine
            if k in jobs and not tally.is_foreign[jobs[k]]
        ),
        gone=tuple(key for key in mine if key not in jobs),
        nodes=tuple(node_views(tally, sight, [nodes[name] for name in here if name in nodes])),
        gone_nodes=tuple(name for name in here if name not in nodes),
    )
