"""What the API server answers when it does not do what it was asked: a code, a reason and a Status object.

Every function here makes one kind of refusal, in the words that Kubernetes uses, so that clients which look into
`reason` or `details` (kubectl does) behave as they do on a real server.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Obj = dict[str, Any]
"""An object as it is stored: plain JSON, never changed in place once stored."""


class ApiError(Exception):
    """A refusal: becomes a Status object on the wire."""

    def __init__(self, code: int, reason: str, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = dict(details) if details else {}

    def status(self) -> Obj:
        """The Status object."""
        return status(self.code, self.reason, self.message, self.details)


def status(code: int, reason: str, message: str, details: Mapping[str, Any] | None = None) -> Obj:
    """A Status that says no."""
    answer: Obj = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message}
    if reason:
        answer["reason"] = reason
    answer |= {"details": dict(details or {}), "code": code}
    return answer


def success(code: int = 201, details: Mapping[str, Any] | None = None) -> Obj:
    """A Status that says yes: what bindings, evictions and most deletions answer."""
    answer: Obj = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details:
        answer["details"] = dict(details)
    if code != 200:
        answer["code"] = code
    return answer


def resource_name(group: str, plural: str) -> str:
    """How messages call a resource: `pods`, `podgroups.scheduling.volcano.sh`."""
    return f"{plural}.{group}" if group else plural


def _about(group: str, plural: str, name: str) -> dict[str, Any]:
    return {k: v for k, v in (("name", name), ("group", group), ("kind", plural)) if v}


def not_found(group: str, plural: str, name: str) -> ApiError:
    """No such object."""
    message = f'{resource_name(group, plural)} "{name}" not found'
    return ApiError(404, "NotFound", message, _about(group, plural, name))


def no_such_path() -> ApiError:
    """No such resource at all."""
    return ApiError(404, "NotFound", "the server could not find the requested resource")


def already_exists(group: str, plural: str, name: str) -> ApiError:
    """The name is taken."""
    message = f'{resource_name(group, plural)} "{name}" already exists'
    return ApiError(409, "AlreadyExists", message, _about(group, plural, name))


def conflict(group: str, plural: str, name: str, why: str = "") -> ApiError:
    """Somebody else was first, or the object is not the one that was meant."""
    why = why or "the object has been modified; please apply your changes to the latest version and try again"
    message = f'Operation cannot be fulfilled on {resource_name(group, plural)} "{name}": {why}'
    return ApiError(409, "Conflict", message, _about(group, plural, name))


def bad_request(message: str) -> ApiError:
    """A request that makes no sense."""
    return ApiError(400, "BadRequest", message)


def forbidden(group: str, plural: str, name: str, why: str, causes: list[Obj] | None = None) -> ApiError:
    """A request that is understood and not allowed."""
    details = _about(group, plural, name)
    if causes:
        details["causes"] = causes
    return ApiError(403, "Forbidden", f'{resource_name(group, plural)} "{name}" is forbidden: {why}', details)


def too_many_requests(message: str, retry_after: int, causes: list[Obj] | None = None) -> ApiError:
    """Not now; ask again later."""
    details: Obj = {"causes": causes} if causes else {}
    if retry_after:
        details["retryAfterSeconds"] = retry_after
    return ApiError(429, "TooManyRequests", message, details)


def expired(message: str) -> ApiError:
    """History that is gone: list again."""
    return ApiError(410, "Expired", message)


class Cause(Exception):
    """One field that is wrong."""

    def __init__(self, field: str, reason: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.reason = reason
        self.message = message

    def wire(self) -> Obj:
        """As an entry of `details.causes`."""
        return {"reason": self.reason, "message": self.message, "field": self.field}


def required(field: str, why: str = "") -> Cause:
    """A field that is missing."""
    return Cause(field, "FieldValueRequired", f"Required value: {why}" if why else "Required value")


def invalid_value(field: str, value: object, why: str) -> Cause:
    """A field with a value that it cannot have."""
    shown = f'"{value}"' if isinstance(value, str) else str(value)
    return Cause(field, "FieldValueInvalid", f"Invalid value: {shown}: {why}")


def not_allowed(field: str, why: str) -> Cause:
    """A field that must not be set or changed."""
    return Cause(field, "FieldValueForbidden", f"Forbidden: {why}")


def invalid(group: str, kind: str, name: str, causes: list[Cause]) -> ApiError:
    """An object with fields that are wrong, all of them named."""
    said = [str(cause) for cause in causes]
    text = said[0] if len(said) == 1 else f"[{', '.join(said)}]"
    details = {**_about(group, kind, name), "causes": [cause.wire() for cause in causes]}
    return ApiError(422, "Invalid", f'{resource_name(group, kind)} "{name}" is invalid: {text}', details)
