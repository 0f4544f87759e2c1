"""How long each action takes, measured from outside: the decision itself has no clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from maar.config.config import Config
from maar.session.extension import Action
from maar.session.session import Session

Told = Callable[[str, float], None]
"""Told an action's name and its seconds."""


class Timed:
    """An action with a stopwatch."""

    def __init__(self, action: Action, name: str, told: Told) -> None:
        self._action = action
        self._name = name
        self._told = told

    def execute(self, session: Session) -> None:
        """Act, and say how long it took."""
        begun = time.perf_counter()
        self._action.execute(session)
        self._told(self._name, time.perf_counter() - begun)


def timed(config: Config, told: Told) -> Config:
    """The same configuration, each of whose actions says how long it takes."""
    options = []
    for option in config.actions:
        make = option.registration.make

        def made(arguments: Any, make: Callable[[Any], Action] = make, name: str = option.name) -> Timed:
            return Timed(make(arguments), name, told)

        options.append(replace(option, registration=replace(option.registration, make=made)))
    return replace(config, actions=tuple(options))
