"""Routes: which kind, object and subresource a URL path names."""

from __future__ import annotations

from typing import NamedTuple

from maar.embedded.objects.api import Api
from maar.embedded.objects.errors import no_such_path
from maar.embedded.objects.kinds import Kind


class Target(NamedTuple):
    """The kind, and the object and subresource if the path names them."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    part: str = ""
    """The subresource."""


class Group(NamedTuple):
    """The group and version of a path, empty if the path is shorter, and the other segments."""

    group: str
    version: str
    rest: list[str]


def group_of(path: str) -> Group | None:
    """The group and version of a path; `None` if the path is outside `/api` and `/apis`."""
    words = path.strip("/").split("/")
    if words[0] == "api":
        return Group("", words[1] if len(words) > 1 else "", words[2:])
    if words[0] == "apis":
        return Group(words[1] if len(words) > 1 else "", words[2] if len(words) > 2 else "", words[3:])
    return None


def target(api: Api, group: Group) -> Target:
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
