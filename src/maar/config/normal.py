"""The normal form of a configuration: plain data that has the same meaning everywhere, and that anyone may read.

`maar run` publishes it, and commands decide with it. It is made of a configuration in use, not of its file: Volcano's
spellings, comments and what the reader skipped are gone, and so are defaults. Left out is what decisions elsewhere
cannot use or must not show: `metrics` with its address, and texts that may be addresses or secrets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from maar.config.config import (
    ActionOption,
    Autoscaling,
    Catalog,
    Config,
    Metrics,
    PluginOption,
    PoolOption,
    PoolRules,
    Registration,
    Tenants,
)
from maar.config.problems import ConfigError
from maar.model.words import unknown

OURS = "maar."
"""The modules whose plugins have no secret arguments. What is installed beside Maar may have some."""
ADDRESS = "://"


class NormalOption(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """An action or a plugin."""

    name: str
    arguments: dict[str, Any] = {}
    """The arguments that differ from the defaults."""
    flags: dict[str, bool] = {}


class NormalPool(PoolRules, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, rename="kebab"):
    """A pool."""

    algorithm: str
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)


class Normal(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, rename="kebab"):
    """A whole configuration."""

    actions: tuple[NormalOption, ...]
    tiers: tuple[tuple[NormalOption, ...], ...]
    pools: tuple[NormalPool, ...] = ()
    tenants: Tenants = Tenants.TRUSTED
    autoscaling: Autoscaling = Autoscaling()
    pod_events: bool = False
    left_out: tuple[str, ...] = ()
    """What the configuration has and this form does not show."""


SAME = tuple(field.name for field in msgspec.structs.fields(PoolRules))
"""Settings of a pool that have the same name and meaning in both forms."""


def normal(config: Config) -> Normal:
    """The normal form of a configuration."""
    left: list[str] = [] if config.metrics == Metrics() else ["metrics"]
    return Normal(
        actions=tuple(NormalOption(a.name, _shown(a.name, a.registration, a.arguments, left)) for a in config.actions),
        tiers=tuple(
            tuple(NormalOption(p.name, _shown(p.name, p.registration, p.arguments, left), p.flags) for p in tier)
            for tier in config.tiers
        ),
        pools=tuple(
            NormalPool(
                algorithm=pool.algorithm.name,
                arguments=_shown(pool.algorithm.name, pool.algorithm, pool.arguments, left),
                **{name: getattr(pool, name) for name in SAME},
            )
            for pool in config.pools
        ),
        tenants=config.tenants,
        autoscaling=config.autoscaling,
        pod_events=config.pod_events,
        left_out=tuple(left),
    )


def read_normal(form: Normal, catalog: Catalog) -> Config:
    """The configuration of a normal form; a `ConfigError` if this Maar does not have what it names."""
    problems: list[str] = []

    def found(what: str, known: Mapping[str, Registration], name: str) -> Registration | None:
        if name not in known:
            problems.append(unknown(what, name, known))
        return known.get(name)

    def made(registration: Registration, arguments: dict[str, Any]) -> Any:
        try:
            return msgspec.convert(arguments, registration.arguments)
        except msgspec.ValidationError as error:
            problems.append(f"`{registration.name}`: {error}")

    actions = [(found("action", catalog.actions, o.name), o) for o in form.actions]
    tiers = [[(found("plugin", catalog.plugins, o.name), o) for o in tier] for tier in form.tiers]
    pools = [(found("algorithm", catalog.algorithms, p.algorithm), p) for p in form.pools]
    config = Config(
        tuple(ActionOption(r, made(r, o.arguments)) for r, o in actions if r is not None),
        tuple(tuple(PluginOption(r, made(r, o.arguments), o.flags) for r, o in t if r is not None) for t in tiers),
        tuple(
            PoolOption(algorithm=r, arguments=made(r, p.arguments), **{name: getattr(p, name) for name in SAME})
            for r, p in pools
            if r is not None
        ),
        form.tenants,
        form.autoscaling,
        pod_events=form.pod_events,
    )
    if problems:
        raise ConfigError(problems)
    return config


def _shown(name: str, registration: Registration, arguments: msgspec.Struct, left: list[str]) -> dict[str, Any]:
    """The arguments that differ from their defaults, without those that may be an address or a secret."""
    ours = getattr(registration.make, "__module__", "").startswith(OURS)
    found = {}
    for field in msgspec.structs.fields(registration.arguments):
        value = getattr(arguments, field.name)
        if not field.required and value == _default(field):
            continue
        plain = msgspec.to_builtins(value)
        if any(ADDRESS in text if ours else True for text in _texts(plain)):
            left.append(f"{name}.{field.encode_name}")
        else:
            found[field.encode_name] = plain
    return found


def _default(field: msgspec.structs.FieldInfo) -> object:
    return field.default_factory() if callable(field.default_factory) else field.default


def _texts(value: object) -> Iterator[str]:
    """All texts in plain data; keys are names."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)
