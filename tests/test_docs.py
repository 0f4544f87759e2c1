"""The documentation is correct: its examples run, and it shows their real output."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tools import shown_output

from maar.config.config import Catalog, Registration
from maar.config.file import read_config
from maar.controller.main import LEASE_NAMESPACE
from maar.decide import decide
from maar.kube.kinds.cluster import STATE
from maar.model.snapshot import Snapshot
from maar.registry import catalog
from maar.testing.builders import cluster, gang, node

ROOT = Path(__file__).parents[1]


def blocks(page: str, language: str) -> list[str]:
    """The code blocks of a page."""
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / "docs" / page).read_text(), re.DOTALL)


def test_the_example_plugin_works() -> None:
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


def test_the_example_action_works(capsys: pytest.CaptureFixture[str]) -> None:
    made: dict[str, Any] = {"Registration": Registration}
    exec(blocks("your-own.md", "python")[2], made)
    known = catalog()
    more = Catalog(known.plugins, {**known.actions, "report": made["report"]})
    config = read_config('actions: "report"\ntiers:\n- plugins:\n  - name: gang\n', "docs", more).config
    decide(Snapshot(cluster(node("n1"), gang("a", 1))), config, 0.0)
    assert "1 jobs wait\n" == capsys.readouterr().out


def examples_with_output() -> list[tuple[str, str, list[str]]]:
    """Every command with output in a page: the page, the command, and the lines of output."""
    found = []
    for page in shown_output.pages():
        text = page.read_text()
        for block in shown_output.shown(text):
            found.append((page.name, block.command, text[block.begin : block.end].rstrip("\n").splitlines()))
    return found


@pytest.mark.parametrize(("page", "command", "shown"), examples_with_output())
def test_pages_show_the_current_output(page: str, command: str, shown: list[str]) -> None:
    assert shown_output.output(command) == shown, f"{page}: run tools/shown_output.py"


def test_the_readme_answers_why_a_job_waits() -> None:
    answers = ["\n".join(shown) for page, _, shown in examples_with_output() if page == "README.md"]
    assert any("waits" in answer and "why" in answer for answer in answers)


def test_the_picture_of_the_demo_loads_nothing() -> None:
    picture = (ROOT / "docs" / "figures" / "demo.svg").read_text()
    assert ["http://www.w3.org/2000/svg"] == re.findall(r"https?://[^\s\"')]+", picture)
    assert len(picture) < 200_000


PAGES = sorted(path.relative_to(ROOT).as_posix() for path in shown_output.pages())


def headings(page: Path) -> set[str]:
    """The anchors of a page, as GitHub creates them."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES)
def test_links_have_a_target(page: str) -> None:
    place = ROOT / page
    for target, anchor in re.findall(r"\]\((?!https?://)([^)#\s]*)#?([^)\s]*)\)", place.read_text()):
        linked = place.parent / target if target else place
        assert linked.exists(), f"{page}: {target}"
        if anchor:
            assert anchor in headings(linked), f"{page}: {target}#{anchor}"


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    listed = set(re.findall(r"\]\(([a-z-]+\.md)\)", index))
    assert {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"} == listed


def test_every_change_touches_at_most_two_files() -> None:
    """The table of typical changes in CONTRIBUTING names files and folders that exist."""
    rows = re.findall(
        r"^\| (?!change|-)[^|]+ \|([^|]*)\|([^|]*)\|$", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE
    )
    assert 8 == len(rows)
    for row in rows:
        files = [name for cell in row for name in re.findall(r"`(src/[^`]+)`", cell)]
        assert 1 <= len(files) <= 2
        for name in files:
            place = ROOT / name
            assert place.parent.is_dir() if "<" in name else place.is_file(), name


@pytest.mark.parametrize("example", sorted(p.name for p in (ROOT / "examples").glob("*.yaml")))
def test_examples_plan(example: str) -> None:
    command = [sys.executable, "-m", "maar.cli.main", "plan", "--now", "2026-11-01T10:00:00Z", f"examples/{example}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "" == done.stderr
    assert "nodes, in use" in done.stdout


def lines_into_plan() -> list[tuple[str, str]]:
    """Every documented command that pipes a live cluster into `maar plan -`: the page, and the command."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").rglob("*"))]
    found = []
    for page in (page for page in pages if page.is_file()):
        for paragraph in re.split(r"\n\s*\n", page.read_text(encoding="utf-8")):
            if re.search(r"kubectl get [^`]*\| *maar plan -", paragraph):
                found.append((str(page.relative_to(ROOT)), paragraph))
    return found


def test_documented_plans_of_a_live_cluster_include_what_maar_remembers() -> None:
    """The ConfigMap is in Maar's own namespace: that of the lease, unless `--lease-namespace` says otherwise."""
    assert {"README.md", "docs/plan.md"} <= {page for page, _ in lines_into_plan()}
    wanted = f"kubectl get configmap {STATE.only} -n {LEASE_NAMESPACE} --ignore-not-found -o yaml"
    assert [] == [page for page, command in lines_into_plan() if wanted not in command]
    assert all(" nodes,pods," in command for _, command in lines_into_plan())
