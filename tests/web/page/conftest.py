"""A browser for all tests of the page, and pages that must run without an error."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page
from tests.support.page.browser import MISSING, chromium, executable
from tests.support.page.scenes import small
from tests.support.page.server import PageServer

Open = Callable[..., Page]

PATIENCE = 30_000
"""Milliseconds that a busy machine may take for one step."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The Chromium of the machine, which `make test` installs.

    For one module: while it runs, this process has a running event loop, and other tests start their own.
    """
    if executable() is None and os.environ.get("MAAR_REAL"):
        pytest.fail(MISSING)
    elif executable() is None:
        pytest.skip(MISSING)
    with chromium() as found:
        yield found


@pytest.fixture
def served() -> Iterator[PageServer]:
    """The small scene, for a viewer who needs no token."""
    with PageServer(small()) as server:
        yield server


@pytest.fixture
def opened(browser: Browser) -> Iterator[Open]:
    """Opens pages. Scripts that fail, and anything that the content policy refuses, fail the test."""
    problems: list[str] = []
    contexts = []

    def open_page(url: str, width: int = 1280, height: int = 900, **options: Any) -> Page:
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: problems.append(message.text) if _is_bad(message) else None)
        page.goto(url)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert [] == problems


def _is_bad(message: Any) -> bool:
    # A refused token and a connection that is cut are part of some tests; the browser logs them too.
    return message.type == "error" and not message.text.startswith("Failed to load resource")
