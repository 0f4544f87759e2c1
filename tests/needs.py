"""Prints the targets of the Makefile that the chosen tests need: `make test` runs it first.

    python -m tests.needs [ARGUMENTS OF PYTEST]

Without arguments all tests are chosen. With arguments it collects the tests, and prints nothing if none of them is
marked `real`.
"""

from __future__ import annotations

import contextlib
import io
import sys

import pytest


class Chosen:
    """A plugin of pytest that notes whether a collected test needs real parts."""

    real = False

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.real = any(item.get_closest_marker("real") for item in session.items)


def need_real(arguments: list[str]) -> bool:
    """Whether these arguments choose a test that needs real parts. If the collection fails, the test run says why."""
    chosen = Chosen()
    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main([*arguments, "--collect-only", "--quiet"], plugins=[chosen])
    return chosen.real


if __name__ == "__main__":
    if not sys.argv[1:] or need_real(sys.argv[1:]):
        print("real browser")
