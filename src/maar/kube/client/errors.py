"""Errors of requests to the API server: one tree, `ApiError`; `refusal` makes the right one from an answer."""

from __future__ import annotations

import re

import msgspec


class AccessError(Exception):
    """No way to the cluster: no kubeconfig, no such context, a plugin that failed."""


class ApiError(Exception):
    """What the API server answered instead of doing it, or that it could not be asked.

    The children say what to do next: go on without (`NotFound`), read again (`Conflict`), list again (`Gone`), wait
    (`TooManyRequests`, `ServerFault`, `Unreachable`), or tell a person (`Forbidden`, `Unauthorized`, `Invalid`).
    """

    status = 0
    """The HTTP status; 0 where there was no answer."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        reason: str = "",
        verb: str = "",
        path: str = "",
        retry_after: float = 0.0,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status or type(self).status
        self.reason = reason
        self.verb = verb
        self.path = path
        self.retry_after = retry_after
        """Seconds that the server wants us to wait; 0: it does not say."""

    def __str__(self) -> str:
        asked = f"{self.verb} {self.path}: " if self.path else ""
        return f"{asked}{self.message}"


class NotFound(ApiError):
    """There is no such object, or no such kind on this server."""

    status = 404


class Conflict(ApiError):
    """The object is not what the write took it for."""

    status = 409


class AlreadyExists(Conflict):
    """An object of that name is there."""


class Gone(ApiError):
    """That resourceVersion is too old to go on from: list again."""

    status = 410


class Unauthorized(ApiError):
    """The server does not know us, not even with a fresh token."""

    status = 401


class Forbidden(ApiError):
    """The server knows us and does not let us; where it is for want of a right, the message names it."""

    status = 403


class Invalid(ApiError):
    """The server cannot make sense of the request (400, 422 and whatever else is our fault)."""

    status = 422


class TooManyRequests(ApiError):
    """Not now."""

    status = 429


class DisruptionRefused(TooManyRequests):
    """A PodDisruptionBudget does not allow this eviction now."""


class ServerFault(ApiError):
    """The server failed (5xx); the request may have been carried out all the same."""

    status = 500


class Unreachable(ApiError):
    """No answer: refused, reset, cut or timed out; the request may have been carried out all the same."""


class Cause(msgspec.Struct, frozen=True):
    """One of several causes of a refusal."""

    reason: str = ""
    message: str = ""


class Details(msgspec.Struct, frozen=True, rename="camel"):
    """What a refusal is about."""

    causes: tuple[Cause, ...] | None = ()
    retry_after_seconds: float = 0.0


class Status(msgspec.Struct, frozen=True):
    """How an API server says no: the `Status` object."""

    message: str = ""
    reason: str = ""
    code: int = 0
    details: Details | None = None


_BY_STATUS: dict[int, type[ApiError]] = {
    error.status: error for error in (NotFound, Conflict, Gone, Unauthorized, Forbidden, Invalid, TooManyRequests)
}
_RIGHT = re.compile(
    r'User "(?P<who>[^"]*)" cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]+)")?'
)
_PATH = re.compile(r'User "(?P<who>[^"]*)" cannot (?P<verb>\w+) path "(?P<path>[^"]+)"')


def refusal(code: int, body: bytes, verb: str = "", path: str = "", retry_after: float = 0.0) -> ApiError:
    """The error that an HTTP status other than success means, with what the server says about it."""
    try:
        said = msgspec.json.decode(body, type=Status)
    except msgspec.DecodeError:
        said = Status(body[:200].decode(errors="replace").strip())
    details = said.details or Details()
    causes = details.causes or ()
    kind = _BY_STATUS.get(code, Invalid if code < 500 else ServerFault)
    if kind is Conflict and said.reason == "AlreadyExists":
        kind = AlreadyExists
    if kind is TooManyRequests and any(cause.reason == "DisruptionBudget" for cause in causes):
        kind = DisruptionRefused
    message = said.message or f"the server answered {code}"
    if kind is Forbidden:
        message = _grant(message)
    elif kind is DisruptionRefused:
        said_by = (cause.message.rstrip(".") for cause in causes if cause.message)
        message = "; ".join([message.rstrip("."), *said_by])
    wait = retry_after or details.retry_after_seconds
    return kind(message, status=code, reason=said.reason, verb=verb, path=path, retry_after=wait)


def _grant(message: str) -> str:
    """A missing right, as what to grant; any other refusal (a quota, an admission plugin) as the server says it."""
    if right := _RIGHT.search(message):
        group = f".{right['group']}" if right["group"] else ""
        plural, slash, sub = right["resource"].partition("/")
        where = f" in namespace `{right['namespace']}`" if right["namespace"] else ""
        return f"forbidden: grant `{right['verb']}` on `{plural}{group}{slash}{sub}`{where} to `{right['who']}`"
    if right := _PATH.search(message):
        return f"forbidden: grant `{right['verb']}` on the path `{right['path']}` to `{right['who']}`"
    return f"forbidden: {message}"
