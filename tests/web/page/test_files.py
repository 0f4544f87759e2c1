"""The files of the page, without a browser: all of them are ours, and nothing is loaded from elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from maar.web.api.server import KINDS, PAGE, content, files_of

FILES = sorted(path for path in PAGE.rglob("*") if path.suffix in KINDS)
ELSEWHERE = re.compile(r"""(?:https?:)?//[\w.-]+\.\w""")
NAMESPACE = "http://www.w3.org/2000/svg"


def name(path: Path) -> str:
    return path.relative_to(PAGE).as_posix()


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", FILES, ids=name)
def test_nothing_is_loaded_from_elsewhere(path: Path) -> None:
    assert [] == ELSEWHERE.findall(text(path).replace(NAMESPACE, ""))


def test_all_modules_are_fetched_at_once() -> None:
    """Else the browser finds each module only after it has read the one that imports it."""
    served = content(PAGE / "index.html", files_of(PAGE)).decode()
    preloaded = re.findall(r'<link rel="modulepreload" href="([^"]+)">', served)
    assert sorted(name(path) for path in FILES if path.suffix == ".js" and path.name != "main.js") == preloaded


def test_no_script_or_style_is_inline() -> None:
    page = text(PAGE / "index.html")
    assert [] == re.findall(r"<style|\sstyle=|\son\w+=|<script(?![^>]* src=)", page)


@pytest.mark.parametrize("path", [path for path in FILES if path.suffix == ".js"], ids=name)
def test_nothing_becomes_markup(path: Path) -> None:
    """Names and sentences come from tenants: they are only ever set as text."""
    forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc|DOMParser"
    assert [] == re.findall(forbidden, text(path))
    assert "cookie" not in text(path).replace("never in a cookie", "").replace("never a cookie", "")


@pytest.mark.parametrize("path", [path for path in FILES if path.suffix == ".js"], ids=name)
def test_children_are_appended_in_one_place(path: Path) -> None:
    """`append` of the browser writes `false` and `undefined` as text; `put` and `show` leave them out."""
    natives = re.findall(r"\.(append|prepend|replaceChildren|replaceWith|before|after|appendChild)\(", text(path))
    assert (["append", "replaceChildren"] if path.name == "dom.js" else []) == natives
