"""Errors of requests to the API server: subclasses of `ApiError`. `refusal` creates the right one from a response."""

from __future__ import annotations

import re

import msgspec


class AccessError(Exception):
    """No access to the cluster: no kubeconfig, an unknown context, or a plugin that failed."""


class ApiError(Exception):
    """A request that the API server refused, failed or did not answer.

    The subclass determines what to do next: continue without the object (`NotFound`), read again (`Conflict`), list
    again (`Gone`), wait (`TooManyRequests`, `ServerFault`, `Unreachable`), or report it to the administrator
    (`Forbidden`, `Unauthorized`, `Invalid`).
    """

    status = 0
    """The HTTP status; 0 if there was no response."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        reason: str = "",
        verb: str = "",
        path: str = "",
        retry_after: float = 0.0,
        field: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status or type(self).status
        self.reason = reason
        self.verb = verb
        self.path = path
        self.retry_after = retry_after
        """Seconds to wait before the next attempt; 0 if the server does not say."""
        self.field = field
        """The path of the field that the server refuses; empty if it names none."""

    def __str__(self) -> str:
        asked = f"{self.verb} {self.path}: " if self.path else ""
        return f"{asked}{self.message}"


class NotFound(ApiError):
    """The object does not exist, or the server does not serve its kind."""

    status = 404


class Conflict(ApiError):
    """The object is not in the state that the write expects."""

    status = 409


class AlreadyExists(Conflict):
    """An object with this name exists."""


class Gone(ApiError):
    """The resourceVersion is too old to continue from; list again."""

    status = 410


class Unauthorized(ApiError):
    """The server does not accept the credentials, not even after a renewal."""

    status = 401


class Forbidden(ApiError):
    """The server does not allow the request; if an RBAC permission is missing, the message names it."""

    status = 403


class Invalid(ApiError):
    """The request is invalid (400, 422 and every other 4xx without a class of its own)."""

    status = 422


class TooManyRequests(ApiError):
    """The server is busy; try again later."""

    status = 429


class DisruptionRefused(TooManyRequests):
    """A PodDisruptionBudget does not allow this eviction now."""


class ServerFault(ApiError):
    """The server failed (5xx); the request may have taken effect."""

    status = 500


class Unreachable(ApiError):
    """No response: connection refused, reset or lost, or a timeout; the request may have taken effect."""


class NotLeading(ApiError):
    """The request was not sent, because this process has lost its lease."""


NOT_NOW = (Unreachable, ServerFault, TooManyRequests)
"""Temporary errors: the server restarts, fails or is busy."""


class Cause(msgspec.Struct, frozen=True):
    reason: str = ""
    message: str = ""
    field: str = ""


class Details(msgspec.Struct, frozen=True, rename="camel"):
    causes: tuple[Cause, ...] | None = ()
    retry_after_seconds: float = 0.0


class Status(msgspec.Struct, frozen=True):
    """The `Status` object that an API server sends with an error."""

    message: str = ""
    error: str = ""
    """The message in an answer of `maar web`."""
    field: str = ""
    reason: str = ""
    code: int = 0
    details: Details | None = None


_BY_STATUS: dict[int, type[ApiError]] = {
    error.status: error for error in (NotFound, Conflict, Gone, Unauthorized, Forbidden, Invalid, TooManyRequests)
}
_RIGHT = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]+)")?'
)
_PATH = re.compile(r'User "(?P<user>[^"]*)" cannot (?P<verb>\w+) path "(?P<path>[^"]+)"')


def refusal(code: int, body: bytes, verb: str = "", path: str = "", retry_after: float = 0.0) -> ApiError:
    """The error for an HTTP status of 400 or more, with the server's message."""
    try:
        status = msgspec.json.decode(body, type=Status)
    except msgspec.DecodeError:
        status = Status(body[:200].decode(errors="replace").strip())
    details = status.details or Details()
    causes = details.causes or ()
    kind = _BY_STATUS.get(code, Invalid if code < 500 else ServerFault)
    if kind is Conflict and status.reason == "AlreadyExists":
        kind = AlreadyExists
    if kind is TooManyRequests and any(cause.reason == "DisruptionBudget" for cause in causes):
        kind = DisruptionRefused
    said = f"{status.field}: {status.error}" if status.field else status.error
    message = status.message or said or f"the server responded with status {code}"
    if kind is Forbidden:
        message = _grant(message)
    elif kind is DisruptionRefused:
        reasons = (cause.message.rstrip(".") for cause in causes if cause.message)
        message = "; ".join([message.rstrip("."), *reasons])
    wait = retry_after or details.retry_after_seconds
    field = next((cause.field for cause in causes if cause.field), "")
    return kind(message, status=code, reason=status.reason, verb=verb, path=path, retry_after=wait, field=field)


def _grant(message: str) -> str:
    """A missing permission as the rule to grant; any other refusal (a quota, an admission plugin) unchanged."""
    if right := _RIGHT.search(message):
        group = f".{right['group']}" if right["group"] else ""
        plural, slash, sub = right["resource"].partition("/")
        where = f" in namespace `{right['namespace']}`" if right["namespace"] else ""
        return f"forbidden: grant `{right['verb']}` on `{plural}{group}{slash}{sub}`{where} to `{right['user']}`"
    if right := _PATH.search(message):
        return f"forbidden: grant `{right['verb']}` on the path `{right['path']}` to `{right['user']}`"
    return f"forbidden: {message}"
