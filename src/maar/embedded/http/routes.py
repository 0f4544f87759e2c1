"""From a path to what it means: which kind, which object, which part of it."""

from __future__ import annotations

from typing import NamedTuple

from maar.embedded.objects.api import Api
from maar.embedded.objects.errors import no_such_path
from maar.embedded.objects.kinds import Kind


class Target(NamedTuple):
    """What a request is about."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    part: str = ""
    """A subresource."""


class Group(NamedTuple):
    """A group and version; empty where the path ends before."""

    group: str
    version: str
    rest: list[str]


def group_of(path: str) -> Group | None:
    """The group and version of a path; `None` for paths of other kinds."""
    words = path.strip("/").split("/")
    if words[0] == "api":
        return Group("", words[1] if len(words) > 1 else "", words[2:])
    if words[0] == "apis":
        return Group(words[1] if len(words) > 1 else "", words[2] if len(words) > 2 else "", words[3:])
    return None


def target(api: Api, group: Group) -> Target:
    """The kind and object that the rest of a path names."""
    rest, namespace = group.rest, ""
    if rest[0] == "namespaces" and len(rest) > 2 and not (not group.group and rest[2] in ("status", "finalize")):
        namespace, rest = rest[1], rest[2:]
    kind = api.kind(group.group, group.version, rest[0])
    name, part = (*rest[1:3], "", "")[:2]
    if len(rest) > 3 or (namespace and not kind.namespaced) or (name and kind.namespaced and not namespace):
        raise no_such_path()
    if part and part not in (line[0] for line in kind.subresources()):
        raise no_such_path()
    return Target(kind, namespace, name, part)
