"""Logged plans are reproduced exactly: Voda's, and a few of our own if Voda's logs are not available."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.shared import SHARED, needs

from maar.elastic.allocate import allocate
from maar.elastic.jobs import make_jobs
from maar.registry import ALGORITHMS, by_name

ROOT = Path(__file__).parents[2]
OURS = ROOT / "tests/data/elastic/plans.json"
VODAS = "traces/voda/elastic-fifo-run1.json"


def differing(log: dict[str, Any]) -> list[tuple[dict[str, int], dict[str, int]]]:
    """The plans of a log that elastic-fifo does not reproduce, and its own plans."""
    algorithm = by_name(ALGORITHMS)["elastic-fifo"]
    pairs = []
    for logged in log["plans"]:
        names = logged["jobs"]
        jobs = make_jobs(names, min=log["min"], max=log["max"], submit=list(range(len(names))))
        made = dict(zip(names, allocate(algorithm, jobs, log["gpus"]).tolist(), strict=True))
        pairs.append((logged["plan"], made))
    assert pairs
    return [(logged, made) for logged, made in pairs if logged != made]


@pytest.mark.parametrize("log", [OURS, pytest.param(SHARED / VODAS, marks=needs(VODAS))], ids=["ours", "voda"])
def test_logged_plans_come_out_exactly(log: Path) -> None:
    assert [] == differing(json.loads(log.read_text()))
