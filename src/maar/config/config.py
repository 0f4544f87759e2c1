"""A session's configuration: which actions in which order, which plugins in which tiers, which arguments.

Plain data, made once when a configuration file is read (`config.file`); a session only builds from it. What
exists to choose from is a `Catalog`, handed in from the registry: nothing here knows a plugin by name.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Any

import msgspec


class NoArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """For plugins and actions that take none."""


class OpenArguments(msgspec.Struct, frozen=True):
    """Arguments with open-ended names, such as `drf.namespace.<name>.weight`: the struct gathers them into fields."""

    @classmethod
    def normalise(cls, raw: dict[str, object]) -> dict[str, object]:
        """The arguments by field; a `ValueError` begins with the name of the argument that it refuses."""
        raise NotImplementedError


class Serving(enum.Enum):
    """Whether an algorithm serves jobs one after the other; the simulator relies on it."""

    TOGETHER = enum.auto()
    """It finds all sizes together, in no order."""
    IN_ORDER = enum.auto()
    """It serves jobs in an order. Its function takes a `maar.elastic.order.Serve` as a fourth argument."""
    IN_LINE = enum.auto()
    """As `IN_ORDER`, all jobs once, and waiting jobs keep their places in the order unless they are promoted."""


class Registration(msgspec.Struct, frozen=True):
    """One plugin, action or algorithm to choose from. The fields after `arguments` are for algorithms only."""

    name: str
    make: Callable[..., Any]
    """Makes a plugin or an action from its arguments. Of an algorithm: (jobs, gpus, arguments) to workers by row."""
    arguments: type[msgspec.Struct] = NoArguments
    """Their names, types and defaults."""
    serving: Serving = Serving.TOGETHER
    wake_after: Callable[..., float | None] | None = None
    """If time alone changes the answer: (jobs, workers, arguments) to the seconds until it does."""
    promotes_after: Callable[..., float] | None = None
    """If waiting promotes jobs: (arguments) to how many times as long as its last run a job waits for that. The GPU
    seconds of a promoted job are counted from 0 again when it starts."""


class Catalog(msgspec.Struct, frozen=True):
    """Everything there is to choose from."""

    plugins: Mapping[str, Registration]
    actions: Mapping[str, Registration]
    aliases: Mapping[str, str] = {}
    """Names that Volcano's users write for what has another name here."""
    missing: Mapping[str, str] = {}
    """Names that Volcano has and Maar has not yet, and what is lost without them."""
    algorithms: Mapping[str, Registration] = {}
    """How many workers each elastic job gets."""
    broken: Mapping[str, str] = {}
    """Names that are installed but cannot be loaded, and why."""
    ignored: Mapping[str, Mapping[str, str]] = {}
    """By plugin or action: arguments (`*` for any ending) that Volcano has and that change nothing here, and why."""


class Option(msgspec.Struct, frozen=True):
    """One configured plugin or action."""

    registration: Registration
    arguments: msgspec.Struct

    @property
    def name(self) -> str:
        """The name in the registry."""
        return self.registration.name

    def build(self) -> Any:
        """An action or a plugin for one session, as in `maar.session.extension`."""
        return self.registration.make(self.arguments)


class ActionOption(Option, frozen=True):
    """One configured action."""


class PluginOption(Option, frozen=True):
    """One configured plugin."""

    flags: dict[str, bool] = msgspec.field(default_factory=dict)
    """Hooks switched on or off, as in `register.FLAGS`; what the file does not say is missing."""


class PoolOption(msgspec.Struct, frozen=True):
    """One configured pool. Times are seconds; a zero switches a limit off."""

    name: str
    nodes: dict[str, str]
    """Labels that its nodes have; empty: all nodes that no other pool names."""
    algorithm: Registration
    arguments: msgspec.Struct
    """The algorithm's."""
    rate_limit: float = 30.0
    """Between two changes of sizes in the pool."""
    minimum_time: float = 60.0
    """Between two changes of one job's size."""
    hysteresis: int = 0
    """Changes of so many workers or fewer are not made."""
    restart: float = 30.0
    """What a change costs each worker of a job that does not say."""
    horizon: float = 600.0
    """Within which growth must have paid for its restart."""
    hold: float = 300.0
    """For how long room is kept for workers that do not come."""
    migrate: bool = False
    """Whether workers may be moved so that jobs lie on fewer nodes."""


class Config(msgspec.Struct, frozen=True):
    """A whole configuration."""

    actions: tuple[ActionOption, ...]
    tiers: tuple[tuple[PluginOption, ...], ...]
    pools: tuple[PoolOption, ...] = ()
    """How elastic jobs share the nodes; the last one is for nodes that no other names."""

    def has_action(self, *names: str) -> bool:
        """Whether one of those actions is configured."""
        return any(a.name in names for a in self.actions)
