"""The documentation is true: its examples run, and what it shows is what comes out."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from maar.config.config import Catalog, Registration
from maar.config.file import read_config
from maar.decide import decide
from maar.model.snapshot import Snapshot
from maar.registry import catalog
from maar.testing.builders import cluster, gang, node

ROOT = Path(__file__).parents[1]


def blocks(page: str, language: str) -> list[str]:
    """The code blocks of a page."""
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / "docs" / page).read_text(), re.DOTALL)


def test_the_plugin_of_ones_own_works() -> None:
    made: dict[str, Any] = {}
    exec(blocks("your-own.md", "python")[0], made)
    even = made["even"]
    assert isinstance(even, Registration)
    known = catalog()
    more = Catalog({**known.plugins, "even": even}, known.actions, known.aliases, known.missing)
    text = 'actions: "allocate"\n' + blocks("your-own.md", "yaml")[0]
    loaded = read_config(text, "docs", more)
    night, noon = 3 * 3600.0, 12 * 3600.0
    scene = cluster([node(f"n{i}") for i in range(1, 5)], gang("nightly/a", 1), gang("other/b", 1))
    placed = {b.task: b.node for b in decide(Snapshot(scene), loaded.config, night).bind}
    assert {"nightly/a-0", "other/b-0"} == set(placed)
    assert {"n2", "n4"} >= set(placed.values())
    by_day = decide(Snapshot(scene), loaded.config, noon)
    assert ["other/b-0"] == [b.task for b in by_day.bind]
    assert "0/4 nodes fit: 4 closed to `nightly` by day" == by_day.waiting[0].reasons[0].message


def test_the_action_of_ones_own_works(capsys: pytest.CaptureFixture[str]) -> None:
    made: dict[str, Any] = {"Registration": Registration}
    exec(blocks("your-own.md", "python")[2], made)
    known = catalog()
    more = Catalog(known.plugins, {**known.actions, "report": made["report"]})
    config = read_config('actions: "report"\ntiers:\n- plugins:\n  - name: gang\n', "docs", more).config
    decide(Snapshot(cluster(node("n1"), gang("a", 1))), config, 0.0)
    assert "1 jobs wait\n" == capsys.readouterr().out


def test_the_readme_shows_what_comes_out() -> None:
    readme = (ROOT / "README.md").read_text()
    command = re.search(r"^    \$ (maar plan .*)$", readme, re.MULTILINE)
    assert command is not None
    done = subprocess.run(
        [sys.executable, "-m", "maar.cli.main", *command.group(1).split()[1:]],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    shown = readme[command.end() :].split("\n\n    make", 1)[0]
    lines = [line.strip() for line in shown.splitlines() if line.strip()]
    assert [line.strip() for line in done.stdout.splitlines() if line.strip()] == lines


@pytest.mark.parametrize("page", sorted(p.name for p in (ROOT / "docs").glob("*.md")) + ["../README.md"])
def test_links_lead_somewhere(page: str) -> None:
    place = ROOT / "docs" / page
    for target in re.findall(r"\]\((?!https?://)([^)#]+)", place.read_text()):
        assert (place.parent / target).exists(), f"{page}: {target}"


@pytest.mark.parametrize("example", sorted(p.name for p in (ROOT / "examples").glob("*.yaml")))
def test_examples_plan(example: str) -> None:
    command = [sys.executable, "-m", "maar.cli.main", "plan", "--now", "2026-11-01T10:00:00Z", f"examples/{example}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "" == done.stderr
    assert "nodes, in use" in done.stdout
