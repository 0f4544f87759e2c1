"""Gathers the real load of nodes beside the loop, from the source that the configuration names.

Decisions never wait for it. If it fails, the last figures stay until they are too old (`maar.model.loads.MAX_AGE`), and
the next reading is tried after the usual interval. What a source says is checked: figures that cannot be true, and
those of nodes that do not exist, are left out with one line in the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from maar.config.config import Metrics
from maar.controller.loads.sources import Figure, Fractions, LoadSource, Reading, Unusable, open_source
from maar.kube.client.backoff import happens
from maar.kube.client.errors import ApiError
from maar.kube.client.reader import Reader
from maar.kube.kinds.cluster import NODES
from maar.kube.picture.picture import Picture
from maar.kube.read.loads import load, measured
from maar.kube.wire.cluster import Node
from maar.kube.wire.errors import FieldError
from maar.model.loads import MAX_AGE, Load

logger = logging.getLogger("maar.load")

PAUSE = 30.0
"""Seconds until it starts again after an error that no source should cause; tuned by hand."""


@dataclass(eq=False, slots=True)
class Gatherer:
    """Reads figures, and hands them to the picture.

    `changed` is called when there are new figures.
    """

    _api: Reader
    _picture: Picture
    _config: Callable[[], Metrics]
    _changed: Callable[[], None]
    _clock: Callable[[], float]
    pause: float = PAUSE
    _reconfigured: asyncio.Event = field(default_factory=asyncio.Event)
    loads: tuple[Load, ...] = ()
    """The last figures, by the name of the node."""
    _left_out: str = ""
    problem: str = ""
    """Why there are no new figures; empty while there are, and if none are wanted."""
    restarts: int = 0
    """How often figures came again after a failure."""

    def look(self) -> None:
        """The configuration has changed."""
        self._reconfigured.set()

    def known(self) -> int:
        """How many nodes have figures that are not too old."""
        now = self._clock()
        return sum(abs(now - load.at) <= MAX_AGE for load in self.loads)

    async def run(self) -> None:
        """Read figures until cancelled, whatever happens."""
        while True:
            try:
                await self._follow(self._config())
            except Exception as bug:  # noqa: BLE001 loads are missing meanwhile; decisions go on
                self._failed(f"because of a bug: {type(bug).__name__}: {bug}")
                await asyncio.sleep(self.pause)

    async def _follow(self, metrics: Metrics) -> None:
        """Read from the configured source until another one is configured."""
        source = open_source(metrics, self._api)
        try:
            while self._config() == metrics:
                self._reconfigured.clear()
                if source is not None:
                    await self._read(source, metrics)
                await happens(self._reconfigured, None if source is None else metrics.interval)
        finally:
            if source is not None:
                await source.close()
        self.problem = self._left_out = ""
        self._hand_over(())

    async def _read(self, source: LoadSource, metrics: Metrics) -> None:
        try:
            reading = await source.read()
        except (ApiError, Unusable, msgspec.MsgspecError, UnicodeDecodeError) as error:
            asked = metrics.address or (metrics.source.value if metrics.source else "")
            self._failed(f"{asked}: {error}")
            return
        loads = self._checked(reading)
        if self.problem:
            self.restarts += 1
            logger.info("the load of nodes is measured again")
        self.problem = ""
        self._hand_over(loads)

    def _failed(self, problem: str) -> None:
        if problem != self.problem:
            logger.warning("the load of nodes cannot be read, decisions continue without it: %s", problem)
        self.problem = problem

    def _hand_over(self, loads: tuple[Load, ...]) -> None:
        before, self.loads = self.loads, loads
        if before or loads:
            self._picture.measured(loads)
            self._changed()

    # -- what is believed

    def _checked(self, reading: Reading) -> tuple[Load, ...]:
        nodes, now = self._picture.objects.of(NODES), self._clock()
        found: dict[str, Load] = {}
        wrong = [f"{reading.malformed} malformed"] if reading.malformed else []
        strangers, untrue, first = 0, 0, ""
        for figure in reading.figures:
            name = _name(figure, nodes)
            if name is None:
                strangers += 1
                continue
            try:
                found[name] = _load(figure, nodes[name], now)
            except FieldError as error:
                untrue, first = untrue + 1, first or f"{name}: {error}"
        if untrue:
            wrong.append(f"{untrue} that cannot be true ({first})")
        if strangers:
            wrong.append(f"{strangers} of unknown nodes")
        self._complain(", ".join(wrong))
        return tuple(found[name] for name in sorted(found))

    def _complain(self, left_out: str) -> None:
        if left_out and left_out != self._left_out:
            logger.warning("figures of the load of nodes are left out: %s", left_out)
        self._left_out = left_out


def _name(figure: Figure, nodes: dict[str, Node]) -> str | None:
    """The node that a figure is about; `None` if there is none of that name, with or without a port."""
    name = figure.node if isinstance(figure, Fractions) else figure.name
    if name in nodes:
        return name
    host = name.rpartition(":")[0]
    return host if isinstance(figure, Fractions) and host in nodes else None


def _load(figure: Figure, node: Node, now: float) -> Load:
    """The load of a node; `FieldError` if no figure can be true."""
    if not isinstance(figure, Fractions):
        return load(figure, node)
    made = measured(node, figure.cpu, figure.memory, now if figure.at is None else figure.at)
    if made is None:
        shown = ", ".join(f"{value:g}" for value in (figure.cpu, figure.memory) if value is not None)
        raise FieldError("load", f"expected fractions, got {shown}")
    return made
