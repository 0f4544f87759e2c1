"""Refusals: an error status with the reason, and the path of the field where there is one."""

from __future__ import annotations

import re

import msgspec

_AT = re.compile(r"^(.*) - at `(?:key in )?\$\.?(.*)`$", re.DOTALL)


class ErrorView(msgspec.Struct, frozen=True, omit_defaults=True):
    """The body of every error."""

    error: str
    field: str = ""
    """The path of the field that is wrong: `edits[2].queue`, or `query.limit`."""


class Refused(Exception):
    """A request is answered with an error."""

    def __init__(self, status: int, error: str, field: str = "", *, after: int = 0, sign_in: bool = False) -> None:
        super().__init__(error)
        self.status = status
        self.view = ErrorView(error, field)
        self.headers: dict[str, str] = {"Retry-After": str(after)} if after else {}
        if sign_in:
            self.headers["WWW-Authenticate"] = "Bearer"


def not_decoded(error: msgspec.DecodeError) -> Refused:
    """A body that is not what the document says: 400 if it is no JSON, else 422 with the path."""
    if not isinstance(error, msgspec.ValidationError):
        return Refused(400, f"the body is not JSON: {error}")
    found = _AT.match(str(error))
    return Refused(422, found[1], found[2]) if found else Refused(422, str(error))
