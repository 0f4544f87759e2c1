"""The report: a self-contained page whose drawings show the runs."""

from __future__ import annotations

import itertools
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maar.cli.support.trace_file import load_trace
from maar.registry import catalog
from maar.sim.pool import simulate
from maar.sim.report.bars import on_pixels, sizes, window
from maar.sim.report.frame import AxisSpan
from maar.sim.report.page import draw, page, write_report
from maar.sim.report.scales import Scale, duration, log_ticks, percent, thinned, time_ticks
from maar.sim.report.svg import alone
from maar.sim.report.table import COLUMNS, table
from maar.sim.report.usage import averaged
from maar.sim.result import JobRecord, Run, Sample
from maar.sim.setting import Setting
from maar.sim.trace import Trace, TraceJob

SVG = "{http://www.w3.org/2000/svg}"
START = 1000.0


def record(name: str, submit: float, started: float, end: float, gpus: int = 2, **fields: object) -> JobRecord:
    """A job that ran without interruption, unless its sizes say otherwise."""
    waited, ran = started - submit, end - started
    return JobRecord(name, submit, started, end, waited, ran, 0, ran * gpus, gpus, gpus, **fields)  # type: ignore[arg-type]


def scene(count: int = 5, policies: tuple[str, ...] = ("fifo", "srtf")) -> tuple[list[Run], Trace]:
    """Jobs a minute apart; under each policy they wait a minute longer than under the one before."""
    jobs = tuple(TraceJob(f"job-{i}", START + 60.0 * i, 600.0, 2, 2, 1, 2, 2) for i in range(count))
    runs = []
    for late, policy in enumerate(policies):
        records = tuple(record(j.name, j.submit, j.submit + 60 * late, j.submit + 60 * late + j.duration) for j in jobs)
        end = records[-1].end if records else START
        samples = (Sample(START, 4.0, 2.0, 1.0), Sample(end, 0.0, 0.0, 0.0))
        runs.append(Run(policy, 8, records, samples, gpu_utilisation=0.5))
    return runs, Trace(jobs, "made <up> & short", ("a note",))


class Page(HTMLParser):
    """Checks that tags are closed in order, and collects them."""

    VOID = frozenset({"meta", "br", "hr"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(text)
        self.close()
        assert [] == self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert tag == self.open.pop()

    def handle_data(self, data: str) -> None:
        self.words += data


def read_svg(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text)


def test_the_page_is_whole_and_stands_alone() -> None:
    runs, trace = scene()
    text = page(runs, trace, draw(runs, trace))
    found = Page(text)
    assert "<!doctype html>" == text[:15]
    tags = {tag for tag, _ in found.seen}
    assert set() == tags & {"script", "link", "img", "iframe", "object", "image", "use", "base"}
    asks = [(tag, name) for tag, attributes in found.seen for name in attributes if name in ("src", "href", "srcset")]
    assert [] == asks
    assert None is re.search(r"url\(|@import", text)
    assert ["http://www.w3.org/2000/svg"] == sorted(set(re.findall(r"https?://[^\"' <]+", text)))
    assert (
        "meta",
        {"http-equiv": "Content-Security-Policy", "content": "default-src 'none'; style-src 'unsafe-inline'"},
    ) in found.seen
    assert "made <up> & short" in found.words
    assert "a note" in found.words
    assert "prefers-color-scheme:dark" in text


def test_every_drawing_has_a_name_for_those_who_cannot_see_it() -> None:
    runs, trace = scene()
    figures = draw(runs, trace)
    assert ["completion", "utilisation", "jobs-1", "jobs-2"] == [figure.name for figure in figures]
    ids: list[str] = []
    for figure in figures:
        root = read_svg(figure.drawing)
        title, about = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
        assert title is not None
        assert about is not None
        assert title.text
        assert about.text
        assert ("img", f"{title.get('id')} {about.get('id')}") == (root.get("role"), root.get("aria-labelledby"))
        ids += [element.get("id", "") for element in root.iter() if element.get("id")]
    assert len(ids) == len(set(ids))


def test_a_drawing_stands_alone_too() -> None:
    runs, trace = scene()
    for figure in draw(runs, trace):
        root = read_svg(alone(figure.drawing))
        style = root.find(f"{SVG}style")
        assert style is not None
        assert "--s0" in (style.text or "")
        defined = set(re.findall(r"\.([a-z]\d?)[ {]", style.text or "")) | set(
            re.findall(r"\.([a-z]\d?)\{", style.text or "")
        )
        used = {name for element in root.iter() for name in element.get("class", "").split()}
        assert set() == used - defined


def points(path: str) -> list[tuple[float, float]]:
    """The points of a path, from its moves and steps."""
    found: list[tuple[float, float]] = []
    x = y = 0.0
    for command, rest in re.findall(r"([MHVL])([^MHVLZ]*)", path):
        numbers = [float(n) for n in rest.split()]
        x, y = {"H": (numbers[0], y), "V": (x, numbers[0])}.get(command, (numbers[0], numbers[-1]))
        found.append((x, y))
    return found


def test_lines_of_completion_times_rise_to_all_and_the_faster_is_left() -> None:
    runs, trace = scene(50)
    root = read_svg(draw(runs, trace)[0].drawing)
    lines = [
        points(p.get("d", "")) for p in root.iter(f"{SVG}path") if "l c" in p.get("class", "") and "V" in p.get("d", "")
    ]
    assert 2 == len(lines)
    for line in lines:
        assert line == sorted(line, key=lambda point: (point[0], -point[1]))
    fast, slow = lines
    assert fast[-1][1] == slow[-1][1] < fast[0][1]
    assert fast[-1][0] < slow[-1][0]


def test_bars_are_where_jobs_ran() -> None:
    runs, trace = scene(3, ("a", "b"))
    root = read_svg(draw(runs, trace)[3].drawing)
    groups = root.findall(f"{SVG}g")
    assert 3 == len(groups)
    span = AxisSpan(START, START + 60 * 2 + 60 + 600)
    x = span.scale()
    for i, group in enumerate(groups):
        title = group.find(f"{SVG}title")
        wait, bar = group.findall(f"{SVG}path")
        submit = START + 60.0 * i
        assert title is not None
        assert f"job-{i}: 2 GPUs asked for, waited 1 min, ran 10 min" == title.text
        assert x(submit) == pytest.approx(points(wait.get("d", ""))[0][0], abs=0.06)
        at = [place for place, _ in points(bar.get("d", ""))]
        assert (x(submit + 60), x(submit + 660)) == pytest.approx((at[0], max(at)), abs=0.06)


def test_of_many_jobs_those_that_waited_longest_are_shown_and_said() -> None:
    waits = [0.0] * 400 + [50.0] * 120 + [0.0] * 480
    jobs = tuple(TraceJob(f"j{i:04}", float(i), 10.0, 1) for i in range(1000))
    records = tuple(
        record(j.name, j.submit, j.submit + w, j.submit + w + 10, 1) for j, w in zip(jobs, waits, strict=True)
    )
    figure = draw([Run("fifo", 8, records)], Trace(jobs))[2]
    assert figure.caption.startswith(
        "Jobs 401 to 520 of 1,000, in order of submission: the 120 consecutive jobs that waited"
    )
    root = read_svg(figure.drawing)
    titles = [title.text or "" for title in root.iter(f"{SVG}title")][1:]
    assert (120, "j0400", "j0519") == (len(titles), titles[0][:5], titles[-1][:5])
    assert "end beyond the right edge" in figure.caption


def test_jobs_that_never_ran_are_counted() -> None:
    runs, trace = scene(3, ("a",))
    gone = Run("a", 8, runs[0].jobs[:2], runs[0].samples, unfinished=("job-2",))
    figures = draw([gone], trace)
    assert figures[2].caption.endswith("1 of them never ran.")
    assert "Under a 1 job did not end" in page([gone], trace, figures)


def test_a_report_of_many_jobs_stays_small() -> None:
    draws = np.random.Generator(np.random.PCG64(3))
    jobs = tuple(TraceJob(f"training-job-{i:05}", 30.0 * i, 600.0, 4, 4, 1, 1, 16) for i in range(10_000))
    records = []
    for job in jobs:
        moments = np.sort(draws.uniform(job.submit + 10, job.submit + 90_000, 40))
        steps = (
            *((float(at), int(n)) for at, n in zip(moments, draws.integers(1, 17, 40), strict=True)),
            (job.submit + 90_000, 0),
        )
        records.append(record(job.name, job.submit, steps[0][0], job.submit + 90_000, 4, sizes=steps))
    samples = tuple(Sample(150.0 * i, 32.0, 8.0, 2.0) for i in range(2001))
    runs = [Run(f"policy-{i}", 64, tuple(records), samples) for i in range(10)]
    text = page(runs, Trace(jobs), draw(runs, Trace(jobs)))
    assert len(text.encode()) < 3_000_000
    assert "Each line goes through 500 of 10,000 jobs" in text


@pytest.mark.parametrize(("count", "policies"), [(0, ("a",)), (1, ("a",)), (1, ()), (0, ())])
def test_hardly_anything_can_be_reported(count: int, policies: tuple[str, ...]) -> None:
    runs, trace = scene(count, policies)
    Page(page(runs, trace, draw(runs, trace)))


def test_the_table_marks_the_best() -> None:
    runs, _ = scene()
    text = table(runs)
    rows = re.findall(r"<tr><th scope=\"row\">(.*?)</th>(.*?)</tr>", text)
    assert ["fifo", "srtf"] == [name for name, _ in rows]
    cells = {name: re.findall(r"<td[^>]*>(.*?)</td>", row) for name, row in rows}
    column = [c.name for c in COLUMNS].index("mean")
    assert ("<strong>10 min</strong>", "11 min") == (cells["fifo"][column], cells["srtf"][column])
    assert "<strong>" not in table(runs[:1])


def test_a_report_is_a_file_or_a_folder_of_figures(tmp_path: Path) -> None:
    runs, trace = scene()
    assert [tmp_path / "r.html"] == write_report(runs, trace, tmp_path / "r.html")
    folder = tmp_path / "figures"
    written = write_report(runs, trace, folder)
    assert ["index.html", "completion.svg", "utilisation.svg", "jobs-1.svg", "jobs-2.svg"] == [p.name for p in written]
    assert (tmp_path / "r.html").read_bytes() == (folder / "index.html").read_bytes()
    for path in written[1:]:
        read_svg(path.read_text())


def test_the_same_runs_give_the_same_bytes() -> None:
    assert page(*scene(), draw(*scene())) == page(*scene(), draw(*scene()))


# The documentation

ROOT = Path(__file__).parents[2]
POLICIES = ("fifo", "srtf", "tiresias", "elastic-fifo", "afs-l")


@pytest.fixture(scope="module")
def documented() -> tuple[list[Run], Trace]:
    """The runs of docs/choose-a-policy.md."""
    trace = load_trace(str(ROOT / "examples/traces/two-days.csv"))
    known = catalog().algorithms
    return [simulate(trace, known[name], Setting(nodes=8, gpus_per_node=8)) for name in POLICIES], trace


def test_the_figures_in_the_documentation_are_what_is_drawn(documented: tuple[list[Run], Trace]) -> None:
    drawn = {f"{figure.name}.svg": alone(figure.drawing) for figure in draw(*documented)}
    text = (ROOT / "docs/choose-a-policy.md").read_text()
    shown = re.findall(r"\(figures/(.*?)\)", text)
    assert ["completion.svg", "utilisation.svg", "jobs-1.svg", "jobs-5.svg"] == shown
    for name in shown:
        committed = (ROOT / "docs/figures" / name).read_text()
        assert drawn[name] == committed, f"{name}: run the command in docs/choose-a-policy.md again"


def test_the_table_in_the_documentation_is_what_comes_out(documented: tuple[list[Run], Trace]) -> None:
    text = (ROOT / "docs/choose-a-policy.md").read_text()
    for run in documented[0]:
        s = run.summary
        times = " | ".join(map(duration, (s.avg_jct, s.p50_jct, s.p99_jct, s.avg_wait, s.makespan)))
        numbers = f"{percent(s.gpu_utilisation)} | {s.restarts:,} | {s.mean_ratio:.2f} | {s.worst_ratio:.1f}"
        assert f"| `{s.policy}` | {times} | {numbers} |" in text


# The arithmetic below


def test_means_of_steps_keep_the_sum() -> None:
    times, values = np.array([0.0, 1.0, 3.0, 10.0]), np.array([4.0, 2.0, 1.0, 9.0])
    moments = np.linspace(-1, 12, 27)
    means = averaged(times, values, moments)
    assert 4.0 * 1 + 2.0 * 2 + 1.0 * 7 == pytest.approx(float((means * np.diff(moments)).sum()))


@given(st.lists(st.tuples(st.floats(0, 1000), st.integers(0, 16)), min_size=1, max_size=30), st.floats(1, 2000))
def test_safety_bars_keep_gpu_seconds(changes: list[tuple[float, int]], length: float) -> None:
    steps = sorted((at, float(gpus)) for at, gpus in changes)
    steps.append((max(steps[-1][0] + 1.0, length), 0.0))
    x = Scale(0.0, 3000.0, 0.0, 100.0)

    def total(of: list[tuple[float, float]]) -> float:
        return sum(gpus * (after - at) for (at, gpus), (after, _) in itertools.pairwise(of))

    drawn = on_pixels(steps, x)
    assert total([(x(at), gpus) for at, gpus in steps]) == pytest.approx(total(drawn), abs=17 * 0.5)
    assert len(drawn) <= 100 / 0.5 + 2


def test_a_job_whose_changes_were_not_kept_has_one_bar() -> None:
    assert [(5.0, 4.0), (9.0, 0.0)] == sizes(record("a", 1.0, 5.0, 9.0, 4))
    changed = record("a", 1.0, 5.0, 9.0, 4, sizes=((5.0, 2), (6.0, 8), (9.0, 0)))
    assert [(5.0, 2.0), (6.0, 8.0), (9.0, 0.0)] == sizes(changed)


@given(st.lists(st.integers(0, 9), max_size=20), st.integers(1, 8))
def test_safety_the_window_is_the_fullest(waits: list[int], width: int) -> None:
    at = window([float(w) for w in waits], width)
    assert 0 <= at <= max(len(waits) - width, 0)
    assert sum(waits[at : at + width]) == max(sum(waits[i : i + width]) for i in range(len(waits) + 1))


@given(st.floats(1e-3, 1e10))
def test_safety_ticks_are_few_and_within(high: float) -> None:
    ticks = time_ticks(high)
    assert 0.0 == ticks[0]
    assert ticks[-1] <= high * (1 + 1e-6)
    assert len(ticks) <= 9
    assert all(high / 1e6 <= tick <= high for tick in log_ticks(high / 1e6, high))


@given(st.integers(0, 5000), st.integers(2, 600))
def test_safety_thinning_keeps_the_ends(count: int, most: int) -> None:
    kept = list(thinned(count, most))
    assert kept == sorted(set(kept))
    assert min(count, most) == len(kept)
    if count:
        assert (0, count - 1) == (kept[0], kept[-1])
