"""The configuration of a session: the order of actions, the plugins in their tiers, and all arguments.

Plain data, made once when `config.file` reads a configuration file. The registry hands in a `Catalog` of everything
that can be configured: this module knows no plugin by name.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

import msgspec

from maar.model.codes import Code, Meaning


class NoArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of plugins and actions that have none."""


class WithoutArguments:
    """The base of plugins and actions without arguments."""

    def __init__(self, arguments: NoArguments) -> None:
        """Nothing is read from them."""


class OpenArguments(msgspec.Struct, frozen=True):
    """Arguments with open-ended names, such as `drf.namespace.<name>.weight`: the struct gathers them into fields."""

    @classmethod
    def normalise(cls, raw: dict[str, object]) -> dict[str, object]:
        """The arguments by field; a `ValueError` starts with the name of the argument that it refuses."""
        raise NotImplementedError


@runtime_checkable
class Explained(Protocol):
    """Arguments that say in a sentence what they change."""

    def notes(self) -> list[str]:
        """One for each argument that is set; `maar config check` prints them."""
        ...


class Serving(enum.Enum):
    """Whether an algorithm serves jobs one after the other; the simulator relies on this."""

    TOGETHER = enum.auto()
    """It computes all sizes together, in no order."""
    IN_ORDER = enum.auto()
    """It serves jobs in an order. Its function takes a `maar.elastic.order.Serve` as a fourth argument."""
    IN_LINE = enum.auto()
    """Like `IN_ORDER`, each job once, and waiting jobs keep their places in the order unless they are promoted."""


class Registration(msgspec.Struct, frozen=True):
    """One plugin, action or algorithm that can be configured. The fields after `arguments` are for algorithms only, but
    `codes`."""

    name: str
    make: Callable[..., Any]
    """Makes a plugin or an action from its arguments. For an algorithm: (jobs, gpus, arguments) to workers by row."""
    arguments: type[msgspec.Struct] = NoArguments
    """Their names, types and defaults."""
    serving: Serving = Serving.TOGETHER
    wake_after: Callable[..., float | None] | None = None
    """Set if time alone changes the sizes: (jobs, workers, arguments) to the seconds until that happens."""
    promotes_after: Callable[..., float] | None = None
    """Set if waiting promotes jobs: (arguments) to the multiple of its last run that a job must wait to be promoted.
    The GPU seconds of a promoted job are counted from 0 when it starts again."""
    weighs_restarts: bool = False
    """Whether it weighs the cost of restarts itself (`size` and `restart` of the jobs): all its changes are made."""
    codes: tuple[Code, ...] = ()
    """For a plugin or an action: the codes of its refusals and reasons, and what each means."""


class Missing(msgspec.Struct, frozen=True):
    """A plugin or an action that Volcano or a vendor has and Maar does not have."""

    lost: str
    """What is missing without it."""
    misplaces: bool = False
    """Whether pods could land where they must not without it: then a file that names it is refused, unless the
    reader is lenient."""


class Ignored(msgspec.Struct, frozen=True):
    """An argument of Volcano that has no effect in Maar."""

    why: str
    """What it would do, or why that is not needed."""
    unless: bool | float | None = None
    """The value that changes nothing in Volcano either: it gives no warning."""


class Catalog(msgspec.Struct, frozen=True):
    """Everything that can be configured."""

    plugins: Mapping[str, Registration]
    actions: Mapping[str, Registration]
    aliases: Mapping[str, str] = {}
    """Volcano's names for plugins and actions that have another name in Maar."""
    missing: Mapping[str, Missing] = {}
    """Names (`*` for any ending) that Volcano or a vendor has and Maar does not have."""
    algorithms: Mapping[str, Registration] = {}
    """They decide how many workers each elastic job gets."""
    broken: Mapping[str, str] = {}
    """Names that are installed but cannot be loaded, and why."""
    ignored: Mapping[str, Mapping[str, Ignored]] = {}
    """By plugin or action: arguments of Volcano (`*` for any ending) that have no effect in Maar."""


class Option(msgspec.Struct, frozen=True):
    """One configured plugin or action."""

    registration: Registration
    arguments: msgspec.Struct

    @property
    def name(self) -> str:
        return self.registration.name

    def build(self) -> Any:
        """A new action or plugin for one session, as in `maar.session.extension`."""
        return self.registration.make(self.arguments)


class ActionOption(Option, frozen=True):
    """One configured action."""


class PluginOption(Option, frozen=True):
    """One configured plugin."""

    flags: dict[str, bool] = msgspec.field(default_factory=dict)
    """Hooks that the file switches on or off, by the flags in `config.flags.FLAGS`."""


class PoolRules(msgspec.Struct, frozen=True, rename="kebab"):
    """What is stated about a pool, besides its algorithm. Times are in seconds; 0 switches a limit off."""

    name: str
    nodes: dict[str, str] = {}
    """Labels of its nodes; empty: all nodes that no other pool selects."""
    rate_limit: float = 30.0
    """Minimum time between two changes of sizes in the pool."""
    minimum_time: float = 60.0
    """Minimum time between two changes of the size of one job."""
    hysteresis: int = 0
    """Changes by this number of workers or fewer are not made."""
    restart: float = 30.0
    """What a resize costs each worker of a job that does not declare it."""
    horizon: float = 600.0
    """Time within which growth must pay for its restart."""
    hold: float = 300.0
    """How long room is held for workers that do not appear."""
    migrate: bool = False
    """Whether workers may move so that jobs use fewer nodes."""
    pack: bool = False
    """Whether jobs grow only on the fewest nodes that hold their workers, and move there as a whole if needed."""


class PoolOption(PoolRules, frozen=True, kw_only=True):
    """One configured pool."""

    algorithm: Registration
    arguments: msgspec.Struct
    """For the algorithm."""


class Tenants(enum.Enum):
    """How far Maar believes what tenants state to protect their own running pods (docs/security.md)."""

    TRUSTED = "trusted"
    """As in Volcano: a stated protection always holds."""
    UNTRUSTED = "untrusted"
    """It holds for as many pods as fit the deserved share of their queue."""


class Autoscaling(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """The waiting pods for which an autoscaler is asked to create nodes."""

    surplus: bool = False
    """Ask for nodes also for pods above the minimum of their gang, such as further workers of an elastic job."""
    provisioning_class: str = ""
    """The class of the ProvisioningRequest for each gang that needs new nodes; empty: no such requests."""


class LoadOrigin(enum.Enum):
    """The source of the real load of nodes."""

    PROMETHEUS = "prometheus"
    """Prometheus itself, by its HTTP API."""
    ADAPTOR = "prometheus_adaptor"
    """The API `custom.metrics.k8s.io`, as Prometheus Adapter serves it with the rules of Volcano's guide."""
    METRICS_SERVER = "metrics_server"
    """The API `metrics.k8s.io`. Only Maar has it."""


class Metrics(msgspec.Struct, frozen=True):
    """How the real load of nodes is gathered."""

    source: LoadOrigin | None = None
    """`None`: not at all."""
    address: str = ""
    """The URL of Prometheus."""
    interval: float = 30.0
    """Seconds between two readings. A pod that has started more recently is not believed to be in the figures."""
    insecure: bool = False
    """Whether the certificate of the server is not checked."""


class Config(msgspec.Struct, frozen=True):
    """A whole configuration."""

    actions: tuple[ActionOption, ...]
    tiers: tuple[tuple[PluginOption, ...], ...]
    pools: tuple[PoolOption, ...] = ()
    """How elastic jobs share the nodes; the last pool has the nodes that no other pool selects."""
    tenants: Tenants = Tenants.TRUSTED
    autoscaling: Autoscaling = Autoscaling()
    metrics: Metrics = Metrics()
    pod_events: bool = False
    """Write an event for each bound pod, as kube-scheduler does, besides the event for its gang."""

    @property
    def meanings(self) -> dict[str, Meaning]:
        """What the codes of the configured plugins and actions mean."""
        options = (*self.actions, *(option for tier in self.tiers for option in tier))
        return {code.name: code.meaning for option in options for code in option.registration.codes}

    def has_action(self, *names: str) -> bool:
        return any(a.name in names for a in self.actions)
