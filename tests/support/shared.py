"""Data beside the checkout, in `../shared`, which not every clone has. Tests that need it are skipped without it.

Each of them stands beside a test of the same code with small data of our own. A run says at its end what was skipped.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

SHARED = Path(__file__).parents[3] / "shared"
NEEDS = "needs ../shared/"


def needs(path: str) -> pytest.MarkDecorator:
    """A mark for tests that read this file or folder."""
    return pytest.mark.skipif(not (SHARED / path).exists(), reason=f"{NEEDS}{path}")


def left_out(skipped: Iterable[pytest.TestReport]) -> str:
    """One line about the tests that were skipped because their data is not there, or nothing."""
    files = [r.nodeid.partition("::")[0] for r in skipped if isinstance(r.longrepr, tuple) and NEEDS in r.longrepr[2]]
    return f"skipped without ../shared: {len(files)} tests of {', '.join(sorted({*files}))}" if files else ""
