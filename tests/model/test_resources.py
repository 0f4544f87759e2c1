"""Quantities are exact, requests round up, allocatable rounds down, and sums do not overflow."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maar.model.resources import (
    CPU,
    LARGEST,
    Axes,
    QuantityError,
    allocatable,
    in_words,
    is_accelerator,
    parse_quantity,
    requests,
    total,
    units,
)


@pytest.mark.parametrize(
    ("text", "exact"),
    [
        ("0", Fraction(0)),
        ("1.5", Fraction(3, 2)),
        (".5", Fraction(1, 2)),
        ("5.", Fraction(5)),
        ("+2", Fraction(2)),
        ("-3", Fraction(-3)),
        ("-.5Gi", Fraction(-(2**29))),
        ("100m", Fraction(1, 10)),
        ("100u", Fraction(1, 10**4)),
        ("100n", Fraction(1, 10**7)),
        ("500k", Fraction(500_000)),
        ("1.5M", Fraction(1_500_000)),
        ("2Gi", Fraction(2 * 2**30)),
        ("0.1Gi", Fraction(2**30, 10)),
        ("1Ki", Fraction(1024)),
        ("3Ti", Fraction(3 * 2**40)),
        ("1Pi", Fraction(2**50)),
        ("1Ei", Fraction(2**60)),
        ("1E", Fraction(10**18)),
        ("1E3", Fraction(1000)),
        ("1e3", Fraction(1000)),
        ("1e-3", Fraction(1, 1000)),
        ("1.5e+2", Fraction(150)),
        (" 4 ", Fraction(4)),
        (7, Fraction(7)),
        (0.1, Fraction(1, 10)),
        (1e22, Fraction(10**22)),
    ],
)
def test_quantities_are_exact(text: str | int | float, exact: Fraction) -> None:
    assert exact == parse_quantity(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "m",
        ".",
        "-",
        "1K",
        "1ki",
        "1gi",
        "1e",
        "1e3Gi",
        "1 Gi",
        "1,5",
        "0x10",
        "1_000",
        "ten",
        "nan",
        "inf",
        "1mm",
    ],
)
def test_nonsense_is_refused_by_name(text: str) -> None:
    with pytest.raises(QuantityError, match=r"^not a quantity: `"):
        parse_quantity(text)


@pytest.mark.parametrize("value", [True, None, float("nan"), float("inf")])
def test_what_is_no_number_is_refused(value: float) -> None:
    with pytest.raises(QuantityError, match=r"^not a quantity: `"):
        parse_quantity(value)


@pytest.mark.parametrize(
    ("name", "text", "up", "down"),
    [
        ("cpu", "1.5", 1500, 1500),
        ("cpu", "100m", 100, 100),
        ("cpu", "100u", 1, 0),
        ("cpu", "1.0001", 1001, 1000),
        ("memory", "100m", 1, 0),
        ("memory", "1.5", 2, 1),
        ("memory", "0.1Ki", 103, 102),
        ("nvidia.com/gpu", "1", 1, 1),
        ("memory", "-1.5", -1, -2),
        ("memory", "1e30", LARGEST, LARGEST),
        ("memory", "-1e30", -LARGEST, -LARGEST),
    ],
)
def test_requests_round_up_and_nodes_down(name: str, text: str, up: int, down: int) -> None:
    assert {name: up} == requests({name: text})
    assert {name: down} == allocatable({name: text})


@given(st.fractions(min_value=-(10**6), max_value=10**6, max_denominator=10**4))
def test_rounding_never_overcommits(exact: Fraction) -> None:
    text = f"{exact.numerator * 10**4 // exact.denominator}e-4"
    wanted, has = units("memory", text, up=True), units("memory", text, up=False)
    assert has <= parse_quantity(text) <= wanted <= has + 1


def test_axes_do_not_depend_on_order() -> None:
    names = ["nvidia.com/gpu", "pods", "example.com/fpga", "cpu", "hugepages-2Mi"]
    expected = ("cpu", "memory", "pods", "ephemeral-storage", "example.com/fpga", "hugepages-2Mi", "nvidia.com/gpu")
    for order in (names, names[::-1], sorted(names), [*names, *names]):
        assert expected == Axes(order).names


def test_a_row_and_its_amounts() -> None:
    axes = Axes(["nvidia.com/gpu"])
    row = axes.row({"nvidia.com/gpu": 8, "pods": 110, "unheard.of/thing": 3})
    assert [0, 0, 110, 0, 8] == row
    assert {"pods": 110, "nvidia.com/gpu": 8} == axes.amounts(row)
    assert [7, 7, 7, 7, 1] == axes.row({"nvidia.com/gpu": 1}, missing=7)
    assert (4,) == axes.accelerators
    assert 2 == axes.pods


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("nvidia.com/gpu", True),
        ("amd.com/gpu", True),
        ("nvidia.com/mig-1g.5gb", True),
        ("google.com/tpu", True),
        ("huawei.com/Ascend910", True),
        ("gpu", False),
        ("cpu", False),
        ("example.com/fpga", False),
        ("node.kubernetes.io/gpu", False),
    ],
)
def test_which_resources_are_accelerators(name: str, is_one: bool) -> None:
    assert is_one is is_accelerator(name)


def test_totals_are_exact_beyond_int64() -> None:
    rows = np.full((100, 2), LARGEST, dtype=np.int64)
    rows[:, 1] = -LARGEST
    assert [100 * LARGEST, -100 * LARGEST] == total(rows)
    assert 100 * LARGEST > np.iinfo(np.int64).max
    assert [0, 0, 0] == total(np.zeros((0, 3), dtype=np.int64))


@given(st.lists(st.tuples(*[st.integers(-LARGEST, LARGEST)] * 2), min_size=1, max_size=20))
def test_totals_are_sums(rows: list[tuple[int, int]]) -> None:
    assert [sum(column) for column in zip(*rows, strict=True)] == total(np.array(rows, dtype=np.int64))


@pytest.mark.parametrize(
    ("name", "amount", "words"),
    [
        (CPU, 1500, "1.5"),
        (CPU, 100, "0.1"),
        ("memory", 2**31, "2Gi"),
        ("memory", 1536 * 2**20, "1.5Gi"),
        ("memory", 1000, "1000"),
        ("ephemeral-storage", 2**40, "1Ti"),
        ("hugepages-2Mi", 4 * 2**20, "4Mi"),
        ("nvidia.com/gpu", 4096, "4096"),
    ],
)
def test_amounts_as_people_write_them(name: str, amount: int, words: str) -> None:
    assert words == in_words(name, amount)
