"""An API server for commands."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from maar.embedded.server import EmbeddedServer


@pytest.fixture
def server() -> Iterator[EmbeddedServer]:
    made = EmbeddedServer()
    made.start()
    yield made
    made.stop()
