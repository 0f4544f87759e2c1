"""Categories: which jobs repeat the same training."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maar.history.category import category_of


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("resnet", "t/resnet"),
        ("resnet-7", "t/resnet"),
        ("resnet-20261101-100000", "t/resnet"),
        ("resnet-20261101t100000z", "t/resnet"),
        ("resnet-1793527200", "t/resnet"),
        ("resnet-2026-11-01", "t/resnet"),
        ("resnet-x7k2p", "t/resnet"),
        ("resnet-1f3a9c0d", "t/resnet"),
        ("resnet-550e8400-e29b-41d4-a716-446655440000", "t/resnet"),
        ("resnet.v2_3", "t/resnet.v2"),
        ("train-resnet50", "t/train-resnet50"),
        ("llama-13b", "t/llama-13b"),
        ("word-decade", "t/word-decade"),
        ("1234", "t/1234"),
        ("-1", "t/-1"),
    ],
)
def test_runs_are_told_apart_from_trainings(name: str, category: str) -> None:
    assert category == category_of("t", name)


@given(st.text("abc123-._", min_size=1, max_size=20), st.integers(0, 10**12))
def test_safety_a_run_number_more_changes_nothing(name: str, run: int) -> None:
    category = category_of("t", name)
    assert category == category_of("t", f"{name}-{run}")
    assert category == category_of("t", category.removeprefix("t/"))
