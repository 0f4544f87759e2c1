"""The documentation site of `make docs`: its search works, it loads nothing from elsewhere, and no link is broken."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect
from tests.web.page.conftest import PATIENCE, Open

pytestmark = [pytest.mark.real, pytest.mark.slow]

expect.set_options(timeout=PATIENCE)

ROOT = Path(__file__).parents[3]


def build(source: Path, target: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tools.docsite", str(source), str(target)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the site."""
    folder = tmp_path_factory.mktemp("docs") / "site"
    done = build(ROOT, folder)
    assert (0, "") == (done.returncode, done.stderr)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def asked(page: Page) -> set[str]:
    """The hosts that the page asks from now on, as a set that grows. Data in an address asks no one."""
    hosts: set[str] = set()
    page.on("request", lambda request: hosts.add(urlsplit(request.url).hostname or urlsplit(request.url).scheme))
    return hosts


def test_a_word_is_found_and_nothing_is_loaded_from_elsewhere(site: str, opened: Open) -> None:
    page = opened("about:blank")
    hosts = asked(page)
    page.goto(site)
    expect(page.locator("div.body h1")).to_contain_text("Maar")
    expect(page.locator("div.body img").first).to_be_visible()
    page.locator("form.search input[name=q]").fill("kubelets")
    page.locator("form.search input[type=submit]").click()
    found = page.locator("#search-results ul.search a")
    expect(found.filter(has_text="The demo").first).to_be_visible()
    found.filter(has_text="The demo").first.click()
    expect(page.locator("div.body h1")).to_contain_text("The demo")
    assert {"127.0.0.1"} == hosts - {"data"}


def test_every_page_of_the_index_is_in_the_navigation(site: str, opened: Open) -> None:
    page = opened(f"{site}/README.html")
    shown = page.locator("div.sphinxsidebar li.toctree-l1 > a").evaluate_all(
        "(links) => links.map((link) => decodeURI(new URL(link.href).pathname))"
    )
    pages = {f"/docs/{path.stem}.html" for path in (ROOT / "docs").glob("*.md")}
    assert set() == pages - set(shown)
    assert len(shown) == len(set(shown))


@pytest.mark.parametrize("link", ["missing.md", "README.md#missing"])
def test_a_broken_link_fails(link: str, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "README.md").write_text("# Index\n\n## One\n\n| page |\n|---|\n", encoding="utf-8")

    def outcome(target: str) -> tuple[int, bool]:
        (tmp_path / "README.md").write_text(f"# A page\n\n[A link]({target})\n", encoding="utf-8")
        done = build(tmp_path, tmp_path / "build" / "site")
        return done.returncode, "missing" in done.stderr

    assert (0, False) == outcome("docs/README.md")
    assert (1, True) == outcome(link)
