"""Sessions on small clusters, with plugins written as functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from maar.config.config import Config, NoArguments, PluginOption, Registration
from maar.model.snapshot import Cluster, Snapshot
from maar.session.register import Register
from maar.session.session import Session

Open = Callable[[Session, Register], None]


class Written:
    """A plugin that consists of one function."""

    def __init__(self, function: Open) -> None:
        self.open = function


def option(name: str, function: Open, flags: dict[str, bool] | None = None) -> PluginOption:
    return PluginOption(Registration(name, lambda _: Written(function)), NoArguments(), flags or {})


@pytest.fixture
def opened() -> Callable[..., Session]:
    """A session on a cluster, opened with tiers of functions (or options)."""

    def make(cluster: Cluster, *tiers: Iterable[Open | PluginOption], now: float = 0.0) -> Session:
        options = tuple(
            tuple(p if isinstance(p, PluginOption) else option(f"plugin-{i}-{j}", p) for j, p in enumerate(tier))
            for i, tier in enumerate(tiers)
        )
        session = Session(Snapshot(cluster), Config((), options), now)
        session.open()
        return session

    return make
