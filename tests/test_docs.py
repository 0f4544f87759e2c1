"""The documentation is correct: its examples run, and it shows their real output."""

from __future__ import annotations

import pydoc
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tools import folders, shown_numbers, shown_output

from maar.config.config import Catalog, Registration
from maar.config.file import read_config
from maar.controller.process import LEASE_NAMESPACE
from maar.decide import decide
from maar.kube.kinds.cluster import STATE
from maar.model.queues import Queue
from maar.model.snapshot import Snapshot
from maar.registry import catalog
from maar.testing.builders import cluster, gang, node
from maar.testing.scenario import cycles

ROOT = Path(__file__).parents[1]


def blocks(page: str, language: str) -> list[str]:
    """The code blocks of a page."""
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / "docs" / page).read_text(), re.DOTALL)


def test_the_example_action_works(capsys: pytest.CaptureFixture[str]) -> None:
    made: dict[str, Any] = {"Registration": Registration}
    exec(next(block for block in blocks("your-own.md", "python") if "class Report" in block), made)
    known = catalog()
    more = Catalog(known.plugins, {**known.actions, "report": made["report"]})
    config = read_config('actions: "report"\ntiers:\n- plugins:\n  - name: gang\n', "docs", more).config
    decide(Snapshot(cluster(node("n1"), gang("a", 1))), config, 0.0)
    assert "1 jobs wait\n" == capsys.readouterr().out


def test_the_example_that_remembers_works() -> None:
    made: dict[str, Any] = {"msgspec": msgspec}
    exec(next(block for block in blocks("your-own.md", "python") if "class Rota" in block), made)
    known = catalog()
    more = Catalog({**known.plugins, "rota": Registration("rota", made["Rota"])}, known.actions)
    config = read_config("actions: allocate\ntiers: [{plugins: [{name: gang}, {name: rota}]}]\n", "docs", more).config
    jobs = gang("a", queue="q", on=["n1"]), gang("b", queue="q"), gang("c", queue="r")
    world = cluster(node("n1", cpu=2), Queue("q"), Queue("r"), *jobs)
    plans, _ = cycles(world, config, 2, 1000.0)
    assert ["ns/c-0"] == [bind.task for bind in plans[0].bind]
    assert {"q": {"at": 900.0}, "r": {"at": 900.0}} == {
        fact.key: fact.value for fact in plans[1].facts if fact.key in ("q", "r")
    }


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


@pytest.mark.parametrize("quoted", shown_numbers.QUOTES, ids=lambda quoted: f"{quoted.page}: {quoted.words}")
def test_pages_quote_the_numbers_of_the_code(quoted: shown_numbers.Quote) -> None:
    text = (ROOT / "docs" / quoted.page).read_text(encoding="utf-8")
    assert shown_numbers.refreshed(text, quoted) == text, "run tools/shown_numbers.py"


def test_an_old_number_is_replaced_and_missing_words_are_noticed() -> None:
    quoted = shown_numbers.quote("a.md", "at most {} jobs in {} s", 20_000, 13.5)
    assert "at most 20,000 jobs\nin 13.5 s." == shown_numbers.refreshed("at most 1,000 jobs\nin 2 s.", quoted)
    with pytest.raises(ValueError, match="found 0 times"):
        shown_numbers.refreshed("at most many jobs in 2 s.", quoted)


@pytest.mark.parametrize("page", folders.PAGES)
def test_the_map_of_folders_is_that_of_the_import_contracts(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert folders.refreshed(text) == text, "run tools/folders.py"


def test_every_name_of_the_architecture_exists() -> None:
    names = re.findall(r"`(maar(?:\.\w+)+)`", (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"))
    assert {"maar.kube.write.executor.Executor", "maar.whatif"} <= set(names)
    assert [] == [name for name in names if pydoc.locate(name) is None]


def test_the_readme_answers_why_a_job_waits() -> None:
    answers = ["\n".join(shown) for page, _, shown in examples_with_output() if page == "README.md"]
    assert any("waits" in answer and "why" in answer for answer in answers)


def test_the_picture_of_the_demo_loads_nothing() -> None:
    picture = (ROOT / "docs" / "figures" / "demo.svg").read_text()
    assert ["http://www.w3.org/2000/svg"] == re.findall(r"https?://[^\s\"')]+", picture)
    assert len(picture) < 200_000


PAGES = sorted(path.relative_to(ROOT).as_posix() for path in shown_output.pages())


NAMED = re.compile(r"docs/([a-z-]+\.md)(?:#([\w-]+))?")
"""A page that another file names."""
NAMING = (".py", ".yaml", ".tpl", ".txt", ".json", ".md", ".js")


def headings(page: Path) -> set[str]:
    """The anchors of a page, as GitHub creates them."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


LONGEST = 2500
"""Words in one page, code and tables included; tuned by hand."""
TEN_MINUTES = 1800
"""Words of a first page, with commands to type; tuned by hand."""


@pytest.mark.parametrize("page", [page for page in PAGES if page != "CHANGELOG.md"])
def test_no_page_is_longer_than_one_sitting(page: str) -> None:
    assert len((ROOT / page).read_text(encoding="utf-8").split()) <= LONGEST


def test_each_reader_has_a_first_page_of_ten_minutes() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    first = re.findall(
        r"^## I (?!want).*\n\n\|.*\|\n\|.*\|\n\| \[[^]]+\]\((.*?)\) \| \*\*begin here\*\*", index, re.MULTILINE
    )
    assert ["run-a-cluster.md", "submit-jobs.md", "choose-a-policy.md"] == first
    words = {page: len((ROOT / "docs" / page).read_text(encoding="utf-8").split()) for page in first}
    assert {} == {page: count for page, count in words.items() if count > TEN_MINUTES}


@pytest.mark.parametrize("page", ["from-volcano.md", "from-slurm.md"])
def test_the_table_of_commands_is_the_first_one(page: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.*?) \| (.*?) \|$", text, re.MULTILINE)
    assert "Maar" == rows[0][1]
    assert "`maar jobs`" in rows[1][1]


def test_the_changelog_of_a_version_is_short() -> None:
    versions = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    released = [version for version in versions if not version.startswith("[Unreleased]")]
    assert released
    assert [] == [version.partition("\n")[0] for version in released if len(version.splitlines()) > 60]


@pytest.mark.parametrize("page", PAGES)
def test_links_have_a_target(page: str) -> None:
    place = ROOT / page
    for target, anchor in re.findall(r"\]\((?!https?://)([^)#\s]*)#?([^)\s]*)\)", place.read_text()):
        linked = place.parent / target if target else place
        assert linked.exists(), f"{page}: {target}"
        if anchor:
            assert anchor in headings(linked), f"{page}: {target}#{anchor}"


def test_pages_that_code_and_manifests_name_exist() -> None:
    folders = ("src", "deploy", "examples", "tests", "bench", "tools")
    files = [file for folder in folders for file in (ROOT / folder).rglob("*") if file.suffix in NAMING]
    named = {found for file in files for found in NAMED.findall(file.read_text(encoding="utf-8"))}
    assert ("running.md", "brakes") in named
    places = [(ROOT / "docs" / page, anchor) for page, anchor in named]
    assert [] == [(page.name, anchor) for page, anchor in places if not page.is_file()]
    assert [] == [(page.name, anchor) for page, anchor in places if anchor and anchor not in headings(page)]


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    listed = set(re.findall(r"\]\(([a-z-]+\.md)\)", index))
    assert {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"} == listed


def test_every_change_touches_at_most_two_files() -> None:
    """The table of typical changes in CONTRIBUTING names files and folders that exist."""
    rows = re.findall(
        r"^\| (?!change|-)[^|]+ \|([^|]*)\|([^|]*)\|$", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE
    )
    assert 13 == len(rows)
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
