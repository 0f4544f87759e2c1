"""Bogus values in every annotation, label and variable that Maar reads: nothing fails, and other tenants are well."""

from __future__ import annotations

from typing import Any

import pytest
from tests.security.world import batch_job, good, good_is_well, group, plan, pod, row
from tests.support.objects import Json

from maar.kube.wire import annotations as known

KEYS = sorted(
    {
        key
        for name, value in vars(known).items()
        if name.isupper() and isinstance(value, str | tuple)
        for key in ((value,) if isinstance(value, str) else value)
    }
)
VALUES = (
    *("", " ", "NaN", "inf", "-inf", "Infinity", "-1", "0", "0s", "-5m", "1e308", "1e999", "0x10", "true", "no"),
    *("9" * 5000, "9" * 19, "-" + "9" * 5000, "99999999999h", "1ns", "292y", "9" * 400 + "h"),
    *("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "1970-01-01T00:00:00Z", "2030-02-31T00:00:00Z", "now"),
    *("{}", "[]", "null", '{"last_resize": 1e400}', '{"attained": -1}', '{"n1": 99999999999999999999}', '{"n1": -5}'),
    *('{"requested": 99999999}', "x" * 100_000, "\u0000\u001b[2J", "évïl", "../../good", "good/waits", "*", "hard"),
)


def evil(key: str, labels: bool) -> list[Json]:
    """A pod, a group and a job of `evil` for each value. Pods are too large for any node, so that room stays free."""
    made: list[Json] = []
    for i, value in enumerate(VALUES):
        said: dict[str, Any] = {"labels": {key: value}} if labels else {"annotations": {key: value}}
        made.append(pod("evil", f"p{i}", gpus=100, **said))
        made.append(pod("evil", f"r{i}", gpus=0, on="n2", **said))
        if not labels:
            made.append(group("evil", f"g{i}", annotations={key: value}, phase="Inqueue", minMember=3))
            made.append(batch_job("evil", f"j{i}", annotations={key: value}))
    return made


@row("bogus-values")
@pytest.mark.parametrize("tenants", ["trusted", "untrusted"])
@pytest.mark.parametrize("key", KEYS)
def test_no_value_of_an_annotation_or_label_matters_to_others(key: str, tenants: str) -> None:
    assert len(VALUES) > 40
    good_is_well(plan(good(), evil(key, labels=False), tenants=tenants))
    good_is_well(plan(good(), evil(key, labels=True), tenants=tenants))
