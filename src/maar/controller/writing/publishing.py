"""Publishes the configuration in use, and the brakes, in the ConfigMap `maar-configuration`, while this process leads.

It is written only if it says something else, with the version that it replaces, so other Maars in the namespace keep
their entries. Decisions do not depend on it: without the right to write it, a warning says what commands lose.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from maar.config.problems import ConfigError
from maar.controller.settings.brakes import Brakes
from maar.controller.settings.config_file import ConfigFile
from maar.controller.settings.published import Published, is_same, published, read_entry, write_entry
from maar.controller.settings.settings import Settings
from maar.kube.client.api import Api
from maar.kube.client.backoff import Backoff, happens
from maar.kube.client.errors import NOT_NOW, ApiError, Conflict, NotFound, NotLeading
from maar.kube.kinds.cluster import CONFIGURATION
from maar.kube.read.state import entry_of
from maar.kube.wire.api_resources import CONFIG_MAPS
from maar.kube.wire.cluster import ConfigMap
from maar.kube.wire.decoding import decode_json

logger = logging.getLogger("maar.config")

AGAIN = 600.0
"""Seconds between two looks at the ConfigMap, so that a deleted one comes back. Tuned by hand."""


@dataclass(eq=False, slots=True)
class Publisher:
    """Keeps one entry of the ConfigMap up to date.

    `is_first`: whether this process publishes; of several shards only the first does.
    """

    _api: Api
    _config: ConfigFile
    _settings: Settings
    is_first: Callable[[], bool] = lambda: True
    clock: Callable[[], float] = time.time
    again: float = AGAIN
    brakes: Brakes = field(default_factory=Brakes)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _refused: str = ""
    _entry: str = field(init=False)

    def __post_init__(self) -> None:
        self._entry = entry_of(self._settings.scheduler_names)
        self._config.on_changed.append(self.look)

    def look(self) -> None:
        """What is published may have changed."""
        self._changed.set()

    async def run(self) -> None:
        """Publish until cancelled."""
        backoff = Backoff(0.1, 30.0, random.Random(0))
        while True:
            self._changed.clear()
            wait = self.again
            try:
                if self.is_first():
                    await self._publish()
                    backoff.reset()
            except Conflict:  # another Maar has written its own entry
                wait = backoff.next()
            except NotLeading:
                pass  # the next leader publishes
            except NOT_NOW as error:
                wait = backoff.next(error.retry_after)
            except ApiError as error:
                if self._refused != str(error):
                    self._refused = str(error)
                    logger.warning("commands decide with the default configuration: it cannot be published: %s", error)
            except Exception:  # a bug of ours: nothing depends on it, and decisions go on
                logger.exception("the configuration cannot be published because of a bug")
            await happens(self._changed, wait)

    async def _publish(self) -> None:
        new = published(self._config.config, self._settings, self.clock(), self.brakes.settings)
        home = self._settings.namespace
        try:
            body = await self._api.get(CONFIG_MAPS.path(home, CONFIGURATION))
        except NotFound:
            metadata = {"name": CONFIGURATION, "namespace": home}
            document = CONFIG_MAPS.document(metadata, data={self._entry: write_entry(new)})
            await self._api.create(CONFIG_MAPS.path(home), document)
            return
        seen = decode_json(body, ConfigMap)
        old = _read(seen.data.get(self._entry, ""))
        if old is None or not is_same(old, new):
            version = {"resourceVersion": seen.metadata.resource_version}
            change = {"metadata": version, "data": {self._entry: write_entry(new)}}
            await self._api.patch(CONFIG_MAPS.path(home, CONFIGURATION), change)


def _read(text: str) -> Published | None:
    try:
        return read_entry(text) if text else None
    except ConfigError:
        return None
