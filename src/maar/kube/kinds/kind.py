"""What a kind of elastic job is: where it is served, how it is read, and how its size is written.

A write is a list of requests as plain data, made from the object as it was last seen. It names that version of the
object, so that whoever changed it in between is never overwritten: the server refuses, and the executor looks again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from maar.kube.kinds.reading import Kept, Reading, Stated, reading, write_kept
from maar.kube.wire import annotations as known
from maar.kube.wire.base import Object
from maar.kube.wire.resources import Resource

Annotations = Mapping[str, str | None]
"""What is to stand on an object; `None`: nothing."""


class Request(msgspec.Struct, frozen=True):
    """One request to the API server: a patch, or (`create`) a new object."""

    path: str
    body: dict[str, Any] | list[dict[str, Any]]
    patch: Literal["merge", "json"] = "merge"
    create: bool = False


class Wanted(msgspec.Struct, frozen=True):
    """How a job is to stand."""

    size: int
    suspended: bool
    kept: Kept
    annotations: dict[str, str | None] = {}
    """That are written with it."""

    @property
    def notes(self) -> dict[str, str | None]:
        """All annotations."""
        return {**self.annotations, known.ELASTIC: write_kept(self.kept)}


State = Callable[[Any], Stated | None]
Write = Callable[[Any, Resource[Object], Reading, Wanted], list[Request]]


@dataclass(frozen=True)
class Kind:
    """One kind. `look` gives nothing for jobs that have ended, or whose size somebody else owns."""

    resource: Resource[Object]
    look: State
    write: Write

    def read(self, item: Object, names: frozenset[str] | None) -> Reading | None:
        """The reading of one object."""
        stated = self.look(item)
        return None if stated is None else reading(item, stated, names)


def merge(item: Object, resource: Resource[Object], spec: dict[str, Any], notes: Annotations) -> Request:
    """A merge patch of the version that was seen, and of no other."""
    metadata = {"resourceVersion": item.metadata.resource_version, "annotations": dict(notes)}
    body: dict[str, Any] = {"metadata": metadata}
    if spec:
        body["spec"] = spec
    return Request(resource.path(item.namespace, item.name), body)
