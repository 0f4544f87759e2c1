"""`/v1/jobs/{namespace}/{name}/measurements`: training jobs report the duration of epochs, and clients read them.

Clients are `maar.report` or a line of curl; `maar.history` stores the measurements. The size, number and range of the
input are limited before it is processed. No request waits for the database for longer than a few seconds.
"""

from __future__ import annotations

import asyncio
import hmac
import re
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec
from aiohttp import web
from msgspec import Meta

from maar.history.errors import HistoryError
from maar.history.history import History
from maar.history.records import Measurement

PATH = "/v1/jobs/{namespace}/{name}/measurements"
BODY = 256 * 1024
"""Maximum bytes of a request: enough for a thousand long measurements."""
MANY = 1_000
"""Maximum measurements in one request."""
PATIENCE = 10.0
"""Maximum seconds for the body of a request to arrive."""
RETRY_AFTER = "30"
"""Seconds after which a client should retry."""

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
Whole = Annotated[int, Meta(ge=1, le=2**53)]
Seconds = Annotated[float, Meta(gt=0, le=1e8)]
Word = Annotated[str, Meta(max_length=253, pattern=r"^[\w./:@+ -]*\Z")]


class Report(msgspec.Struct, forbid_unknown_fields=True):
    """One epoch as a training job reports it. The fields are those of `maar.history.records.Measurement`."""

    epoch: Annotated[int, Meta(ge=0, le=2**53)]
    seconds: Seconds
    workers: Annotated[int, Meta(ge=1, le=1_000_000)]
    total_epochs: Whole | None = None
    local_batch_size: Whole | None = None
    global_batch_size: Whole | None = None
    step_seconds: Seconds | None = None
    started: Annotated[float, Meta(ge=0, le=1e11)] = 0.0
    workers_at_start: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    resized: bool = False
    category: Word = ""
    accelerator: Word = ""

    def measurement(self, namespace: str, name: str, now: float) -> Measurement:
        fields = msgspec.structs.asdict(self)
        at_start = fields.pop("workers_at_start")
        fields["resized"] = self.resized or at_start not in (None, self.workers)
        return Measurement(namespace=namespace, name=name, arrived=now, **fields)


_decoder = msgspec.json.Decoder(Report | Annotated[list[Report], Meta(min_length=1, max_length=MANY)])
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def routes(
    history: History, token_file: Path | None = None, clock: Callable[[], float] = time.time
) -> list[web.RouteDef]:
    """The routes for a history; empty if the history is off."""
    if not history.on:
        return []

    async def post(request: web.Request) -> web.Response:
        namespace, name = _job(request)
        body = await _body(request)
        try:
            decoded = _decoder.decode(body)
        except msgspec.DecodeError as error:
            raise Refused(400, f"measurements: {error}") from None
        reports = decoded if isinstance(decoded, list) else [decoded]
        now = clock()
        problem = history.add([report.measurement(namespace, name, now) for report in reports])
        if problem:
            raise _later(problem)
        return _answer(202, accepted=len(reports))

    async def get(request: web.Request) -> web.Response:
        namespace, name = _job(request)
        try:
            stored = await history.measurements_of(namespace, name)
        except HistoryError as error:
            raise _later(str(error)) from None
        return _answer(200, measurements=stored)

    return [web.post(PATH, _guarded(post, token_file)), web.get(PATH, _guarded(get, token_file), allow_head=False)]


class Refused(Exception):
    """A request is answered with an error status and a reason."""

    def __init__(self, status: int, why: str, **headers: str) -> None:
        super().__init__(why)
        self.status = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


def _guarded(handler: Handler, token_file: Path | None) -> Handler:
    """A handler that checks the token, if one is set, and turns `Refused` into a response."""

    async def guarded(request: web.Request) -> web.StreamResponse:
        try:
            _check(request, token_file)
            return await handler(request)
        except Refused as refused:
            return _answer(refused.status, refused.headers, error=str(refused))

    return guarded


def _check(request: web.Request, token_file: Path | None) -> None:
    """Check the token. The file is read each time, because secrets are rotated."""
    if token_file is None:
        return
    try:
        token = token_file.read_bytes().strip()
    except OSError as error:
        raise _later(f"cannot read the token: {error.strerror}") from None
    given = request.headers.get("Authorization", "").encode(errors="surrogateescape")
    if not token or not hmac.compare_digest(b"Bearer " + token, given):
        raise Refused(401, "a token is required: `Authorization: Bearer ...`", WWW_Authenticate="Bearer")


def _job(request: web.Request) -> tuple[str, str]:
    """The namespace and name of the job; both must be valid Kubernetes names."""
    namespace, name = request.match_info["namespace"], request.match_info["name"]
    for what, text in (("namespace", namespace), ("name", name)):
        if not _NAME.fullmatch(text):
            shown = text[:100].encode("ascii", "backslashreplace").decode()
            raise Refused(400, f"{what}: not a Kubernetes name: `{shown}`")
    return namespace, name


async def _body(request: web.Request) -> bytes:
    """The body of the request; a body that is too long is refused before all of it is in memory."""
    parts = bytearray()
    too_long = (request.content_length or 0) > BODY
    try:
        async with asyncio.timeout(PATIENCE):
            while not too_long and (part := await request.content.readany()):
                parts += part
                too_long = len(parts) > BODY
    except TimeoutError:
        raise Refused(408, f"measurements: incomplete after {PATIENCE:g} s") from None
    except web.RequestPayloadError as error:
        raise Refused(400, f"measurements: {' '.join(str(error).split())}") from None
    if too_long:
        raise Refused(413, f"measurements: more than {BODY} bytes")
    return bytes(parts)


def _later(problem: str) -> Refused:
    return Refused(503, problem, Retry_After=RETRY_AFTER)


def _answer(status: int, headers: dict[str, str] | None = None, **document: Any) -> web.Response:
    body = msgspec.json.encode(document)
    return web.Response(status=status, headers=headers, body=body, content_type="application/json")
