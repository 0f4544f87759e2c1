"""What the page must not pretend: words that are none, old data, zeros that nobody measured, things that are not."""

from __future__ import annotations

import math
import re
from itertools import combinations

import pytest
from playwright.sync_api import Page, expect
from tests.support.page.scenes import NOW, small
from tests.support.page.server import STORY, PageServer
from tests.web.page.conftest import PATIENCE, Open

from maar.model.queues import Queue
from maar.model.snapshot import Cluster
from maar.testing.builders import cluster, gang, node
from maar.views.records import UtilisationView
from maar.views.sight import ALL

pytestmark = [pytest.mark.real, pytest.mark.slow]

expect.set_options(timeout=PATIENCE)

PLACES = {
    "cluster": "Cluster",
    "cluster/r0-n0": "Cluster",
    "cluster/nowhere": "Cluster",
    "queues": "Queues",
    "waiting": "Waiting jobs",
    "waiting?queue=vison": "Waiting jobs",
    "jobs/ann/giant": "ann/giant",
    "jobs/bob/probe": "bob/probe",
    "jobs/ann/tuner": "ann/tuner",
    "jobs/bob/night": "bob/night",
    "jobs/ann/missing": "Job not found",
    "decisions": "Decisions",
    "what-if": "What if",
    "nowhere": "Page not found",
}
"""Addresses, and the titles of their pages."""
NO_WORDS = re.compile(r"\b(?:false|true|undefined|null|NaN|Infinity)\b|\[object|\$\{")
TEXT = """() => {
    const labels = [...document.querySelectorAll('[aria-label], [title]')];
    const hidden = labels.flatMap((e) => [e.getAttribute('aria-label') ?? '', e.getAttribute('title') ?? '']);
    return [document.title, document.body.innerText, ...hidden].join(' ');
}"""
"""Everything that is read on the page, also by screen readers."""


def visit(page: Page, served: PageServer, place: str, title: str) -> None:
    """Go to an address, and wait until the page has all that it fetches."""
    page.goto(f"{served.url}#/{place}")
    expect(page.locator("main h1")).to_have_text(title)
    expect(page.locator("main")).not_to_contain_text("Loading")
    expect(page.locator("main")).not_to_contain_text("Searching for changes")


def places(served: PageServer) -> dict[str, str]:
    return {**PLACES, "submit": "Submit a job" if served.writes else "Page not found"}


# -- words


@pytest.mark.parametrize("writes", [True, False], ids=["with writes", "without writes"])
def test_no_value_of_the_code_is_shown_as_text(opened: Open, writes: bool) -> None:
    with PageServer(small(), writes=writes) as served:
        page = opened(served.url)
        for place, title in places(served).items():
            visit(page, served, place, title)
            for details in page.locator("main details").all():
                details.evaluate("(element) => (element.open = true)")
            assert (place, []) == (place, NO_WORDS.findall(page.evaluate(TEXT)))


# -- the connection


def test_a_server_that_has_gone_is_told_and_its_data_is_grey(opened: Open) -> None:
    served = PageServer(small())
    with served:
        page = opened(f"{served.url}#/waiting")
        expect(page.locator("#live")).to_have_text("live")
        expect(page.locator("#notice")).to_be_hidden()
    clock = r"\d\d:\d\d:\d\d"
    expect(page.locator("#notice")).to_have_text(
        re.compile(
            rf"^No connection to Maar since (\w+ \d+ )?{clock}; data is from (\w+ \d+ )?{clock}\. Connecting again\.$"
        )
    )
    expect(page.locator("#notice")).to_have_attribute("role", "alert")
    expect(page.locator("main")).to_have_class("stale")
    expect(page.locator("tr[data-job='bob/probe']")).to_be_visible()
    served.change(small(gang("bob/late", 9, gpu=8, queue="batch")))
    with served:
        expect(page.locator("tr[data-job='bob/late']")).to_be_visible()
        expect(page.locator("#notice")).to_be_hidden()
        expect(page.locator("main")).not_to_have_class("stale")
        expect(page.locator("#live")).to_have_text("live")


def test_a_server_that_hangs_is_told(served: PageServer, opened: Open) -> None:
    page = opened(f"{served.url}#/waiting")
    expect(page.locator("#live")).to_have_text("live")
    served.hang()
    expect(page.locator("#notice")).to_contain_text("No connection to Maar since")
    served.go_on()
    expect(page.locator("#notice")).to_be_hidden()
    expect(page.locator("#live")).to_have_text("live")


def test_a_server_that_hears_nothing_from_the_cluster_is_told(served: PageServer, opened: Open) -> None:
    page = opened(f"{served.url}#/queues")
    expect(page.locator("#live")).to_have_text("live")
    served.age = 600.0
    expect(page.locator("#notice")).to_contain_text("Maar has heard nothing from the cluster since")
    expect(page.locator("main")).to_have_class("stale")
    served.age = 0.0
    expect(page.locator("#notice")).to_be_hidden()


def test_a_quiet_cluster_is_not_old(served: PageServer, opened: Open) -> None:
    """Without a change the signs of life say how old the data is."""
    page = opened(f"{served.url}#/queues")
    expect(page.locator("#live")).to_have_text("live")
    page.evaluate("performance.clearMarks()")
    seen = page.locator("#foot").text_content()
    served.cycles.append(served.cycles[-1])  # time passes
    expect(page.locator("#foot")).not_to_have_text(seen or "")
    assert 0 == page.evaluate("performance.getEntriesByName('maar:event').length"), "and nothing is fetched for it"


def test_a_page_that_is_opened_while_the_server_is_away_waits_for_it(opened: Open) -> None:
    served = PageServer(small(), tokens={"anns": ALL})
    with served:
        page = opened(served.url)
        page.get_by_label("Token").fill("anns")
        page.get_by_role("button", name="Log in").click()
        page.wait_for_selector(".grid[data-drawn]")
        page.route("**/api/v1/**", lambda route: route.abort())
        page.reload()
        expect(page.get_by_role("alert").first).to_contain_text("maar web does not answer")
        page.unroute("**/api/v1/**")
        page.wait_for_selector(".grid[data-drawn]")  # without a new log-in


# -- colours


LOOKS = """async (steps) => {
    const { Colours } = await import('./js/colours.js');
    const colours = new Colours();
    for (const names of steps) colours.queues.keep(names);
    return steps.at(-1).map((name) => colours.queue(name));
}"""
"""The looks of the last queues, after the page has known others."""
TEAMS = [f"team-{i}" for i in range(36)]
LEGEND = """() => [...document.querySelectorAll('[aria-label=Colours] > span')]
    .filter((e) => e.innerText.startsWith('team'))
    .map((e) => getComputedStyle(e.querySelector('.swatch')))
    .map((style) => `${style.backgroundColor} ${style.backgroundImage}`)"""


def crowded() -> Cluster:
    """48 jobs in 16 queues, each with GPUs."""
    nodes = [node(f"n{i}", gpu=8) for i in range(12)]
    queues = [Queue(f"team-{i}", created=1.0) for i in range(16)]
    jobs = [gang(f"ann/j{i}", 1, gpu=2, on=[f"n{i // 4}"], queue=f"team-{i % 16}") for i in range(48)]
    return cluster(nodes, queues, jobs)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_two_queues_share_a_look(opened: Open, scheme: str) -> None:
    with PageServer(crowded()) as served:
        page = opened(served.url, color_scheme=scheme)
        page.wait_for_selector(".grid[data-drawn]")  # by job first: jobs take no colour of a queue
        page.get_by_role("button", name="Queue", exact=True).click()
        expect(page.locator("[aria-label=Colours]")).to_contain_text("team-15")
        looks = page.evaluate(LEGEND)
        assert (16, 16) == (len(looks), len(set(looks)))
        plain = sum(look.endswith(" none") for look in looks)
        assert 11 == plain, "patterns only when all colours are taken; the queue `default` has one"
        layers = page.locator("#utilisation .layer:not(.rest)")
        expect(layers).to_have_count(16)
        fills = layers.evaluate_all("all => all.map((one) => getComputedStyle(one).fill)")
        assert 16 == len(set(fills))


def test_queues_have_their_look_by_name(served: PageServer, opened: Open) -> None:
    page = opened(served.url)
    page.wait_for_selector(".grid[data-drawn]")
    few = page.evaluate(LOOKS, [TEAMS[:12]])
    assert ({""}, 12) == ({look["pattern"] for look in few}, len({look["colour"] for look in few}))
    many = page.evaluate(LOOKS, [TEAMS])
    assert 36 == len({(look["colour"], look["pattern"]) for look in many})
    assert many[::-1] == page.evaluate(LOOKS, [TEAMS[::-1]]), "whatever the order in which they come"
    assert few == page.evaluate(LOOKS, [TEAMS[:12], TEAMS])[:12], "a queue keeps its look when others come"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_of_queues_can_be_told_apart_by_everyone(served: PageServer, opened: Open, scheme: str) -> None:
    page = opened(served.url, color_scheme=scheme)
    page.wait_for_selector(".grid[data-drawn]")
    colours = [look["colour"] for look in page.evaluate(LOOKS, [TEAMS[:12]])]
    for eyes, matrix in EYES.items():
        seen = [lab(matrix, colour) for colour in colours]
        nearest = min(math.dist(a, b) for a, b in combinations(seen, 2))
        assert nearest > 0.07, eyes  # a difference of 0.02 can just be seen


# -- charts


def point(ago: float, used: int, until: float | None = None) -> UtilisationView:
    return UtilisationView(at=NOW - ago, total=96, used=used, waiting=0, queues={"batch": used}, others=0, until=until)


def runs(page: Page, line: str) -> int:
    """How many pieces a line of the chart has."""
    return (page.locator(f"#utilisation {line}").first.get_attribute("d") or "").count("M")


def test_what_is_not_known_is_a_gap_in_the_chart(served: PageServer, opened: Open) -> None:
    served.past = [point(9000, 48), point(8000, 24, until=NOW - 7000), point(2000, 80)]
    page = opened(served.url)
    chart = page.locator("#utilisation")
    expect(chart.locator(".gap").first).to_be_attached()
    expect(chart.get_by_role("img")).to_have_attribute("aria-label", re.compile("not known for 1 h 23 min"))
    expect(chart.locator(".legend")).to_contain_text("not known")
    assert (2, 2, 1) == (runs(page, "path.all"), runs(page, ".layer"), chart.locator("rect.gap").count())
    expect(page.locator(".cards .gap")).to_have_count(1)


def test_a_chart_without_gaps_says_nothing_of_them(served: PageServer, opened: Open) -> None:
    served.past = [point(9000, 48), point(8000, 24), point(2000, 80)]
    page = opened(served.url)
    chart = page.locator("#utilisation")
    expect(chart.get_by_role("img")).to_have_attribute("aria-label", re.compile("the last 2 h 30 min"))
    assert (1, 0) == (runs(page, "path.all"), chart.locator(".gap").count())


def test_the_time_without_a_connection_is_a_gap(opened: Open) -> None:
    served = PageServer(small())
    with served:
        page = opened(served.url)
        page.wait_for_selector("#utilisation path.all", state="attached")
    expect(page.locator("#notice")).to_be_visible()
    expect(page.locator("#utilisation rect.gap")).to_have_count(1)  # since then nothing is known
    served.cycles += served.cycles[-1:] * 60  # a minute passes
    with served:
        expect(page.locator("#notice")).to_be_hidden()
        expect(page.locator("#utilisation")).to_contain_text("not known")
        page.wait_for_function(
            "document.querySelector('#utilisation path.all').getAttribute('d').split('M').length === 3"
        )


def test_the_size_of_a_job_is_not_zero_before_it_is_known(served: PageServer, opened: Open) -> None:
    served.story = STORY[2:]  # the start is no longer in the story
    page = opened(f"{served.url}#/jobs/ann/tuner")
    chart = page.locator("svg.chart")
    expect(chart).to_have_attribute("aria-label", re.compile("^Workers: 6 at .*, 4 at .*; not known for"))
    expect(chart.locator(".gap")).to_have_count(1)
    served.story = STORY
    page.reload()
    expect(chart).to_have_attribute("aria-label", re.compile("^Workers: 0 at .*, 2 at .*, 6 at .*, 4 at [^;]*$"))
    expect(chart.locator(".gap")).to_have_count(0)


# -- what does not exist


@pytest.mark.parametrize(
    "place",
    [
        "nowhere",
        "jobs",
        "jobs/ann",
        "jobs/a/b/c",
        "queues/x",
        "cluster/a/b",
        "decisions/soon",
        "what-if?decision=x",
        "%E0",
    ],
)
def test_an_address_that_leads_nowhere_says_so(served: PageServer, opened: Open, place: str) -> None:
    page = opened(f"{served.url}#/{place}")
    expect(page.locator("main h1")).to_have_text("Page not found")
    expect(page.get_by_role("alert").first).to_contain_text(f"#/{place}")
    expect(page).to_have_title("Page not found · Maar")
    expect(page.locator("#nav [aria-current]")).to_have_count(0)
    page.get_by_role("link", name="Back to the cluster").click()
    expect(page.locator("main h1")).to_have_text("Cluster")


def test_without_writes_the_page_for_them_is_not_there(opened: Open) -> None:
    with PageServer(small(), writes=False) as served:
        page = opened(f"{served.url}#/submit")
        expect(page.locator("main h1")).to_have_text("Page not found")
        expect(page.locator("main")).to_contain_text("this Maar does not allow writes")


def test_a_job_that_does_not_exist_does_not_look_like_one(served: PageServer, opened: Open) -> None:
    page = opened(f"{served.url}#/jobs/ann/gaint")
    expect(page.locator("main h1")).to_have_text("Job not found")
    expect(page.get_by_role("alert").first).to_contain_text("There is no such job, or you may not see it: ann/gaint")
    expect(page.locator("main section:visible, main details:visible")).to_have_count(0)
    page.get_by_role("link", name="ann/giant").click()
    expect(page.locator("main h1")).to_have_text("ann/giant")
    page.goto(f"{served.url}#/jobs/bob/new")
    expect(page.locator("main h1")).to_have_text("Job not found")
    served.change(small(gang("bob/new", 9, gpu=8, queue="batch")))
    expect(page.locator("main h1")).to_have_text("bob/new")
    expect(page.get_by_label("Why it waits")).to_be_visible()


def test_a_node_and_a_queue_that_do_not_exist(served: PageServer, opened: Open) -> None:
    page = opened(f"{served.url}#/cluster/r0-n9")
    expect(page.locator("#node")).to_contain_text("There is no node r0-n9. Did you mean r0-n0, r0-n1 or r0-n2?")
    page.locator("#node").get_by_role("link", name="r0-n1").click()
    expect(page.locator("#node h2")).to_contain_text("r0-n1")
    page.goto(f"{served.url}#/waiting?queue=vison")
    expect(page.get_by_role("alert").first).to_contain_text("There is no queue vison")
    page.get_by_role("alert").first.get_by_role("link", name="vision").click()
    expect(page.locator("#queue")).to_have_value("vision")
    expect(page.locator("tr[data-job]")).to_have_count(1)


# -- contrast


@pytest.mark.parametrize("state", ["live", "stale"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_can_be_read(opened: Open, scheme: str, state: str) -> None:
    """A contrast of 4.5 to 1, as WCAG AA asks for; 3 to 1 for large text."""
    found: dict[str, list[str]] = {}
    with PageServer(small()) as served:
        page = opened(served.url, color_scheme=scheme)
        if state == "stale":
            expect(page.locator("#live")).to_have_text("live")
            served.age = 600.0
            expect(page.locator("#notice")).to_be_visible()
        for place, title in places(served).items():
            visit(page, served, place, title)
            for details in page.locator("main details").all():
                details.evaluate("(element) => (element.open = true)")
            found[place] = page.evaluate(CONTRAST)
        page.goto(f"{served.url}#/what-if")
        page.get_by_role("button", name="Add this edit").click()
        page.get_by_label("Copies of node").fill("r0-n0")
        page.get_by_label("How many").fill("2")
        page.get_by_role("button", name="What would happen?").click()
        expect(page.get_by_label("Answer")).to_contain_text("Starts: bob/probe")
        found["answer"] = page.evaluate(CONTRAST)
    assert {} == {place: weak for place, weak in found.items() if weak}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_log_in_can_be_read(opened: Open, scheme: str) -> None:
    with PageServer(small(), tokens={}) as served:
        page = opened(served.url, color_scheme=scheme)
        page.get_by_label("Token").fill("wrong")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("alert")).to_be_visible()
        assert [] == page.evaluate(CONTRAST)


CONTRAST = """() => {
    const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
    const rgba = (colour) => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
        return [r, g, b, a / 255];
    };
    const over = ([r, g, b, a], [x, y, z]) => [r * a + x * (1 - a), g * a + y * (1 - a), b * a + z * (1 - a)];
    const light = (colour) => {
        const [r, g, b] = colour
            .map((v) => v / 255)
            .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const back = (element) => {
        if (!element) return [255, 255, 255];
        const own = rgba(getComputedStyle(element).backgroundColor);
        return own[3] === 1 ? own.slice(0, 3) : over(own, back(element.parentElement));
    };
    const weak = [];
    const look = (element, colour, words) => {
        const behind = back(element);
        let shown = over(rgba(colour), behind);
        for (let e = element; e; e = e.parentElement) {
            const { opacity } = getComputedStyle(e);
            if (opacity !== "1") shown = over([...shown, Number(opacity)], back(e.parentElement));
        }
        const [high, low] = [light(shown), light(behind)].sort((a, b) => b - a);
        const ratio = (high + 0.05) / (low + 0.05);
        const style = getComputedStyle(element);
        const size = parseFloat(style.fontSize);
        const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
        const name = `${element.tagName}.${element.className} ${words.slice(0, 40)}`;
        if (ratio < (large ? 3 : 4.5)) weak.push(`${ratio.toFixed(2)} ${name}`);
    };
    for (const element of document.body.querySelectorAll("*")) {
        if (element.closest("svg, noscript, .unseen, option, datalist, :disabled")) continue;
        if (!element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
        const words = [...element.childNodes].filter((n) => n.nodeType === 3).map((n) => n.data).join("").trim();
        const style = getComputedStyle(element);
        if (words) look(element, style.color, words);
        if (element.matches("input, textarea, select")) {
            look(element, style.color, element.value || "value");
            const hint = getComputedStyle(element, "::placeholder").color;
            if (element.placeholder) look(element, hint, element.placeholder);
        }
        for (const pseudo of ["::before", "::after"]) {
            const made = getComputedStyle(element, pseudo);
            if (/["“].*[\\w●○]/.test(made.content)) look(element, made.color, made.content);
        }
    }
    return [...new Set(weak)];
}"""
"""All visible text whose contrast is too low. Colours are read as the browser paints them."""


def lab(eyes: tuple[tuple[float, float, float], ...], colour: str) -> tuple[float, float, float]:
    """A colour `#rrggbb` in OKLab, as these eyes see it."""
    values = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in values]
    r, g, b = (min(1.0, max(0.0, sum(m * v for m, v in zip(row, linear, strict=True)))) for row in eyes)
    x = math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b)
    y = math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b)
    z = math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b)
    return (
        0.2104542553 * x + 0.7936177850 * y - 0.0040720468 * z,
        1.9779984951 * x - 2.4285922050 * y + 0.4505937099 * z,
        0.0259040371 * x + 0.7827717662 * y - 0.8086757660 * z,
    )


EYES = {
    "normal": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
    "without red": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "without green": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.01182, 0.04294, 0.968881)),
    "without blue": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.3039)),
}
"""What people with dichromacy see of linear sRGB (Machado, Oliveira and Fernandes 2009, severity 1)."""
