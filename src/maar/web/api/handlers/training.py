"""The training service: jobs are created, changed and cancelled with the caller's own token."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from msgspec.structs import replace

from maar.kube.client.api import Api
from maar.kube.client.errors import ApiError
from maar.kube.submit.changes import Change
from maar.kube.submit.errors import SubmitError
from maar.kube.submit.service import Submitted
from maar.views.records import ForecastView, OwnerView
from maar.web.api.answers import ChangedAnswer, CreatedAnswer, DeletedAnswer
from maar.web.api.desk import Api1, UserRequest, finished
from maar.web.api.errors import Refused
from maar.web.api.writing import Submission, Writer, refusal
from maar.web.forecasting.view import forecast_view, trusted
from maar.web.reviews import User
from maar.web.workers.tasks import Added, ReadSubmission
from maar.whatif.edit import Scene
from maar.whatif.edits import applied

logger = logging.getLogger("maar.web")


async def submit(api: Api1, asked: UserRequest) -> CreatedAnswer:
    submission: Submission = asked.body
    assert api.writer is not None
    async with api.guard.reading(asked.user.username) as bill:
        read, bill.seconds = await api.pool.ask(ReadSubmission(submission, api.writer.names))
    manifests = [plain.whole() for plain in read]
    before = api.scene(asked.moment)

    async def create() -> CreatedAnswer:
        async with _writing(api, asked) as (writer, client):
            return await writer.create(client, manifests, submission.dry_run)

    made = await finished(create())
    documents = [_called(m.document, one.name) for m, one in zip(manifests, made.created, strict=True)]
    names = asked.moment.tally.namespaces | {one.namespace for one in made.created}
    told = await _forecast_of_new(api, documents, before, asked.user, names, submission.seconds)
    views = (replace(one, forecast=told(f"{one.namespace}/{one.name}")) for one in made.created)
    return replace(made, created=tuple(views))


async def _forecast_of_new(
    api: Api1, documents: list[dict[str, Any]], before: Scene, user: User, names: frozenset[str], seconds: float
) -> Callable[[str], ForecastView | None]:
    """What to tell about the start of jobs that were created just now. The write is done: nothing is raised."""
    keeper = api.keeper
    if keeper is None or not seconds:
        return lambda job: None
    try:
        sight = await api.access.sight(user, names)
        async with api.guard.computing(user.username, forecast=True) as bill:
            now = time.time()
            edits, spent = await api.pool.ask(Added(documents, now, sight, api.beside()), before)
            after = await asyncio.to_thread(applied, before, edits)
            answer = await keeper.forecast(after, now, seconds)
            bill.seconds = spent + answer.cpu
    except Refused as refused:
        words = f"unknown: {refused.view.error}"
        return lambda job: ForecastView(words=words)
    except Exception as error:  # noqa: BLE001 it may be an object that Maar cannot plan before its controller has seen it
        logger.warning("the forecast of a new job failed: %s", type(error).__name__)
        return lambda job: ForecastView(words="unknown: the forecast failed")
    (made,) = answer.forecasts
    shown = keeper.shown(made, after.cluster.jobs)

    def told(job: str) -> ForecastView:
        one = shown.get(job)
        if one is None:
            return ForecastView(words="unknown: its parts start one by one")
        trust = trusted(keeper.verdicts.judged, one.queue, 0.0)
        return forecast_view(one, made, now, sight, names, trust)

    return told


async def change(api: Api1, asked: UserRequest) -> ChangedAnswer:
    what: Change = asked.body
    if what == Change():
        raise Refused(422, "expected at least one change")

    async def write() -> ChangedAnswer:
        async with _writing(api, asked) as (writer, client):
            return await writer.change(client, await _found(api, asked, writer, client), what)

    return await finished(write())


async def cancel(api: Api1, asked: UserRequest) -> DeletedAnswer:
    async def write() -> DeletedAnswer:
        async with _writing(api, asked) as (writer, client):
            return await writer.cancel(client, await _found(api, asked, writer, client))

    return await finished(write())


@asynccontextmanager
async def _writing(api: Api1, asked: UserRequest) -> AsyncIterator[tuple[Writer, Api]]:
    """What writes, and a client with the caller's own token. What the API server refuses becomes `Refused`."""
    assert api.writer is not None
    assert asked.token is not None
    try:
        with api.guard.writing(asked.user.username):
            async with asked.token.client(api.kube, asked.user) as client:
                yield api.writer, client
    except (ApiError, SubmitError) as error:
        raise refusal(error, asked.sight, asked.moment.tally.namespaces) from None


async def _found(api: Api1, asked: UserRequest, writer: Writer, client: Api) -> list[Submitted]:
    namespace, name = asked.parts["namespace"], asked.parts["name"]
    return await writer.find(client, namespace, name, asked.query.kind, _owner(asked, f"{namespace}/{name}"))


def _owner(asked: UserRequest, job: str) -> OwnerView | None:
    """The object that stands for a job, if the caller may see it. One that stands for several jobs must be named."""
    owners = asked.moment.tally.owners
    owner = owners.get(job) if asked.sight.of(job) else None
    if owner is None:
        return None
    namespace = f"{asked.parts['namespace']}/"
    shared = sum(key.startswith(namespace) and other == owner for key, other in owners.items()) > 1
    return None if shared else owner


def _called(document: dict[str, Any], name: str) -> dict[str, Any]:
    """A manifest with the name that the API server gave it."""
    return {**document, "metadata": {**document["metadata"], "name": name}}
