"""Kubernetes objects as JSON: decoded as in a watch, and read from scratch as in `maar plan`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from maar.kube.kinds import AnyKind, kind_named
from maar.kube.picture.picture import Picture
from maar.kube.wire.decoding import decode_json
from maar.model.snapshot import Cluster

Json = dict[str, Any]


def decoded(item: Json) -> tuple[AnyKind, Any]:
    """The kind of an object, and the decoded object."""
    kind = kind_named(item["apiVersion"], item["kind"])
    assert kind is not None, item["kind"]
    return kind, decode_json(msgspec.json.encode(item), kind.resource.struct)


def from_scratch(items: Iterable[Json], names: frozenset[str] | None, now: float) -> Cluster:
    """The cluster of a new picture that has seen only these objects."""
    picture = Picture(names, settling=None)
    for item in items:
        picture.put(*decoded(item))
    picture.read_short()
    return picture.cluster(picture.take(now).around)
