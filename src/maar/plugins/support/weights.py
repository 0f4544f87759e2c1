"""Weights of resources in the arguments of a plugin, in Volcano's notation."""

from __future__ import annotations

import msgspec


def gather_weights(raw: dict[str, object], key: str) -> dict[str, object]:
    """Arguments with `key: a, b` and `key.a: 2` gathered as `key: {a: 2, b: 1}`."""
    rest = {name: value for name, value in raw.items() if name != key and not name.startswith(f"{key}.")}
    listed = raw.get(key, "")
    if isinstance(listed, str):
        listed = [name.strip() for name in listed.split(",")]
    if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
        raise ValueError(f"{key}: expected names of resources separated by commas, got `{raw[key]}`")
    weights: dict[str, object] = {name: 1.0 for name in listed if name}
    for name, value in raw.items():
        if name.startswith(f"{key}."):
            weights[name.removeprefix(f"{key}.")] = _number(name, value)
    return {**rest, key: weights} if weights else rest


def _number(name: str, value: object) -> float:
    try:
        return msgspec.convert(value, float, strict=False)
    except msgspec.ValidationError:
        raise ValueError(f"{name}: expected a number, got `{value}`") from None
