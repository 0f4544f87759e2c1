"""Invalid objects: why each cannot be used, in one table. Each is logged once; the rest of the cluster goes on.

    undecoded   a field cannot be decoded; the picture has the object without it
    found       a field decodes and makes no sense
    bug         reading the object raised an unexpected error: a bug of ours

Every part of the picture reports here, and asks here what is `undecoded`. Metrics show the numbers. Files are stricter:
`manifests` makes an invalid object an error that says where it is.
"""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from maar.kube.kinds import AnyKind
from maar.kube.wire.base import Object
from maar.kube.wire.errors import FieldError

log = logging.getLogger(__name__)

REMEMBERED = 10_000
"""Log lines that are not repeated; tuned by hand."""
LONGEST = 200
"""Characters of a reason that quotes an error; tuned by hand."""

Place = tuple[AnyKind | str, str]
"""The kind and key of an object, or what else was read, such as a gang."""


class Problems:
    """Invalid objects and their reasons."""

    def __init__(self) -> None:
        self.bugs = 0
        """How often reading an object raised an unexpected error."""
        self.undecoded: dict[tuple[AnyKind, str], str] = {}
        """Objects with fields that cannot be decoded."""
        self._reasons: dict[Place, str] = {}
        self._said: OrderedDict[tuple[Place, str], None] = OrderedDict()

    def counts(self) -> Counter[str]:
        """The number of invalid objects of each kind."""
        return Counter(str(kind) for kind, _ in self._reasons)

    def reasons(self) -> dict[tuple[str, str], str]:
        """Why each invalid object is invalid, by kind and key."""
        return {(str(kind), key): reason for (kind, key), reason in self._reasons.items()}

    def invalid(self, kind: AnyKind | str, key: str, reason: str, so: str = "") -> None:
        """An object is invalid; `so` says what follows."""
        self._reasons[kind, key] = reason
        if self._is_new((kind, key), reason):
            log.warning("%s `%s`: %s%s", kind, key, reason, f": {so}" if so else "")

    def doubtful(self, kind: AnyKind | str, key: str, doubt: str) -> None:
        """An object is valid, but probably not what its owner means."""
        if self._is_new((kind, key), doubt):
            log.warning("%s `%s`: %s", kind, key, doubt)

    def valid(self, kind: AnyKind | str, key: str) -> None:
        """An object is valid, or gone."""
        if self._reasons:
            self._reasons.pop((kind, key), None)

    def found(self, kind: AnyKind, item: Object, error: FieldError, so: str) -> str:
        """A field of an object cannot be used. Returns the reason."""
        self.invalid(kind, kind.key_of(item), str(error), so)
        return str(error)

    def bug(self, kind: AnyKind | str, key: str, error: Exception) -> str:
        """Reading one object or gang raised an unexpected error: only it is invalid. Returns the reason."""
        self.bugs += 1
        said = str(error)
        said = said if said.isprintable() else said.encode("unicode_escape").decode()
        reason = f"cannot be read because of a bug: {type(error).__name__}: {said}"[:LONGEST]
        self._reasons[kind, key] = reason
        if self._is_new((kind, key), reason):
            log.error("%s `%s`: %s", kind, key, reason, exc_info=error)
        return reason

    @contextmanager
    def isolated(self, kind: AnyKind | str, key: str) -> Iterator[None]:
        """Do something about one object or job: an unexpected error affects only that."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 a bug of ours affects this object only
            self.bug(kind, key, error)
        else:
            self.valid(kind, key)

    def _is_new(self, place: Place, reason: str) -> bool:
        said = (place, reason)
        if said in self._said:
            return False
        self._said[said] = None
        if len(self._said) > REMEMBERED:
            self._said.popitem(last=False)
        return True
