"""A page of one's own: one file, and a line for its name in `main.js`. The files stand outside of `src`."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from playwright.sync_api import expect
from tests.support.page.scenes import small
from tests.support.page.server import PageServer
from tests.web.page.conftest import PATIENCE, Open

from maar.web.api.server import PAGE

pytestmark = [pytest.mark.real, pytest.mark.slow]

expect.set_options(timeout=PATIENCE)

HELLO = """
import { h, put } from "../dom.js";

export function hello(root, app) {
  const words = h("p", {});
  put(root, h("h1", {}, "Hello"), words);
  const page = { update() { words.textContent = `${app.store.jobs.size} jobs`; } };
  page.update();
  return page;
}
"""
LINES = {
    'import { job } from "./pages/job.js";\n': 'import { hello } from "./pages/hello.js";\n',
    "const PAGES = {\n": '  hello: { title: "Hello", open: hello, parts: [0, 0] },\n',
}
"""After which line of `main.js` which other one stands."""


def test_a_page_is_one_file_and_its_name_in_one_other(tmp_path: Path, opened: Open) -> None:
    folder = shutil.copytree(PAGE, tmp_path / "page")
    (folder / "js" / "pages" / "hello.js").write_text(HELLO)
    main = folder / "js" / "main.js"
    text = main.read_text(encoding="utf-8")
    for before, line in LINES.items():
        assert 1 == text.count(before)
        text = text.replace(before, before + line)
    main.write_text(text, encoding="utf-8")
    with PageServer(small(), page=folder) as server:
        page = opened(f"{server.url}#/hello")
        expect(page.locator("main h1")).to_have_text("Hello")
        expect(page.locator("main p")).to_have_text(f"{len(small().jobs)} jobs")
        page.locator("#nav a", has_text="Queues").click()
        expect(page.locator("main h1")).to_have_text("Queues")
        page.locator("#nav a", has_text="Hello").click()
        expect(page.locator("main h1")).to_have_text("Hello")
