"""An owner who changes her objects all the time: before each write of Maar's to one of them, so that it comes late.

On a real server such an owner wins most races. Here she wins all of them, and no test depends on timing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from maar.embedded.http.faults import WRITES, nobody
from maar.embedded.http.routes import group_of, target
from maar.embedded.objects.errors import ApiError
from maar.embedded.server import EmbeddedServer

Change = Callable[[dict[str, Any], int], None]
"""Changes an object in place; the number is another one each time."""


def any_annotation(obj: dict[str, Any], number: int) -> None:
    obj["metadata"].setdefault("annotations", {})["example.com/number"] = str(number)


def what_maar_reads(obj: dict[str, Any], number: int) -> None:
    """Annotations and a label that decisions about a pod use."""
    notes = {"maar.dev/sla": f"{number}h", "volcano.sh/preemptable": "false" if number % 2 else "true"}
    obj["metadata"].setdefault("annotations", {}).update(notes)
    obj["metadata"].setdefault("labels", {})["example.com/number"] = str(number)


class Restless:
    """Changes objects whose names begin with one of these words."""

    def __init__(self, box: EmbeddedServer, *names: str, change: Change = any_annotation) -> None:
        self.changes: Counter[str] = Counter()
        """How often each write came late, by its last word: `binding`, `eviction`, `status`, the name of the object."""
        self._box, self._names, self._change = box, names, change
        self._numbers = count(1)

    def __call__(self, method: str, path: str) -> None:
        group = group_of(path)
        if method not in WRITES or group is None or not group.rest:
            return
        try:
            about = target(self._box.api, group)
            if not about.name.startswith(self._names):
                return
            self._box.api.change(about.kind, about.namespace, about.name, self._changed)
        except ApiError:  # it is gone, or being created
            return
        self.changes[path.rpartition("/")[2]] += 1

    def _changed(self, obj: dict[str, Any]) -> dict[str, Any]:
        self._change(obj, next(self._numbers))
        return obj


@contextmanager
def restless(box: EmbeddedServer, *names: str, change: Change = any_annotation) -> Iterator[Restless]:
    """From here on, and until the end of the block, an owner changes her objects all the time."""
    owner = Restless(box, *names, change=change)
    box.faults.before = owner
    try:
        yield owner
    finally:
        box.faults.before = nobody
