"""The cells of tables: JSON paths and ages."""

from datetime import UTC, datetime, timedelta

import pytest

from maar.embedded.http.tables import age, at_path


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".spec.size", 3),
        (".spec.list[1]", "b"),
        (".spec.list[7]", None),
        (".metadata.labels.example\\.com/zone", "x"),
        (".metadata.labels['example.com/zone']", "x"),
        ('.status.conditions[?(@.type=="Ready")].status', "True"),
        ('.status.conditions[?(@.type=="Other")].status', None),
        (".no.such.path", None),
    ],
)
def test_paths_of_columns(path: str, expected: object) -> None:
    obj = {
        "metadata": {"labels": {"example.com/zone": "x"}},
        "spec": {"size": 3, "list": ["a", "b"]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    assert expected == at_path(obj, path)


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0, "0s"), (100, "100s"), (125, "2m"), (7200, "2h"), (3 * 86400, "3d"), (-5, "0s")]
)
def test_ages(seconds: int, expected: str) -> None:
    assert expected == age((datetime.now(UTC) - timedelta(seconds=seconds)).isoformat())


def test_an_unknown_age() -> None:
    assert "<unknown>" == age(None)
