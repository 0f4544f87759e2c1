"""Manifests on disk to a cluster: files, folders, standard input.

Every error says where: `nodes.yaml: document 2: spec.unschedulable: expected ...`. Kinds that Maar does not read are
counted and otherwise ignored.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from maar.kube.kinds import AnyKind, kind_named
from maar.kube.kinds.cluster import PODS
from maar.kube.kinds.fields import warnings_about
from maar.kube.picture.expected import Skipped, expect
from maar.kube.picture.picture import Picture
from maar.kube.picture.problems import Problems
from maar.kube.wire.base import Object
from maar.kube.wire.decoding import decode
from maar.kube.wire.errors import FieldError, ManifestError
from maar.model.documents import DocumentError, documents
from maar.model.snapshot import Cluster

SUFFIXES = (".yaml", ".yml", ".json")
STDIN = "-"


class Manifests(NamedTuple):
    cluster: Cluster
    ignored: dict[str, int]
    """The number of objects that Maar does not read, by kind."""
    expected: dict[str, int]
    """The number of pods by job, where a job has none and is planned as if its controller had created them."""
    skipped: tuple[Skipped, ...]
    """Jobs without pods that are not planned."""
    warnings: list[str]
    """Fields that Maar does not know, where it knows all."""
    picture: Picture


class ManifestPlace(NamedTuple):
    """Where an object is: the document in a file, and the path in a List."""

    document: str
    item: str = ""

    def __str__(self) -> str:
        return f"{self.document}: {self.item}" if self.item else self.document

    def inside(self, field: str) -> ManifestPlace:
        """The place of a part of the object."""
        return ManifestPlace(self.document, ".".join(filter(None, (self.item, field))))

    def error(self, field: str, problem: str) -> ManifestError:
        path = ".".join(filter(None, (self.item, field)))
        return ManifestError(f"{self.document}: {path or 'document'}: {problem}")


class _Files(Problems):
    """What has been read so far; an object that cannot be used is an error that says where it is."""

    def __init__(self) -> None:
        super().__init__()
        self.ignored: dict[str, int] = {}
        self.warnings: list[str] = []
        self.places: dict[tuple[AnyKind, str], ManifestPlace] = {}
        """Where each object was found, by kind and key."""
        self.objects: list[tuple[AnyKind, Object]] = []

    def invalid(self, kind: AnyKind | str, key: str, reason: str, so: str = "") -> None:
        """Do nothing: the plan shows what waits, and why."""

    def doubtful(self, kind: AnyKind | str, key: str, doubt: str) -> None:
        """Probably not what its owner means: a warning that says where it is."""
        place = self.places.get((kind, key)) if not isinstance(kind, str) else None
        self.warnings.append(f"{place or key}: {doubt}")

    def found(self, kind: AnyKind, item: Object, error: FieldError, so: str) -> str:
        """A field of an object cannot be used."""
        raise self.places[kind, kind.key_of(item)].error(error.field, error.problem) from None

    def bug(self, kind: AnyKind | str, key: str, error: Exception) -> str:
        """Files are read once: a bug, or an error that says where it is, ends the reading."""
        raise error


def read(paths: Iterable[str], scheduler_names: frozenset[str] | None = None, now: float = 0.0) -> Manifests:
    """The cluster that manifests describe.

    Pods with one of `scheduler_names` are ours (`None`: all are). Pods of other schedulers take room where they are
    bound, belong to no queue and are never evicted. `now` is the creation time of what does not state one.
    """
    return read_texts((text for path in paths for text in _texts(path)), scheduler_names, now)


def read_texts(
    texts: Iterable[tuple[str, bytes]],
    scheduler_names: frozenset[str] | None = None,
    now: float = 0.0,
    beside: Iterable[tuple[AnyKind, Object]] = (),
    most: int | None = None,
) -> Manifests:
    """The same for texts, each with its name. `beside` are objects that manifests refer to, such as PriorityClasses.

    `most`: how many pods all of them may have, also those that controllers would create.
    """
    files = _Files()
    for source, text in texts:
        for number, document in enumerate(_documents(text, source), 1):
            if document is not None:
                _take(document, ManifestPlace(f"{source}: document {number}"), files)
    picture = Picture(scheduler_names, problems=files, settling=None)
    for kind, item in beside:
        if files.places.setdefault((kind, kind.key_of(item)), ManifestPlace("cluster")).document == "cluster":
            picture.put(kind, item)
    for kind, item in files.objects:
        picture.put(kind, item)
    made = expect(picture, scheduler_names, most=most)
    expected = Counter[str]()
    for owner, pods in made.pods:
        expected[owner.place[1]] += len(pods)
        files.places.update(dict.fromkeys(((PODS, pod) for pod in pods), files.places[owner.place].inside("template")))
    picture.read_short()
    cluster = picture.cluster(picture.take(now).around)
    ignored = dict(sorted(files.ignored.items()))
    return Manifests(cluster, ignored, dict(sorted(expected.items())), made.skipped, files.warnings, picture)


def read_into(picture: Picture, paths: Iterable[str], scheduler_names: frozenset[str] | None, now: float) -> Manifests:
    """The cluster of a picture with what manifests add to it, or replace.

    Only jobs of the manifests are planned as if their controllers had created their pods.
    """
    files = _Files()
    for place, document in documents_in(paths):
        _take(document, place, files)
    for kind, item in files.objects:
        picture.put(kind, item)
    made = expect(picture, scheduler_names, only=frozenset(files.places))
    picture.read_short()
    expected = {owner.place[1]: len(pods) for owner, pods in made.pods}
    cluster = picture.cluster(picture.take(now).around)
    ignored = dict(sorted(files.ignored.items()))
    return Manifests(cluster, ignored, dict(sorted(expected.items())), made.skipped, files.warnings, picture)


def documents_in(paths: Iterable[str]) -> Iterator[tuple[ManifestPlace, Any]]:
    """All documents of files, folders or standard input, with their places."""
    for path in paths:
        for source, text in _texts(path):
            for number, document in enumerate(_documents(text, source), 1):
                if document is not None:
                    yield ManifestPlace(f"{source}: document {number}"), document


def _documents(text: bytes, source: str) -> Iterator[Any]:
    try:
        yield from documents(text)
    except DocumentError as error:
        line = "" if error.place is None else f"line {error.place.line}: "
        raise ManifestError(f"{source}: {line}not YAML: {error.problem}") from None


def _texts(path: str) -> Iterator[tuple[str, bytes]]:
    """The files of a path, sorted, each with its content."""
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


def _take(document: Any, place: ManifestPlace, files: _Files) -> None:
    """One document, or one object of a List in it."""
    if not isinstance(document, dict):
        raise place.error("", "expected an object with apiVersion and kind")
    version, kind = (_text(document, field, place) for field in ("apiVersion", "kind"))
    if kind.endswith("List") and isinstance(document.get("items"), list):
        for i, inner in enumerate(document["items"]):
            if isinstance(inner, dict) and kind != "List":
                # The API server omits these fields in the items of a typed list.
                inner = {"apiVersion": version, "kind": kind.removesuffix("List"), **inner}
            _take(inner, place.inside(f"items[{i}]"), files)
        return
    known = kind_named(version, kind)
    if known is None or known.only not in ("", _name(document)):
        files.ignored[kind] = files.ignored.get(kind, 0) + 1
        return
    try:
        made = decode(document, known.resource.struct)
    except FieldError as error:
        raise place.error(error.field, error.problem) from None
    if not made.name:
        raise place.error("metadata.name", "missing")
    found = (known, key := known.key_of(made))
    if found in files.places:
        raise place.error("metadata.name", f"{kind} `{key}` is there twice, first in {files.places[found]}")
    files.warnings += (f"{place}: {warning}" for warning in warnings_about(known, document))
    if known.only and (other := next((f for k, f in files.places.items() if k[0] is known), None)) is not None:
        problem = f"{kind} `{made.name}` is there in two namespaces, first in {other}: give only Maar's own"
        raise place.error("metadata.namespace", problem)
    files.places[found] = place
    files.objects.append((known, made))


def _name(document: dict[str, Any]) -> str:
    metadata = document.get("metadata")
    return str(metadata.get("name", "")) if isinstance(metadata, dict) else ""


def _text(document: dict[str, Any], field: str, place: ManifestPlace) -> str:
    value = document.get(field)
    if not isinstance(value, str) or not value:
        raise place.error(field, "missing" if value in (None, "") else f"expected text, got `{value}`")
    return value
