"""All objects that watches or files have shown, by kind and key."""

from __future__ import annotations

from typing import Any, TypeVar, cast

from maar.kube.kinds import AnyKind
from maar.kube.kinds.kind import Kind
from maar.kube.wire.base import Object

T = TypeVar("T", bound=Object)


class Store:
    """Objects as they were last seen."""

    def __init__(self) -> None:
        self._kinds: dict[AnyKind, dict[str, Any]] = {}

    def of(self, kind: Kind[T]) -> dict[str, T]:
        """All objects of a kind by key; the same dictionary for ever."""
        return cast(dict[str, T], self._kinds.setdefault(kind, {}))
