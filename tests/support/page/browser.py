"""Chromium for tests: the browser of the machine, which `make browser` installs, driven by Playwright."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
MISSING = "no Chromium: `make browser` installs it on Debian and Ubuntu; else set MAAR_CHROMIUM to its path"


def executable() -> str | None:
    """The path of Chromium, or `None`."""
    named = os.environ.get("MAAR_CHROMIUM")
    return named or next((found for name in NAMES if (found := shutil.which(name))), None)


def arguments() -> list[str]:
    """As root Chromium runs only without its sandbox; it opens our own pages only."""
    return ["--no-sandbox"] if os.geteuid() == 0 else []


@contextmanager
def chromium() -> Iterator[Browser]:
    """A headless browser."""
    path = executable()
    if path is None:
        raise RuntimeError(MISSING)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=arguments())
        yield browser
        browser.close()
