"""Fields of JSON documents by path: `spec.tasks[].template` (each item of a list), `spec.roles.*.template` (each value
of a map)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from maar.kube.submit.errors import BadManifest

Json = dict[str, Any]
EACH, ANY = "[]", "*"


class Found(NamedTuple):
    """A value, and the path at which it is."""

    path: str
    value: Any


def found(document: Json, path: str) -> Iterator[Found]:
    """The values at a path; none where a part of it is missing or of another type."""
    yield from _inside(document, path.split("."), "")


def _inside(value: Any, steps: list[str], at: str) -> Iterator[Found]:
    if not steps:
        yield Found(at, value)
        return
    step, rest = steps[0], steps[1:]
    name, each = step.removesuffix(EACH), step.endswith(EACH)
    if not isinstance(value, dict):
        return
    for key in sorted(value) if name == ANY else [name] if name in value else []:
        inner, here = value[key], f"{at}.{key}" if at else str(key)
        if not each:
            yield from _inside(inner, rest, here)
        elif isinstance(inner, list):
            for i, item in enumerate(inner):
                yield from _inside(item, rest, f"{here}[{i}]")


def value_at(document: Json, path: str) -> Any:
    """The value at a plain path; `None` if it is missing."""
    return next((f.value for f in found(document, path)), None)


def set_at(document: Json, path: str, value: Any) -> None:
    """Set a value at a plain path; maps on the way are created."""
    *steps, last = path.split(".")
    for i, step in enumerate(steps):
        inner = document.setdefault(step, {})
        if inner is None:
            inner = document[step] = {}
        if not isinstance(inner, dict):
            raise BadManifest(".".join(steps[: i + 1]), f"expected a mapping, got `{inner}`")
        document = inner
    document[last] = value


def nested(path: str, value: Any) -> Json:
    """A document with one value at a plain path."""
    made: Json = {}
    set_at(made, path, value)
    return made
