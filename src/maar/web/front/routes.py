"""The paths of the HTTP process, and what each answers.

/healthz, /readyz                            the scheduler's state, unless it is old: a hung scheduler is not healthy
/metrics                                     the scheduler's metrics, kept for a second
/v1/jobs/{namespace}/{name}/measurements     training jobs report the duration of epochs, and clients read them
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from maar.web.front.access import TokenCheck
from maar.web.front.answers import JSON, METRICS, FrontAnswer, RequestHead, RequestRefused, document, later
from maar.web.front.hosts import MISLED, is_misled
from maar.web.front.questions import Pages, Posts, Questions
from maar.web.limits import Buckets, HttpLimits, TokenBucket
from maar.web.messages import Health, Post, ReadMeasurements, Report, Stored

HEALTH, PAGES, MEASUREMENTS = "health", "metrics", "measurements"
"""Groups of paths; each may have its own address."""
MANY = 1_000
"""Maximum measurements in one request."""

_GROUPS = {"/healthz": HEALTH, "/readyz": HEALTH, "/metrics": PAGES}
_METHODS = {HEALTH: ("GET", "HEAD"), PAGES: ("GET", "HEAD"), MEASUREMENTS: ("GET", "POST")}
_PATH = re.compile(r"/v1/jobs/([^/]*)/([^/]*)/measurements")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_decoder = msgspec.json.Decoder(Report | Annotated[list[Report], Meta(min_length=1, max_length=MANY)])


class Routes:
    """Answers requests."""

    def __init__(
        self,
        access: TokenCheck,
        pages: Pages,
        posts: Posts,
        reads: Questions[Stored],
        limits: HttpLimits,
        clock: Callable[[], float],
    ) -> None:
        self._access = access
        self._pages = pages
        self._posts = posts
        self._reads = reads
        self._clock = clock
        self._hung = limits.hung_seconds
        self._health: Health | None = None
        self._health_at = float("-inf")
        self._all_requests = TokenBucket(limits.requests, clock())
        self._requests: Buckets[str] = Buckets(limits.requests_each, clock)
        self._all_measured = TokenBucket(limits.measurements, clock())
        self._measured: Buckets[str] = Buckets(limits.measurements_each, clock)
        self._all_reads = TokenBucket(limits.reads, clock())
        self._readers: Buckets[str] = Buckets(limits.reads_each, clock)

    def took(self, health: Health) -> None:
        """The scheduler has sent its state."""
        self._health, self._health_at = health, self._clock()

    def forget(self) -> None:
        """Forget clients that are at rest."""
        for buckets in (self._requests, self._measured, self._readers):
            buckets.forget()
        self._access.forget()

    # -- the two steps of a request

    def admit(self, head: RequestHead, client: str, served: frozenset[str]) -> None:
        """Refuse a request before its body is read."""
        group = _GROUPS.get(head.path) or (MEASUREMENTS if _PATH.fullmatch(head.path) else "")
        allowed = _METHODS[group] if group in served else ()
        if group == HEALTH and head.method in allowed:
            return
        if not self._requests.take(client):
            raise later("too many requests from this address", 1, status=429)
        if not self._all_requests.take(self._clock()):
            raise later("too many requests", 1, status=429)
        if not allowed:
            raise RequestRefused(404, "no such path")
        if head.method not in allowed:
            raise RequestRefused(405, "method not allowed", Allow=", ".join(allowed))
        if group == PAGES and is_misled(head.headers.get("host", ""), client):
            raise RequestRefused(403, MISLED)
        if group == MEASUREMENTS:
            namespace, _ = _job(head.path)
            self._access.precheck(head.headers.get("authorization", ""), namespace)

    def answer(self, head: RequestHead, body: bytes, client: str) -> FrontAnswer | Coroutine[Any, Any, FrontAnswer]:
        if head.path == "/healthz":
            return self._state(lambda health: health.healthy)
        if head.path == "/readyz":
            return self._state(lambda health: health.ready)
        if head.path == "/metrics":
            fresh = self._pages.fresh
            return self._wait_for_metrics() if fresh is None else FrontAnswer(200, fresh, METRICS)
        return (self._post if head.method == "POST" else self._read)(head, body, client)

    # -- pages

    def _state(self, problem_in: Callable[[Health], str]) -> FrontAnswer:
        age = self._clock() - self._health_at
        if self._health is None or age > self._hung:
            return FrontAnswer(503, f"the scheduler has not answered for {min(age, 1e6):.0f} s".encode())
        problem = problem_in(self._health)
        return FrontAnswer(503 if problem else 200, problem.encode("utf-8", "backslashreplace") or b"ok")

    async def _wait_for_metrics(self) -> FrontAnswer:
        return FrontAnswer(200, await self._pages.wait(), METRICS)

    # -- measurements

    async def _post(self, head: RequestHead, body: bytes, client: str) -> FrontAnswer:
        namespace, name = _job(head.path)
        await self._access.check(head.headers.get("authorization", ""), namespace, client)
        reports = reports_in(body)
        if not self._measured.take(namespace, len(reports)) or not self._all_measured.take(self._clock(), len(reports)):
            raise later("too many measurements", 30, status=429)
        problem = await self._posts.put(Post(namespace, name, reports))
        if problem:
            raise later(problem)
        return document(202, accepted=len(reports))

    async def _read(self, head: RequestHead, body: bytes, client: str) -> FrontAnswer:
        namespace, name = _job(head.path)
        await self._access.check(head.headers.get("authorization", ""), namespace, client)
        if not self._readers.take(namespace) or not self._all_reads.take(self._clock()):
            raise later("too many reads", 5, status=429)
        stored = await self._reads.ask(lambda number: ReadMeasurements(number, namespace, name))
        if stored.problem:
            raise later(stored.problem)
        return FrontAnswer(200, b'{"measurements":' + stored.rows + b"}", JSON)


def reports_in(body: bytes) -> list[Report]:
    """The measurements in a request."""
    try:
        decoded = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RequestRefused(400, f"measurements: {error}") from None
    except RecursionError:
        raise RequestRefused(400, "measurements: nested too deeply") from None
    return decoded if isinstance(decoded, list) else [decoded]


def _job(path: str) -> tuple[str, str]:
    """The namespace and name of the job; both must be valid Kubernetes names."""
    found = _PATH.fullmatch(path)
    assert found is not None
    namespace, name = found.groups()
    for what, text in (("namespace", namespace), ("name", name)):
        if not _NAME.fullmatch(text):
            raise RequestRefused(400, f"{what}: not a Kubernetes name: `{text[:100]}`")
    return namespace, name
