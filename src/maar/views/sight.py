"""What a viewer may know: names from the namespaces that she may read, and nothing but amounts of all others.

Every view asks here before it names a job, a pod or a namespace, and passes every sentence through `said`. There is no
second filter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

ANOTHER = "another job"
"""What a sentence says instead of a name that the viewer may not know."""

_KEY = re.compile(r"`?(?<![A-Za-z0-9_./%@-])([A-Za-z0-9_%@-]+)/([A-Za-z0-9._%@/-]+)`?")
"""What may be a key. Anyone can give a gang a name that no object could have, so names are matched widely."""
_QUOTED = re.compile(r"`([^`]*)`")


class Sight:
    """The namespaces that one viewer may read."""

    def __init__(self, namespaces: Iterable[str] = (), *, everything: bool = False) -> None:
        self.everything = everything
        self.namespaces = frozenset(namespaces)

    def __repr__(self) -> str:
        return "Sight(everything)" if self.everything else f"Sight({sorted(self.namespaces)})"

    def namespace(self, name: str) -> bool:
        """Whether names from a namespace may be shown."""
        return self.everything or name in self.namespaces

    def of(self, key: str) -> bool:
        """Whether a job or a pod (`namespace/name`) may be named."""
        return self.everything or key.partition("/")[0] in self.namespaces

    def named(self, key: str) -> str | None:
        """The key, or `None` if it may not be shown."""
        return key if self.of(key) else None

    def only(self, keys: Iterable[str]) -> tuple[str, ...]:
        return tuple(key for key in keys if self.of(key))

    def said(self, text: str, foreign: frozenset[str] = frozenset()) -> str:
        """A sentence without names from other namespaces. `foreign` are the namespaces of the cluster that have jobs.

        Sentences name jobs and pods by their keys, as `namespace/name`; a name of a resource has a dot before the
        slash, which no namespace has. A path that only looks like a key goes too: to say less is safe.
        """
        if self.everything:
            return text
        hidden = foreign - self.namespaces
        text = _KEY.sub(lambda m: m[0] if self.namespace(m[1]) or _is_count(m[1], m[2], hidden) else ANOTHER, text)
        return _QUOTED.sub(lambda m: "another namespace" if m[1] in hidden else m[0], text) if hidden else text


def _is_count(first: str, second: str, hidden: frozenset[str]) -> bool:
    """Whether what looks like a key is two numbers, as in `0/500 nodes`."""
    return first.isdecimal() and second.isdecimal() and first not in hidden


ALL = Sight(everything=True)
"""Sees everything: a viewer who may list pods in all namespaces, and commands that read the cluster themselves."""
