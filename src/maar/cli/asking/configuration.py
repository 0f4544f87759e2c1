"""The configuration by which a command decides: that of `--config`, else that of the running Maar, else the default.

The running Maar publishes its own in a ConfigMap in its namespace, which tenants cannot write. A command says in one
line which one it uses.
"""

from __future__ import annotations

from typing import NamedTuple

from maar.cli.support.manifests import chosen_config
from maar.config.config import Config
from maar.config.file import default_config
from maar.config.problems import ConfigError
from maar.controller.settings.brakes import BrakeSettings
from maar.controller.settings.published import entry_for
from maar.kube.client.api import Api
from maar.kube.client.errors import Forbidden, NotFound
from maar.kube.kinds.cluster import CONFIGURATION
from maar.kube.wire.api_resources import CONFIG_MAPS
from maar.kube.wire.cluster import ConfigMap
from maar.kube.wire.decoding import decode_json
from maar.kube.wire.errors import FieldError
from maar.model.selectors import Selector
from maar.registry import catalog

DEFAULT = "Maar's default configuration (--config)"


class Chosen(NamedTuple):
    """A configuration, and what else the scheduler goes by."""

    config: Config
    words: str
    """Which one it is: `decided here ... with` this."""
    names: frozenset[str]
    """The scheduler names."""
    nodes: Selector | None = None
    without: frozenset[str] = frozenset()
    warnings: tuple[str, ...] = ()
    brakes: BrakeSettings = BrakeSettings()


async def configuration(api: Api, file: str | None, lenient: bool, names: tuple[str, ...], home: str) -> Chosen:
    """The configuration to decide with. Raises `ConfigError` for a file, never for what is in the cluster."""
    if file is not None:
        config, warnings = chosen_config(file, lenient)
        return Chosen(config, f"`{file}`", frozenset(names), warnings=tuple(warnings))
    where = f"{home}/{CONFIGURATION}"
    try:
        item = decode_json(await api.get(CONFIG_MAPS.path(home, CONFIGURATION)), ConfigMap)
        entry = entry_for(item, names)
        if entry is None:
            return _default(names, f"none is published in `{home}` for scheduler name `{names[0]}`")
        left = entry.configuration.left_out
        words = f"the configuration of the running Maar, in use since {entry.since}"
        words += f", without {', '.join(f'`{name}`' for name in left)}" if left else ""
        words += ", and its brakes" if entry.brakes != BrakeSettings() else ""
        theirs = frozenset((*names, *entry.scheduler_names))
        return Chosen(entry.config(), words, theirs, entry.selector, frozenset(entry.without), brakes=entry.brakes)
    except NotFound:
        return _default(names, f"none is published in `{home}`")
    except Forbidden:
        return _default(names, f"you may not read ConfigMap `{where}`")
    except ConfigError as error:
        return _default(names, f"that of ConfigMap `{where}` cannot be used", *error.problems)
    except FieldError as error:
        return _default(names, f"that of ConfigMap `{where}` cannot be used", str(error))


def _default(names: tuple[str, ...], why: str, *problems: str) -> Chosen:
    warnings = tuple(f"ConfigMap with the configuration of the running Maar: {problem}" for problem in problems)
    return Chosen(default_config(catalog()), f"{DEFAULT}: {why}", frozenset(names), warnings=warnings)
