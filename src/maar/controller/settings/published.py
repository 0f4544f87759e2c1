"""The configuration that a running Maar decides with, for everyone who may sign in: the ConfigMap `maar-configuration`.

The leader writes it (`maar.controller.writing.publishing`), and commands read it, so that they decide as the scheduler
does, and within its brakes. It has an entry for each Maar in the namespace, and no addresses or secrets.
"""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import yaml

from maar import __version__
from maar.config.config import Config
from maar.config.normal import Normal, normal, read_normal
from maar.config.problems import ConfigError
from maar.controller.settings.brakes import BrakeSettings
from maar.controller.settings.settings import Settings
from maar.kube.wire.cluster import ConfigMap
from maar.model.selectors import Requirement, Selector
from maar.registry import catalog

OPERATOR = "In"
"""Of the labels in `--node-selector`: each has one value."""


class Published(msgspec.Struct, frozen=True, rename="kebab"):
    """One entry: what one Maar decides by."""

    scheduler_names: tuple[str, ...]
    configuration: Normal
    since: str = ""
    """When this Maar began to use it."""
    version: str = ""
    nodes: dict[str, str] = {}
    """The labels of its nodes; empty: all nodes."""
    without: tuple[str, ...] = ()
    """Families of kinds that it leaves alone."""
    brakes: BrakeSettings = BrakeSettings()

    @property
    def selector(self) -> Selector | None:
        requirements = tuple(Requirement(key, OPERATOR, (value,)) for key, value in self.nodes.items())
        return Selector(requirements) if requirements else None

    def config(self) -> Config:
        """Raises `ConfigError` if this Maar does not have what the other one uses."""
        return read_normal(self.configuration, catalog())


def published(config: Config, settings: Settings, now: float, brakes: BrakeSettings) -> Published:
    """What a Maar publishes."""
    selector = settings.node_selector
    return Published(
        scheduler_names=tuple(sorted(settings.scheduler_names)),
        configuration=normal(config),
        since=datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d %H:%M:%SZ"),
        version=__version__,
        nodes={} if selector is None else {r.key: r.values[0] for r in selector.requirements if r.values},
        without=tuple(sorted(settings.without)),
        brakes=brakes,
    )


def write_entry(entry: Published) -> str:
    """The text of an entry: YAML, for people who look at it."""
    return yaml.safe_dump(msgspec.to_builtins(entry), sort_keys=False, allow_unicode=True, width=120)


def read_entry(text: str) -> Published:
    """An entry; a `ConfigError` if it is malformed."""
    try:
        return msgspec.convert(yaml.safe_load(text), Published)
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise ConfigError([str(error).replace("\n", " ")]) from None


def entry_for(item: ConfigMap, names: tuple[str, ...]) -> Published | None:
    """The entry of the Maar with one of these scheduler names, the first that has one; raises `ConfigError`."""
    problems: list[str] = []
    found: list[Published] = []
    for key, text in sorted(item.data.items()):
        try:
            found.append(read_entry(text))
        except ConfigError as error:
            problems += [f"data.{key}: {problem}" for problem in error.problems]
    for name in names:
        for entry in found:
            if name in entry.scheduler_names:
                return entry
    if problems:
        raise ConfigError(problems)
    return None


def is_same(one: Published, other: Published) -> bool:
    """Whether two entries say the same, whenever they were written."""
    return msgspec.structs.replace(one, since="") == msgspec.structs.replace(other, since="")
