"""The newest known version of each pod: from watches, or from the answers to Maar's own writes, which come earlier.

A bind right after a condition of ours would otherwise be refused, because the watch has not shown the condition yet.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

import msgspec

from maar.kube.read.pod_changes import alike
from maar.kube.wire.decoding import decode_json
from maar.kube.wire.errors import FieldError
from maar.kube.wire.pods import Pod
from maar.kube.write.fence import is_pod

MOST = 1024
"""Answers that are kept, about 3 kB each; tuned by hand."""


class Versions:
    """Pods as last seen."""

    def __init__(self, watched: Callable[[str], Pod | None]) -> None:
        """`watched` returns the pod with a key, as watches have shown it."""
        self._watched = watched
        self._answered: OrderedDict[str, Pod] = OrderedDict()

    def answered(self, path: str, body: bytes) -> None:
        """The server answered with an object."""
        if body and is_pod(path):
            try:
                self._answered[path] = decode_json(body, Pod)
            except (FieldError, msgspec.DecodeError):
                return
            self._answered.move_to_end(path)
            if len(self._answered) > MOST:
                self._answered.popitem(last=False)

    def covers(self, path: str, pod: Pod) -> bool:
        """Whether a write of Maar's was answered with this version of a pod or a later one."""
        answered = self._answered.get(path)
        return answered is not None and number(pod) <= number(answered)

    def newest(self, path: str, base: Pod) -> Pod:
        """The newest pod that is as `base`, apart from its version."""
        for seen in (self._watched(base.key), self._answered.get(path)):
            if seen is not None and number(seen) > number(base) and alike(base, seen):
                base = seen
        return base


def number(pod: Pod) -> int:
    """The version as a number: versions of one kind may be compared."""
    version = pod.metadata.resource_version
    return int(version) if version.isdecimal() else 0
