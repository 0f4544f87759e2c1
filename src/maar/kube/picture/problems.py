"""What happens to an object that decodes but cannot be used: it is logged and left out, and the rest goes on.

Files are stricter: `manifests` makes it an error that says where the object is.
"""

from __future__ import annotations

import logging

from maar.kube.kinds import AnyKind
from maar.kube.wire.base import Object
from maar.kube.wire.errors import FieldError

log = logging.getLogger(__name__)


class Problems:
    """Logs each object once per version."""

    def __init__(self) -> None:
        self.bugs = 0
        """How often reading an object raised an unexpected error."""
        self._told: dict[tuple[AnyKind, str], str] = {}
        self._said: dict[str, str] = {}

    def found(self, kind: AnyKind, item: Object, error: FieldError, so: str) -> None:
        """A field of an object cannot be used; `so` says what follows."""
        place, version = (kind, kind.key_of(item)), item.metadata.resource_version
        if self._told.get(place) != version:
            self._told[place] = version
            log.warning("%s `%s`: %s: %s", kind, item.key, error, so)

    def bug(self, what: str, error: Exception) -> str:
        """Reading one object or gang raised an unexpected error: only it is invalid. Returns the reason."""
        self.bugs += 1
        reason = f"cannot be read because of a bug: {type(error).__name__}: {error}"[:200]
        if self._said.get(what) != reason:
            self._said[what] = reason
            log.error("%s: %s", what, reason, exc_info=error)
        return reason
