"""Which nodes already have the images that pods use.

A part of the picture. A node lists all images that it ever pulled, and the list changes whenever a pod starts. So lists
are kept as hashes and sizes, 16 bytes for each name, and only names that some pod uses are looked up. Pods and elastic
jobs are users of their images: a user is read again when the first node gets one of its images, or the last one loses
it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Collection, Hashable, Iterable

from maar.kube.read.shapes import full_image
from maar.kube.wire.cluster import Image as WireImage
from maar.model.nodes import Image


class Images:
    """Images on nodes, by the names that pods use."""

    def __init__(self) -> None:
        self.stale = True
        """Whether something has changed since the images were last taken."""
        self._lists: dict[str, tuple[array[int], array[int]]] = {}
        """The hashes of all names on a node, sorted, and the size of each image."""
        self._found: dict[str, dict[str, int]] = {}
        """The nodes that have an image that is used, with its size there."""
        self._users: dict[str, set[Hashable]] = {}
        self._used: dict[Hashable, frozenset[str]] = {}
        self._taken: tuple[Image, ...] = ()

    def note(self, node: str, images: Iterable[WireImage] | None) -> set[Hashable]:
        """A node came or changed, or (`None`) went: the users that are to be read again."""
        before = self._lists.pop(node, None)
        now = _list(images) if images is not None else None
        if now is not None and len(now[0]):
            self._lists[node] = now
        if before == now:
            return set()
        again: set[Hashable] = set()
        for name, nodes in self._found.items():
            size = None if now is None else _size(now, name)
            if nodes.get(node) == size:
                continue
            self.stale = True
            had = bool(nodes)
            nodes.pop(node, None)
            if size is not None:
                nodes[node] = size
            if had != bool(nodes):
                again |= self._users[name]
        return again

    def use(self, user: Hashable, names: Collection[str]) -> tuple[str, ...]:
        """The images that a pod or a job uses from now on; of these, the ones that some node has, sorted."""
        now, before = frozenset(names), self._used.get(user, frozenset())
        for name in now - before:
            self._users.setdefault(name, set()).add(user)
            if name not in self._found:
                sizes = ((node, _size(listed, name)) for node, listed in self._lists.items())
                self._found[name] = {node: size for node, size in sizes if size is not None}
                self.stale |= bool(self._found[name])
        for name in before - now:
            self._users[name].discard(user)
            if not self._users[name]:
                del self._users[name], self._found[name]
                self.stale = True
        self._used.pop(user, None)
        if now:
            self._used[user] = now
        return tuple(sorted(name for name in now if self._found[name]))

    def take(self) -> tuple[Image, ...]:
        """All images that are used and on some node."""
        if self.stale:
            by_size: dict[tuple[str, int], list[str]] = {}
            for name, nodes in self._found.items():
                for node, size in nodes.items():
                    by_size.setdefault((name, size), []).append(node)
            self._taken = tuple(Image(*key, tuple(sorted(nodes))) for key, nodes in sorted(by_size.items()))
            self.stale = False
        return self._taken


def _list(images: Iterable[WireImage]) -> tuple[array[int], array[int]]:
    """The sizes of the images of a node; if it lists a name twice, the last size counts."""
    found = {hash(full_image(name)): image.size_bytes for image in images for name in image.names}
    hashes = array("q", sorted(found))
    return hashes, array("q", (found[h] for h in hashes))


def _size(listed: tuple[array[int], array[int]], name: str) -> int | None:
    hashes, sizes = listed
    at = bisect_left(hashes, wanted := hash(name))
    return sizes[at] if at < len(hashes) and hashes[at] == wanted else None
