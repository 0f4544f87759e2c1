"""Parsers for options of `maar trace generate` (weights, distributions), and `Finite` numbers."""

from __future__ import annotations

import math
from typing import Any

import click
import msgspec

from maar.model.durations import parse_duration
from maar.sim.draws import KINDS, Distribution, Weights


class Finite(click.FloatRange):
    """A finite number in a range: click alone accepts `nan` and `inf`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        found = super().convert(value, param, ctx)
        if not math.isfinite(found):
            self.fail(f"expected a number, got `{value}`", param, ctx)
        return found


def duration(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """Parse a duration such as `90s` or `1h30m`; a plain number is in seconds."""
    try:
        return None if value is None else parse_duration(value)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from error


def weights(ctx: click.Context, param: click.Parameter, value: str | None) -> Weights | None:
    """Parse `name:weight,...`."""
    return None if value is None else tuple(_weights(ctx, param, value, "research:3,production:1").items())


def numbers(ctx: click.Context, param: click.Parameter, value: str | None) -> Weights | None:
    """Parse `number:weight,...` with whole numbers."""
    if value is None:
        return None
    found = _weights(ctx, param, value, "1:3,8:1")
    if not all(map(_is_whole, found)):
        raise click.BadParameter(f"expected a list such as `1:3,8:1`, got `{value}`", ctx, param)
    return tuple((str(int(key)), weight) for key, weight in found.items())


def _weights(ctx: click.Context, param: click.Parameter, value: str, example: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for part in value.split(","):
        key, _, weight = part.rpartition(":")
        key, amount = key.strip(), _number(weight)
        if not key or not 0 < amount < math.inf or key in found:
            raise click.BadParameter(f"expected a list such as `{example}`, got `{value}`", ctx, param)
        found[key] = amount
    return found


def distribution(ctx: click.Context, param: click.Parameter, value: str | None) -> Distribution | None:
    """Parse `kind:parameter=value,...`; values are durations or plain numbers."""
    if value is None:
        return None
    kind, _, rest = value.partition(":")
    try:
        pairs = [part.partition("=") for part in rest.split(",")] if rest else []
        return msgspec.convert({key.strip(): parse_duration(text) for key, _, text in pairs}, KINDS[kind.strip()])
    except (KeyError, ValueError, msgspec.ValidationError):
        expected = "`lognormal:median=1h,sigma=1.5`, `exponential:mean=2h` or `uniform:low=10m,high=8h`"
        raise click.BadParameter(f"expected a distribution such as {expected}, got `{value}`", ctx, param) from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _is_whole(text: str) -> bool:
    return text.isascii() and text.removeprefix("-").isdecimal() and len(text) < 10
