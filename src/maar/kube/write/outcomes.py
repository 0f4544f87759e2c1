"""What one attempt at a write, and the whole write, can end with."""

from __future__ import annotations

from dataclasses import dataclass, field

from maar.kube.client.errors import ApiError


@dataclass(frozen=True, slots=True)
class Done:
    """The wanted state exists, by this or an earlier attempt."""

    version: str = ""
    """The version of the object with the wanted state, if known."""
    body: bytes = field(default=b"", compare=False, repr=False)
    """The object as the server answered, if it did."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The write failed. `final`: the server refused it; otherwise the result is unknown until a watch shows it."""

    error: ApiError
    final: bool = True


@dataclass(frozen=True, slots=True)
class Again:
    """The attempt failed, took no effect or can be repeated, and is to be repeated."""

    error: ApiError


Outcome = Done | Failed
