"""Arguments: which values are accepted, which are refused, and the messages."""

import enum
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta

from maar.config.arguments import Wanted, build, clean
from maar.config.config import Ignored, NoArguments, OpenArguments
from maar.config.problems import Findings
from maar.model.durations import Duration


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    weight: Annotated[int, Meta(ge=0)] = msgspec.field(name="toy.weight", default=1)
    factor: Annotated[float, Meta(gt=0, le=5)] = msgspec.field(name="toy-factor", default=1.2)
    whole: bool = msgspec.field(name="toy.WholeEnable", default=True)
    eviction: Literal["whole", "surplus"] | None = msgspec.field(name="toy.eviction", default=None)
    colour: Colour = Colour.RED
    text: str = ""
    wait: Annotated[str, Meta(pattern="[hms]$", description="a duration such as `1h30m`")] = "1h"
    delay: Duration | None = None
    names: tuple[str, ...] = ()
    weights: dict[str, int] = {}

    def __post_init__(self) -> None:
        if self.weight == 13:
            raise ValueError("thirteen is too many")


class Open(OpenArguments, frozen=True, forbid_unknown_fields=True):
    weights: dict[str, int] = msgspec.field(default_factory=dict)

    @classmethod
    def normalise(cls, raw: dict[str, object]) -> dict[str, object]:
        weights = {}
        for name in [n for n in raw if n.startswith("weight.")]:
            value = raw.pop(name)
            if not isinstance(value, int):
                raise ValueError(f"{name}: expected a whole number, got `{value}`")
            weights[name.removeprefix("weight.")] = value
        if "broken" in raw:
            raise ValueError("nothing goes")
        return {"weights": weights, **raw}


class Needy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    zone: str
    size: int


def read(
    raw: dict[str, object], wanted: Wanted = Arguments, ignored: Mapping[str, Ignored] = {}
) -> tuple[Any, list[str], list[str]]:
    """The struct, the problems and the warnings."""
    findings = Findings("f")
    cleaned = clean("toy", wanted, raw, "a", findings, ignored)
    built = build("toy", wanted, cleaned, "a", findings)
    return built, findings.problems, findings.warnings


@pytest.mark.parametrize(
    ("name", "value", "field", "expected"),
    [
        ("toy.weight", 5, "weight", 5),
        ("toy.weight", "5", "weight", 5),
        ("toy.weight", 5.0, "weight", 5),
        ("toy.weight", None, "weight", 1),
        ("toy-factor", 1.5, "factor", 1.5),
        ("toy-factor", "1.5", "factor", 1.5),
        ("toy-factor", 2, "factor", 2.0),
        ("toy.WholeEnable", False, "whole", False),
        ("toy.WholeEnable", "false", "whole", False),
        ("toy.WholeEnable", "True", "whole", True),
        ("toy.eviction", "surplus", "eviction", "surplus"),
        ("colour", "blue", "colour", Colour.BLUE),
        ("text", 60, "text", "60"),
        ("wait", "90s", "wait", "90s"),
        ("delay", "90s", "delay", "90s"),
        ("delay", 90, "delay", 90.0),
        ("names", ["a", "b"], "names", ("a", "b")),
        ("names", "a, b,", "names", ("a", "b")),
        ("weights", {"a": "2"}, "weights", {"a": 2}),
    ],
)
def test_values_are_read_loosely(name: str, value: object, field: str, expected: object) -> None:
    built, problems, warnings = read({name: value})
    assert ([], []) == (problems, warnings)
    assert expected == getattr(built, field)


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("toy.weight", "many", "f: a.toy.weight: expected a whole number of at least 0, got `many`"),
        ("toy.weight", -1, "f: a.toy.weight: expected a whole number of at least 0, got `-1`"),
        ("toy.weight", 1.5, "f: a.toy.weight: expected a whole number of at least 0, got `1.5`"),
        ("toy.weight", True, "f: a.toy.weight: expected a whole number of at least 0, got `true`"),
        ("toy-factor", 0, "f: a.toy-factor: expected a number above 0 and of at most 5, got `0`"),
        ("toy-factor", float("inf"), "f: a.toy-factor: expected a number above 0 and of at most 5, got `inf`"),
        ("toy-factor", "nan", "f: a.toy-factor: expected a number above 0 and of at most 5, got `nan`"),
        ("toy.WholeEnable", "perhaps", "f: a.toy.WholeEnable: expected `true` or `false`, got `perhaps`"),
        ("toy.eviction", "all", "f: a.toy.eviction: expected one of `surplus`, `whole`, got `all`"),
        ("colour", "green", "f: a.colour: expected one of `blue`, `red`, got `green`"),
        ("text", ["x"], "f: a.text: expected text, got a list"),
        ("wait", "soon", "f: a.wait: expected a duration such as `1h30m`, got `soon`"),
        ("delay", "soon", "f: a.delay: not a duration: `soon` (expected e.g. `90s`, `10m`, `1h30m`)"),
        ("delay", -1, "f: a.delay: not a duration: `-1` (must not be negative)"),
        ("delay", ["5m"], "f: a.delay: expected a duration such as `5m`, got a list"),
        ("names", {"a": 1}, "f: a.names: expected a list, got a mapping"),
        ("weights", {"a": "x"}, "f: a.weights: expected a mapping of text to a whole number, got a mapping"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_path(name: str, value: object, problem: str) -> None:
    _, problems, _ = read({name: value})
    assert [problem] == problems


def test_all_problems_are_reported() -> None:
    _, problems, _ = read({"toy.weight": "many", "toy-facto": 1, "text": []})
    known = "colour, delay, names, text, toy-factor, toy.WholeEnable, toy.eviction, toy.weight, wait, weights"
    assert [
        "f: a.toy.weight: expected a whole number of at least 0, got `many`",
        f"f: a: unknown argument `toy-facto`; did you mean `toy-factor`? known: {known}",
        "f: a.text: expected text, got a list",
    ] == problems


def test_an_unknown_argument_where_none_is_known() -> None:
    _, problems, _ = read({"weight": 1}, NoArguments)
    assert ["f: a: unknown argument `weight`; `toy` takes no arguments"] == problems


def test_parts_that_do_not_go_together_are_refused() -> None:
    built, problems, _ = read({"toy.weight": 13})
    assert (None, ["f: a: thirteen is too many"]) == (built, problems)


def test_arguments_that_must_be_given() -> None:
    built, problems, _ = read({}, Needy)
    assert None is built
    assert ["f: a: `toy` needs the argument `zone`", "f: a: `toy` needs the argument `size`"] == problems


def test_volcanos_arguments_without_effect_are_dropped_with_a_warning() -> None:
    built, problems, warnings = read(
        {"cache": True, "old.one": 1, "toy.weight": 2},
        Arguments,
        {"cache": Ignored("nothing is cached"), "old.*": Ignored("it is gone")},
    )
    assert [] == problems
    assert 2 == built.weight
    assert [
        "f: a.cache: has no effect: nothing is cached",
        "f: a.old.one: has no effect: it is gone",
    ] == warnings


@pytest.mark.parametrize(
    ("value", "unless", "warned"),
    [
        (True, False, True),
        ("true", False, True),
        (False, False, False),
        ("False", False, False),
        (0, False, True),
        (16, 16, False),
        ("16", 16, False),
        (0.8, 0.8, False),
        (17, 16, True),
        (True, 1, True),
        ("many", 16, True),
        ([1], 16, True),
    ],
)
def test_a_value_that_changes_nothing_gives_no_warning(value: object, unless: bool | float, warned: bool) -> None:
    _, problems, warnings = read({"cache": value}, Arguments, {"cache": Ignored("nothing is cached", unless)})
    assert ([], warned) == (problems, warnings != [])


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("toy.weight.cpu", "toy.weight"),
        ("other.toy.weight", "toy.weight"),
        ("toy.weight.factor", "toy.weight"),
        ("TOY_FACTOR", "toy-factor"),
        ("toy.wholenable", "toy.WholeEnable"),
        ("old", "olde"),
    ],
)
def test_the_name_that_was_meant(key: str, meant: str) -> None:
    _, (problem,), _ = read({key: 1}, Arguments, {"olde": Ignored("it is gone")})
    assert problem.startswith(f"f: a: unknown argument `{key}`; did you mean `{meant}`? known: colour, ")


def test_an_argument_that_exists_is_never_without_effect() -> None:
    built, _, warnings = read({"text": "x"}, Arguments, {"text": Ignored("it is gone")})
    assert ("x", []) == (built.text, warnings)


def test_open_ended_names_are_gathered_first() -> None:
    built, problems, _ = read({"weight.a": 1, "weight.nvidia.com/gpu": 2}, Open)
    assert [] == problems
    assert {"a": 1, "nvidia.com/gpu": 2} == built.weights


def test_all_that_gathering_refuses_is_reported() -> None:
    _, problems, _ = read({"weight.a": "x", "weight.b": 1, "weight.c": "y", "other": 1}, Open)
    assert [
        "f: a.weight.a: expected a whole number, got `x`",
        "f: a.weight.c: expected a whole number, got `y`",
        "f: a: unknown argument `other`; known: weights",
    ] == problems


def test_a_refusal_without_a_name_ends_the_gathering() -> None:
    _, problems, _ = read({"broken": 1}, Open)
    assert ["f: a: nothing goes"] == problems
