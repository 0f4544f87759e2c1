"""What all answers under /api/v1 are made from, and who asks for them.

Views are made in threads, from a snapshot that does not change, so that the watches are read meanwhile.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from maar.history.history import History
from maar.kube.client.reader import Reader
from maar.kube.kinds.cluster import PRIORITY_CLASSES
from maar.kube.wire.base import Object
from maar.views.records import State
from maar.views.sight import Sight
from maar.web.api.access import RightsCheck
from maar.web.api.errors import Refused
from maar.web.api.guard import Guard
from maar.web.api.mirror import Mirror, Moment
from maar.web.api.recordings import Recordings
from maar.web.api.writing import Token, Writer
from maar.web.forecasting.keeper import Keeper, Latest
from maar.web.reviews import User
from maar.web.workers.pool import UNKNOWN, Known, WorkerPool
from maar.whatif.edit import Scene
from maar.whatif.why import Why

T = TypeVar("T")

NO_FORECASTS = "this `maar web` makes no forecasts"
REMEMBERED = 64
"""Answers about single jobs that are kept: the search for changes is expensive."""
GOOD_FOR = 10.0
"""Seconds for which such an answer is given again."""


class UserRequest(msgspec.Struct, frozen=True):
    """A request of a user."""

    user: User
    sight: Sight
    moment: Moment
    query: Any
    parts: dict[str, str]
    """The variable parts of the path."""
    body: Any = None
    token: Token | None = None
    """The token of a user who may write; only for routes that write."""
    writes: bool = False
    """Whether this user could write here."""


@dataclass(eq=False)
class Api1:
    """Answers questions about one cluster."""

    mirror: Mirror
    access: RightsCheck
    guard: Guard
    kube: Reader
    history: History
    writer: Writer | None = None
    """`None`: writes are off."""
    recordings: Recordings = field(default_factory=Recordings)
    keeper: Keeper | None = None
    pool: WorkerPool = field(default_factory=WorkerPool)
    """What reads and computes expensive questions."""
    known: OrderedDict[tuple[str, bool, float, State], tuple[int, float, Why]] = field(default_factory=OrderedDict)
    _views: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(2))
    _scene: tuple[int, Scene | None, Known] = (0, None, UNKNOWN)

    async def asked(
        self,
        user: User,
        query: Any,
        parts: dict[str, str],
        body: Any = None,
        token: Token | None = None,
        writes: bool = False,
    ) -> UserRequest:
        """The request, with what the user may see now."""
        moment = self.mirror.moment
        if moment is None:
            raise Refused(503, f"not ready: {self.mirror.not_ready()}", after=2)
        names = moment.tally.namespaces
        if namespace := parts.get("namespace"):
            names = names | {namespace}
        return UserRequest(user, await self.access.sight(user, names), moment, query, parts, body, token, writes)

    def stamp(self, moment: Moment) -> dict[str, float]:
        as_of = self.mirror.as_of()
        return {
            "as_of": round(as_of, 3),
            "age": round(max(time.time() - as_of, 0.0), 3),
            "decided_at": round(moment.tally.now, 3),
        }

    async def made(self, make: Callable[[], Any]) -> Any:
        return await finished(self._made(make))

    async def _made(self, make: Callable[[], Any]) -> Any:
        async with self._views:
            return await asyncio.to_thread(make)

    @property
    def latest(self) -> Latest | None:
        """The newest forecast."""
        return None if self.keeper is None else self.keeper.latest

    def beside(self) -> tuple[Object, ...]:
        """Objects of the cluster that manifests refer to."""
        return tuple(self.mirror.observer.picture.objects.of(PRIORITY_CLASSES).values())

    def scene(self, moment: Moment) -> Scene:
        """The cluster now; the same object while nothing was decided, because workers know it already."""
        return self.about(moment)[0]

    def about(self, moment: Moment) -> tuple[Scene, Known]:
        """The same, with the plan of the shadow for it, if that is the plan: brakes keep parts of it back."""
        number, scene, known = self._scene
        if scene is None or number != moment.number:
            scene, known = Scene(self.mirror.cluster(), moment.config), UNKNOWN
            if self.mirror.is_latest(moment):
                known = self.known_plan(moment)
            self._scene = moment.number, scene, known
        return scene, known

    def known_plan(self, moment: Moment) -> Known:
        """The time of a moment, and its plan with all jobs that wait; unknown if brakes may have changed it."""
        if self.mirror.is_braked:
            return UNKNOWN
        tally = moment.tally
        return tally.now, msgspec.structs.replace(tally.plan, waiting=tuple(tally.waits.values()))


async def finished(working: Coroutine[Any, Any, T]) -> T:
    """The result of work that goes on to its end, also when nobody waits for it: a thread, or several writes."""
    task = asyncio.ensure_future(working)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return await asyncio.shield(task)


async def in_thread(make: Callable[[Callable[[], bool]], T]) -> T:
    """The result of work in a thread that asks whether anybody still waits for it."""
    gone = threading.Event()
    try:
        return await asyncio.to_thread(make, lambda: not gone.is_set())
    finally:
        gone.set()
