"""Documents: one reader for all YAML and JSON; the caller chooses how repeated keys are treated."""

from __future__ import annotations

from typing import Any

import pytest

from maar.model.documents import DocumentError, TextPosition, documents, refuse_repeated

SAME = [
    ("", []),
    ("a: 1\n---\n---\nb: 2\n", [{"a": 1}, None, {"b": 2}]),
    ('{"a": 1}', [{"a": 1}]),
    ('{"a": 1} {"b": [2]}\n', [{"a": 1}, {"b": [2]}]),
    ("\ufeff[1, 2]", [[1, 2]]),
    ("{a: 1}\n", [{"a": 1}]),
    ("[yes, off, 012, 0x1f, 1_000, 1.5e3, ~]", [[True, False, 10, 31, 1000, 1500.0, None]]),
    ("[2024-01-02, 12:30:45, 1e3, =]", [["2024-01-02", "12:30:45", "1e3", "="]]),
    ("{x: &b {c: 1}, y: {<<: *b, d: 2}}", [{"x": {"c": 1}, "y": {"c": 1, "d": 2}}]),
]


@pytest.mark.parametrize("repeated", [None, refuse_repeated])
@pytest.mark.parametrize(("text", "expected"), SAME)
def test_text_becomes_documents(text: str, expected: list[Any], repeated: Any) -> None:
    assert expected == list(documents(text, repeated))
    assert expected == list(documents(text.encode(), repeated))


@pytest.mark.parametrize("text", ["a: 1\nb: {c: 1,\n    c: 2}", '{"a": 1,\n "b": {"x": 0,\n    "c": 1, "c": 2}}'])
def test_a_key_given_twice(text: str) -> None:
    said: list[tuple[TextPosition, str]] = []
    found = list(documents(text, lambda place, key: said.append((place, key))))
    assert found == list(documents(text))
    assert 2 == found[0]["b"]["c"]
    ((place, key),) = said
    assert ("c", text.splitlines()[-1]) == (key, text.splitlines()[place.line - 1])
    with pytest.raises(DocumentError, match=rf"^{place}: `c` is given twice$"):
        list(documents(text, refuse_repeated))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\nb: c: 2", "line 2, column 5: mapping values are not allowed in this context"),
        ('{"a": NaN, "b": ]}', "line 1, column 17: did not find expected node content"),
        ("a: \x01", "unacceptable character #x0001: control characters are not allowed"),
        ("[" * 100_000, "lists and mappings are nested too deeply"),
    ],
)
def test_invalid_text(text: str, expected: str) -> None:
    with pytest.raises(DocumentError) as error:
        list(documents(text))
    assert expected == str(error.value)


def test_documents_before_an_error_are_read() -> None:
    found = documents("a: 1\n---\n}")
    assert {"a": 1} == next(found)
    with pytest.raises(DocumentError, match="line 3"):
        next(found)
