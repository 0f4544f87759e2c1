"""A page of one's own, from files outside `src`: one new file, and its two lines in the table of pages."""

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

HELLO = """
import { h, put } from "../dom.js";

export function hello(root, app, [name]) {
  const seen = h("p", { id: "seen" });
  put(root, h("h1", {}, `Hello ${name}`), seen);
  const draw = () => { seen.textContent = `jobs: ${app.store.jobs.size}`; };
  draw();
  return { update: draw };
}
"""


def test_a_page_is_one_file_and_two_lines_of_the_table(tmp_path: Path, opened: Open) -> None:
    folder = tmp_path / "page"
    shutil.copytree(PAGE, folder)
    table = folder / "js" / "pages.js"
    before = table.read_text()
    (folder / "js" / "pages" / "hello.js").write_text(HELLO)
    line = 'export const PAGES = {\n  hello: { title: "Hello", open: hello, parts: [1, 1] },'
    table.write_text('import { hello } from "./pages/hello.js";\n' + before.replace("export const PAGES = {", line))
    with PageServer(small(), page=folder) as server:
        page = opened(f"{server.url}#/hello/ann")
        expect(page.get_by_role("heading")).to_have_text("Hello ann", timeout=PATIENCE)
        expect(page.locator("#seen")).to_have_text(f"jobs: {len(server.scene.jobs)}", timeout=PATIENCE)
        expect(page.locator("#nav")).to_contain_text("Hello")
        page.goto(f"{server.url}#/hello")
        expect(page.get_by_role("heading")).to_have_text("Page not found", timeout=PATIENCE)
