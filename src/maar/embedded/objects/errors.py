"""Errors of the API server: a code, a reason and a Status object.

Each function makes one kind of error with the words of Kubernetes. Clients that read `reason` or `details`, such as
kubectl, then behave as they do with a real server.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Obj = dict[str, Any]
"""An object as stored: plain JSON, never changed in place after it is stored."""


class ApiError(Exception):
    """A refused request. The client gets it as a Status object."""

    def __init__(self, code: int, reason: str, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = dict(details) if details else {}

    def status(self) -> Obj:
        return status(self.code, self.reason, self.message, self.details)


def status(code: int, reason: str, message: str, details: Mapping[str, Any] | None = None) -> Obj:
    """A Status object with `status: Failure`."""
    answer: Obj = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message}
    if reason:
        answer["reason"] = reason
    answer |= {"details": dict(details or {}), "code": code}
    return answer


def success(code: int = 201, details: Mapping[str, Any] | None = None) -> Obj:
    """A Status object with `status: Success`, the answer to bindings, evictions and most deletions."""
    answer: Obj = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details:
        answer["details"] = dict(details)
    if code != 200:
        answer["code"] = code
    return answer


def resource_name(group: str, plural: str) -> str:
    """The name of a resource in messages: `pods`, `podgroups.scheduling.volcano.sh`."""
    return f"{plural}.{group}" if group else plural


def _about(group: str, plural: str, name: str) -> dict[str, Any]:
    return {k: v for k, v in (("name", name), ("group", group), ("kind", plural)) if v}


def not_found(group: str, plural: str, name: str) -> ApiError:
    message = f'{resource_name(group, plural)} "{name}" not found'
    return ApiError(404, "NotFound", message, _about(group, plural, name))


def no_such_path() -> ApiError:
    """The server does not serve this resource."""
    return ApiError(404, "NotFound", "the server could not find the requested resource")


def already_exists(group: str, plural: str, name: str) -> ApiError:
    message = f'{resource_name(group, plural)} "{name}" already exists'
    return ApiError(409, "AlreadyExists", message, _about(group, plural, name))


def conflict(group: str, plural: str, name: str, why: str = "") -> ApiError:
    """The object changed since the client read it, or has another uid than the client expects."""
    why = why or "the object has been modified; please apply your changes to the latest version and try again"
    message = f'Operation cannot be fulfilled on {resource_name(group, plural)} "{name}": {why}'
    return ApiError(409, "Conflict", message, _about(group, plural, name))


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def forbidden(group: str, plural: str, name: str, why: str, causes: list[Obj] | None = None) -> ApiError:
    """The request is valid but not allowed."""
    details = _about(group, plural, name)
    if causes:
        details["causes"] = causes
    return ApiError(403, "Forbidden", f'{resource_name(group, plural)} "{name}" is forbidden: {why}', details)


def too_many_requests(message: str, retry_after: int, causes: list[Obj] | None = None) -> ApiError:
    """The client must try again later."""
    details: Obj = {"causes": causes} if causes else {}
    if retry_after:
        details["retryAfterSeconds"] = retry_after
    return ApiError(429, "TooManyRequests", message, details)


def expired(message: str) -> ApiError:
    """The requested history is no longer stored: the client must list again."""
    return ApiError(410, "Expired", message)


class Cause(Exception):
    """One wrong field of an object."""

    def __init__(self, field: str, reason: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.reason = reason
        self.message = message

    def wire(self) -> Obj:
        """The cause as an entry of `details.causes`."""
        return {"reason": self.reason, "message": self.message, "field": self.field}


def required(field: str, why: str = "") -> Cause:
    return Cause(field, "FieldValueRequired", f"Required value: {why}" if why else "Required value")


def invalid_value(field: str, value: object, why: str) -> Cause:
    shown = f'"{value}"' if isinstance(value, str) else str(value)
    return Cause(field, "FieldValueInvalid", f"Invalid value: {shown}: {why}")


def not_allowed(field: str, why: str) -> Cause:
    """The field must not be set or changed."""
    return Cause(field, "FieldValueForbidden", f"Forbidden: {why}")


def invalid(group: str, kind: str, name: str, causes: list[Cause]) -> ApiError:
    """The object has wrong fields. The error names all of them."""
    texts = [str(cause) for cause in causes]
    text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    details = {**_about(group, kind, name), "causes": [cause.wire() for cause in causes]}
    return ApiError(422, "Invalid", f'{resource_name(group, kind)} "{name}" is invalid: {text}', details)
