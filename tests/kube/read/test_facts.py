"""Facts in the annotation of a queue or node."""

from __future__ import annotations

import pytest

from maar.kube.read.facts import MOST_ON_AN_OBJECT, facts_on, write_on_object
from maar.kube.wire.annotations import FACTS
from maar.kube.wire.base import Metadata
from maar.model.facts import About, Fact


def read(text: str) -> tuple[Fact, ...]:
    return facts_on(Metadata(name="n1", annotations={FACTS: text}), About.NODE)


def test_the_facts_that_changed_last_are_kept_within_the_limit() -> None:
    made = [Fact("p", f"f{i}", float(i), {"text": "a" * 900}, About.NODE, "n1") for i in range(9)]
    text, left_out = write_on_object(made)
    assert (tuple(made[5:]), 5) == (read(text), left_out)
    assert len(text) <= MOST_ON_AN_OBJECT


@pytest.mark.parametrize("text", ["", "{", "7", "[" * 3000, f'[{{"plugin":"{"p" * MOST_ON_AN_OBJECT}"}}]'])
def test_an_annotation_that_is_malformed_or_too_long_has_no_facts(text: str) -> None:
    assert () == read(text)
