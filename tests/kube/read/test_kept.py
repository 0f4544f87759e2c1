"""What readers keep between objects is small, however large the objects are."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest

from maar.kube.read.devices import unaccounted
from maar.kube.read.shapes import full_image
from maar.kube.wire.base import Metadata
from maar.kube.wire.pods import Pod
from maar.model.durations import duration
from maar.model.resources import units

LARGE = 100_000
"""Characters; an object may have 15 times as many."""


def many(i: int) -> tuple[tuple[str, int], ...]:
    return tuple((f"example.com/{i}-{n}", 1) for n in range(1000))


READERS: dict[str, Callable[[int], object]] = {
    "image": lambda i: full_image(f"{i}" * LARGE),
    "resources": lambda i: unaccounted(Pod(Metadata(name="p")), many(i)),
    "name of a resource": lambda i: units(f"{i}" * LARGE, "1", up=True),
    "quantity": lambda i: units("cpu", f"{i}" + " " * LARGE, up=True),
}


@pytest.mark.parametrize("name", READERS)
def test_large_values_are_not_kept(name: str) -> None:
    READERS[name](0)
    tracemalloc.start()
    try:
        for i in range(1, 50):
            READERS[name](i)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 500_000


def test_a_duration_has_few_characters() -> None:
    with pytest.raises(ValueError, match=r"^not a duration: `0+\.\.\.` has 100002 characters$"):
        duration("0" * LARGE + "1s")
