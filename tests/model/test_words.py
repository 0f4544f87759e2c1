"""Words of messages: suggestions, counts with their nouns, ranges."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from maar.model.words import COMPARED, count, listed, meant, nearest, number, span, unknown

SOURCE = Path(__file__).parents[2] / "src" / "maar"
NOUNS = "pods|workers|jobs|nodes|gangs|GPUs|roll-outs|subgroups|shards|evictions"
COUNTED = re.compile(rf"\{{(?!count|counted|number|MOST|NODE_)[^{{}}]*\}} (?:\w+ )?(?:{NOUNS})\b")
NO_COUNT = ("logger.", "kubectl", "shown(", "count(", "counted(")
"""What is in lines that have no such number, or count it."""
ALLOWED = {
    "elastic",  # errors of programs that call an algorithm with arrays
    "embedded",  # in the words of Kubernetes
    "demo",  # of a story whose numbers are known
    "testing",
    "sim",
}


@pytest.mark.parametrize(
    ("amount", "text"), [(0, "0 workers"), (1, "1 worker"), (2, "2 workers"), (1028, "1,028 workers")]
)
def test_a_count_has_its_noun_and_separators(amount: int, text: str) -> None:
    assert text == count(amount, "worker")
    assert text.split()[0] == number(amount)


def test_a_range_with_equal_ends_is_one_value() -> None:
    assert ("1h", "1h to 2h") == (span("1h", "1h"), span("1h", "2h"))


def test_long_lists_are_shortened_and_counted() -> None:
    names = [f"n{i}" for i in range(25)]
    assert listed(names).endswith("n19 and 5 more")
    assert unknown("node", "n00", names, most=2).endswith("known: n0, n1 and 23 more")


def test_the_same_name_elsewhere_is_nearest() -> None:
    assert ["b/train", "a/trains"] == nearest("a/train", ["a/trains", "b/train", "b/other"])
    assert "; did you mean `b/train` or `a/trains`?" == meant(["b/train", "a/trains"])
    assert ("", []) == (meant([]), nearest("a/x", ["b/completely-different"]))
    assert [] == nearest("a/x", [f"b/{'y' * 20}{i}" for i in range(2 * COMPARED)])


def test_no_message_writes_a_plural_by_hand() -> None:
    """`{n} workers` reads as `1 workers`: `count` knows better."""
    found = []
    for file in sorted(SOURCE.rglob("*.py")):
        if file.relative_to(SOURCE).parts[0] in ALLOWED:
            continue
        for line, text in enumerate(file.read_text().splitlines(), 1):
            if 'f"' in text and not any(part in text for part in NO_COUNT) and COUNTED.search(text):
                found.append(f"{file.relative_to(SOURCE)}:{line}: {text.strip()}")
    assert [] == found
