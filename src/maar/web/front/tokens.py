"""Tokens before and after the API server has checked them: what they say about themselves, and answers that are kept.

Both HTTP servers use it. The HTTP process of `maar run` imports it, so it imports little.
"""

from __future__ import annotations

import base64
import binascii
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

K = TypeVar("K")
V = TypeVar("V")


class Claims(msgspec.Struct):
    """The part of a token that is looked at before the API server has checked it."""

    sub: str | None = None
    aud: str | list[str] = ""

    def is_for(self, audience: str) -> bool:
        """Whether the token says that it is for this audience."""
        return audience in ([self.aud] if isinstance(self.aud, str) else self.aud)


def claims_in(token: str) -> Claims | None:
    """What a token says about itself; `None` if it is not a JSON Web Token."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        payload = base64.urlsafe_b64decode(parts[1].encode("ascii") + b"=" * (-len(parts[1]) % 4))
        return msgspec.json.decode(payload, type=Claims)
    except (ValueError, binascii.Error, msgspec.DecodeError):
        return None


class Kept(Generic[K, V]):
    """Answers for a limited time and in a limited number; the oldest go first."""

    def __init__(self, clock: Callable[[], float], seconds: float, most: int) -> None:
        self._clock = clock
        self._seconds = seconds
        self._most = most
        self._of: OrderedDict[K, tuple[float, V]] = OrderedDict()

    def get(self, key: K) -> tuple[V] | None:
        """The answer in a tuple; `None` if it is not known."""
        found = self._of.get(key)
        if found is None:
            return None
        until, value = found
        if until <= self._clock():
            del self._of[key]
            return None
        return (value,)

    def put(self, key: K, value: V) -> None:
        self._of.pop(key, None)
        self._of[key] = (self._clock() + self._seconds, value)
        if len(self._of) > self._most:
            self._of.popitem(last=False)
