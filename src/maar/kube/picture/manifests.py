"""Manifests on disk to a cluster: files, folders, standard input.

Every error says where: `nodes.yaml: document 2: spec.unschedulable: expected ...`. Kinds that Maar does not read are
counted and otherwise ignored.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from maar.kube.read.cluster import to_cluster
from maar.kube.read.objects import KINDS, Objects
from maar.kube.wire.decoding import decode
from maar.kube.wire.errors import FieldError, ManifestError, ObjectError
from maar.kube.wire.resources import api_group
from maar.model.documents import DocumentError, documents
from maar.model.snapshot import Cluster

SUFFIXES = (".yaml", ".yml", ".json")
STDIN = "-"


class Manifests(NamedTuple):
    """What was read."""

    cluster: Cluster
    ignored: dict[str, int]
    """How many objects of kinds that Maar does not read, by kind."""


class Place(NamedTuple):
    """Where an object is: a document of a file, and inside it the path of a List's item."""

    document: str
    item: str = ""

    def __str__(self) -> str:
        return f"{self.document}: {self.item}" if self.item else self.document

    def error(self, field: str, problem: str) -> ManifestError:
        """What is wrong with a field of it."""
        path = ".".join(filter(None, (self.item, field)))
        return ManifestError(f"{self.document}: {path or 'document'}: {problem}")


class _Reading(msgspec.Struct):
    """What has been read so far."""

    objects: Objects
    ignored: dict[str, int]
    places: dict[tuple[str, str, str], Place]
    """Where each object was found, by home, kind and key."""


def read(paths: Iterable[str], scheduler_names: frozenset[str] | None = None, now: float = 0.0) -> Manifests:
    """The cluster that manifests describe; the arguments are those of `maar.kube.read.cluster.to_cluster`."""
    reading = _Reading(Objects(), {}, {})
    for path in paths:
        for source, text in _texts(path):
            for number, document in enumerate(_documents(text, source), 1):
                if document is not None:
                    _take(document, Place(f"{source}: document {number}"), reading)
    try:
        cluster = to_cluster(reading.objects, scheduler_names, now)
    except ObjectError as error:
        raise _located(error, reading) from None
    return Manifests(cluster, dict(sorted(reading.ignored.items())))


def _documents(text: bytes, source: str) -> Iterator[Any]:
    try:
        yield from documents(text)
    except DocumentError as error:
        line = "" if error.place is None else f"line {error.place.line}: "
        raise ManifestError(f"{source}: {line}not YAML: {error.problem}") from None


def _texts(path: str) -> Iterator[tuple[str, bytes]]:
    """The files that a path means, sorted, each with its content."""
    if path == STDIN:
        yield "stdin", sys.stdin.buffer.read()
        return
    place = Path(path)
    files = [place]
    if place.is_dir():
        files = sorted(f for f in place.rglob("*") if f.suffix in SUFFIXES and f.is_file())
        if not files:
            raise ManifestError(f"{path}: no manifests in this folder (*.yaml, *.yml, *.json)")
    for file in files:
        try:
            yield str(file), file.read_bytes()
        except FileNotFoundError:
            raise ManifestError(f"{file}: no such file") from None
        except OSError as error:
            raise ManifestError(f"{file}: cannot be read: {error.strerror}") from None


def _take(document: Any, place: Place, reading: _Reading) -> None:
    """One document, or one object of a List in it."""
    if not isinstance(document, dict):
        raise place.error("", "expected an object with apiVersion and kind")
    version, kind = (_text(document, field, place) for field in ("apiVersion", "kind"))
    if kind.endswith("List") and isinstance(document.get("items"), list):
        for i, inner in enumerate(document["items"]):
            if isinstance(inner, dict) and kind != "List":
                # The API server leaves these out of the objects of a typed list.
                inner = {"apiVersion": version, "kind": kind.removesuffix("List"), **inner}
            item = ".".join(filter(None, (place.item, f"items[{i}]")))
            _take(inner, Place(place.document, item), reading)
        return
    known = KINDS.get((api_group(version), kind))
    if known is None:
        reading.ignored[kind] = reading.ignored.get(kind, 0) + 1
        return
    try:
        made = decode(document, known.struct)
    except FieldError as error:
        raise place.error(error.field, error.problem) from None
    if not made.name:
        raise place.error("metadata.name", "missing")
    key = made.key if known.namespaced else made.name
    identity = (known.home, kind, key)
    if identity in reading.places:
        twice = f"{kind} `{key}` is there twice, first in {reading.places[identity]}"
        raise place.error("metadata.name", twice)
    reading.places[identity] = place
    getattr(reading.objects, known.home).append(made)


def _text(document: dict[str, Any], field: str, place: Place) -> str:
    value = document.get(field)
    if not isinstance(value, str) or not value:
        raise place.error(field, "missing" if value in (None, "") else f"expected text, got `{value}`")
    return value


def _located(error: ObjectError, reading: _Reading) -> ManifestError:
    """An object's error, with the place where the object was found."""
    for (_, kind), known in KINDS.items():
        key = error.key if known.namespaced else error.key.partition("/")[2]
        place = reading.places.get((known.home, kind, key))
        if kind == error.kind and place is not None:
            return place.error(error.field, error.problem)
    return ManifestError(str(error))
