"""The page in a real browser, on an API that answers from a scene."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Error, Page, expect
from tests.support.page.scenes import NOW, small
from tests.support.page.server import PageServer
from tests.web.page.conftest import PATIENCE, Open

from maar.config.file import default_text
from maar.shards.map import ShardMap
from maar.shards.sharing import Sharing
from maar.testing.builders import gang
from maar.views.records import UtilisationView
from maar.views.sight import ALL, Sight

pytestmark = [pytest.mark.real, pytest.mark.slow]

expect.set_options(timeout=PATIENCE)

PIXEL = """([name, cell]) => {
    const { grid } = document.querySelector('.grid');
    const { x, y } = grid.laid.at.get(name);
    const size = grid.laid.size;
    const step = size.cell + 1;
    const left = x + 2 + (cell % size.columns) * step + size.cell / 2;
    const row = Math.floor(cell / size.columns);
    const top = y + 2 + (size.named ? 13 : 0) + row * step + size.cell / 2 - grid.frame.scrollTop;
    return [...grid.context.getImageData(left * grid.scale, top * grid.scale, 1, 1).data].join(" ");
}"""
"""The colour of one GPU on the grid."""


def colour(page: Page, node: str, cell: int = 0) -> str:
    found: str = page.evaluate(PIXEL, [node, cell])
    return found


def grid(page: Page) -> Any:
    page.wait_for_selector(".grid[data-drawn]")
    return page.locator(".grid")


def spot(page: Page, node: str) -> dict[str, float]:
    """A point on a node, relative to the grid."""
    found: dict[str, float] = page.evaluate("name => document.querySelector('.grid').grid.laid.at.get(name)", node)
    return {"x": found["x"] + 12, "y": found["y"] + 30}


# -- the pages


def test_the_cluster_shows_every_gpu_and_what_is_wrong(served: PageServer, opened: Open) -> None:
    page = opened(served.url)
    grid(page)
    expect(page.locator("#in-use")).to_have_text("50 of 96")
    for words in ("1 failed", "1 drained", "1 locked"):
        expect(page.get_by_role("button", name=words)).to_be_visible()
    llama, detector, free = colour(page, "r0-n0"), colour(page, "r1-n1"), colour(page, "r2-n2")
    assert 3 == len({llama, detector, free})
    assert llama == colour(page, "r0-n1", 7) == colour(page, "r1-n0", 3)
    page.get_by_role("button", name="Queue", exact=True).click()
    page.wait_for_function("document.querySelector('.grid').grid.drawn > 1")
    assert colour(page, "r1-n2", 2) != llama
    expect(page.locator(".legend").filter(has_text="language")).to_be_visible()
    page.get_by_role("button", name="State", exact=True).click()
    expect(page.locator(".legend").filter(has_text="leaving or promised")).to_be_visible()
    page.wait_for_function("document.querySelector('.grid').grid.drawn > 2")
    used, free = colour(page, "r0-n0"), colour(page, "r2-n2")
    assert used == colour(page, "r1-n1") == colour(page, "r2-n1") != free, "whatever the job and the queue"


def test_shards_are_a_table_if_there_are_any(served: PageServer, opened: Open) -> None:
    page = opened(served.url)
    grid(page)
    expect(page.locator("#shards")).to_be_hidden()
    owners = msgspec.structs.replace(ShardMap.new(2), epochs={0: 3, 1: 1}, holders={0: "maar-0", 1: "maar-1"})
    with PageServer(small(), sharing=Sharing(owners)) as shared:
        page = opened(shared.url)
        rows = page.locator("#shards tbody tr")
        expect(rows).to_have_count(2)
        expect(rows.nth(0)).to_contain_text("maar-0")
        expect(rows.nth(1)).to_contain_text("maar-1")


def test_utilisation_has_the_hours_before_the_page_was_opened(served: PageServer, opened: Open) -> None:
    hours = [(9000, 96, {}), (6000, 24, {"batch": 24}), (3000, 80, {"research": 60, "batch": 20})]
    served.past = [
        UtilisationView(at=NOW - ago, total=96, used=used, waiting=8, queues=queues, others=0)
        for ago, used, queues in hours
    ]
    page = opened(served.url)
    grid(page)
    chart = page.get_by_label("Utilisation")
    expect(chart.get_by_role("img")).to_have_attribute(
        "aria-label", re.compile("GPUs in use in the last 2 h 30 min: from 100 %")
    )
    for name in ("research", "batch", "all else", "waiting"):
        expect(chart.locator(".legend")).to_contain_text(name)
    expect(chart.locator(".layer")).to_have_count(3)
    expect(page.locator(".cards")).to_contain_text("last 2 h 30 min")
    expect(chart.locator(".legend")).to_contain_text("batch 8")
    served.change(small(gang("bob/quick", 1, gpu=8, on=["r2-n2"], queue="batch")))
    expect(chart.locator(".legend")).to_contain_text("batch 16")


def test_marked_nodes_stand_out(served: PageServer, opened: Open) -> None:
    page = opened(served.url)
    grid(page)
    before = colour(page, "r0-n0")
    page.get_by_role("button", name="1 locked").click()
    expect(page.get_by_role("button", name="1 locked")).to_have_attribute("aria-pressed", "true")
    page.wait_for_function(
        "() => document.querySelector('.grid').grid.marked && document.querySelector('.grid').grid.drawn > 1"
    )
    assert before != colour(page, "r0-n0")


def test_hover_and_click_lead_to_the_node_and_its_jobs(served: PageServer, opened: Open) -> None:
    page = opened(served.url)
    found = grid(page)
    found.hover(position=spot(page, "r0-n0"))
    expect(page.locator(".tip")).to_contain_text("ann/llama (queue language)")
    found.click(position=spot(page, "r0-n0"))
    expect(page.locator("#node")).to_contain_text("r0-n0")
    assert page.url.endswith("#/cluster/r0-n0")
    page.locator("#node").get_by_role("link", name="ann/llama").click()
    expect(page.get_by_role("heading", name="ann/llama")).to_be_visible()


def test_queues_are_a_tree_with_bars(served: PageServer, opened: Open) -> None:
    page = opened(f"{served.url}#/queues")
    vision = page.locator("[data-queue=vision]")
    expect(vision).to_contain_text("6 used, 22 deserved, 8 guaranteed, 16 waiting")
    widths = page.evaluate("[...document.querySelectorAll('[data-queue=vision] .bar > span')].map(e => e.style.width)")
    assert ["6.25%", "16.67%"] == widths[:2]  # 6 and 16 of the cluster's 96
    expect(page.locator("li:has(> [data-queue=research]) li [data-queue=language]")).to_be_visible()
    quality = page.get_by_label("How good forecasts were")
    expect(quality).to_contain_text("from 32 roll-outs and 500 finished jobs, with jobs that come later")
    expect(quality.locator("tbody tr")).to_contain_text("language")
    expect(quality.locator("tbody tr")).to_contain_text("90 %")


def test_waiting_jobs_say_why_and_what_would_start_them(served: PageServer, opened: Open) -> None:
    page = opened(f"{served.url}#/waiting")
    row = page.locator("tr[data-job='bob/probe']")
    expect(row).to_contain_text("nodes fit")
    expect(row).to_contain_text("16 GPUs")
    row.get_by_role("button", name="What would start it?").click()
    expect(page.locator(".changes li").first).to_contain_text("it starts")
    expect(page.locator(".place")).to_contain_text("Place 1 of 1 in queue vision")
    page.locator("#filter").fill("together")
    expect(page.locator("tr[data-job]")).to_have_count(1)


def test_a_job_has_its_story_reasons_forecast_and_pods(served: PageServer, opened: Open) -> None:
    page = opened(f"{served.url}#/jobs/ann/giant")
    expect(page.locator(".story li")).to_have_count(5)
    expect(page.locator(".story li").nth(3)).to_contain_text("2 pods evicted for ann/llama")
    expect(page.get_by_label("Why it waits")).to_contain_text("needs 8 pods together")
    expect(page.get_by_label("Forecast")).to_contain_text("in 20 min to 1 h 10 min")
    expect(page.get_by_label("Forecast")).to_contain_text("Made 30 s ago")
    expect(page.get_by_label("Forecast")).to_contain_text("90 % of 40 jobs of queue language")
    expect(page.get_by_label("Story")).not_to_contain_text("Not complete")
    page.goto(f"{served.url}#/jobs/bob/probe")
    expect(page.get_by_label("Forecast")).to_contain_text("Never as things are: needs 8 pods together")
    expect(page.get_by_label("Story")).to_contain_text("Not complete: events cannot be read now.")
    page.goto(f"{served.url}#/jobs/ann/tuner")
    expect(page.get_by_label("What it needs and has")).to_contain_text("Elastic: 4 workers, from 1 to 8")
    expect(page.locator("svg.chart")).to_have_attribute("aria-label", re.compile("2 at .*, 6 at .*, 4 at"))
    speeds = page.get_by_role("region", name="Speed-up").locator("tbody tr")
    expect(speeds).to_have_count(4)
    expect(speeds.nth(2)).to_have_text("43.10 times78 %measured")
    expect(speeds.nth(3)).to_have_text("84.50 times56 %computed")
    page.wait_for_function("[...document.querySelector('.grid').grid.nodes.keys()].sort().join() === 'r1-n2,r2-n0'")
    page.goto(f"{served.url}#/jobs/ann/missing")
    expect(page.locator("main")).to_contain_text("There is no such job, or you may not see it")


def test_decisions_can_be_stepped_through(served: PageServer, opened: Open) -> None:
    page = opened(f"{served.url}#/decisions")
    expect(page.locator("#decision h2")).to_have_text("Cycle 1")
    served.change(small(gang("bob/quick", 1, gpu=2, queue="batch")))
    expect(page.locator("#decision h2")).to_have_text("Cycle 2")
    expect(page.locator("#decision")).to_contain_text("bob/quick")
    page.get_by_role("button", name="Step back").click()
    expect(page.locator("#decision h2")).to_have_text("Cycle 1")
    assert page.url.endswith("#/decisions/1")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#decision h2")).to_have_text("Cycle 2")


def test_what_if_shows_the_difference(served: PageServer, opened: Open) -> None:
    page = opened(f"{served.url}#/what-if")
    page.get_by_label("Kind of edit").select_option("add-nodes-like")
    page.get_by_role("button", name="Add this edit").click()
    page.get_by_label("Copies of node").fill("r0-n0")
    page.get_by_label("How many").fill("2")
    page.get_by_role("button", name="What would happen?").click()
    answer = page.get_by_label("Answer")
    expect(answer).to_contain_text("add 2 nodes like r0-n0")
    expect(answer).to_contain_text("Starts: bob/probe")
    expect(answer).to_contain_text("1 h earlier")
    expect(answer).to_contain_text("From 8 roll-outs of the same futures")
    answer.get_by_text("The whole plan with the edits: 2 bound").click()
    expect(answer.get_by_role("region", name="Bound")).to_contain_text("bob/probe")
    page.get_by_label("Copies of node").fill("nowhere")
    page.get_by_role("button", name="What would happen?").click()
    expect(answer.get_by_role("alert")).to_contain_text("edits: ")
    expect(answer.get_by_role("alert")).to_contain_text("nowhere")


FORM = [
    ("add-nodes-like", {"like": "r0-n0", "count": "2"}, "add 2 nodes like r0-n0"),
    ("cordon", {"nodes": "r0-n0 r0-n1"}, "cordon nodes r0-n0, r0-n1"),
    ("uncordon", {"nodes": "r1-n3"}, "uncordon node r1-n3"),
    ("remove-nodes", {"nodes": "r2-n2"}, "remove node r2-n2"),
    ("set-weight", {"queue": "batch", "weight": "4"}, "raise the weight of queue batch from 1 to 4"),
    (
        "set-amounts",
        {"queue": "batch", "resource": "nvidia.com/gpu", "amount": "16"},
        "set the capability of queue batch to 16 nvidia.com/gpu",
    ),
    ("open-queue", {"queue": "batch"}, "open queue batch"),
    ("set-priority", {"job": "bob/probe", "priority": "1000"}, "raise the priority of bob/probe from 0 to 1000"),
    ("set-queue", {"job": "bob/probe", "queue": "batch"}, "move bob/probe from queue vision to queue batch"),
    ("set-minimum", {"job": "bob/probe", "minimum": "1"}, "lower the minimum of bob/probe from 2 to 1 pod"),
    ("end-jobs", {"jobs": "bob/night"}, "end job bob/night"),
    ("set-algorithm", {"pool": "default", "algorithm": "afs-l"}, "use algorithm afs-l in pool default"),
]
"""All kinds of edits of the form, values of their fields, and how the answer says it."""


def test_every_edit_of_the_form_is_understood(served: PageServer, opened: Open) -> None:
    page = opened(f"{served.url}#/what-if")
    options = page.locator("#kind option")
    expect(options).to_have_count(len(FORM))
    assert [kind for kind, _, _ in FORM] == options.evaluate_all("all => all.map((one) => one.value)")
    for kind, values, _ in FORM:
        page.get_by_label("Kind of edit").select_option(kind)
        page.get_by_role("button", name="Add this edit").click()
        for name, value in values.items():
            page.locator("#edits fieldset").last.locator(f"input[name={name}]").fill(value)
    page.get_by_role("button", name="What would happen?").click()
    said = page.get_by_label("Answer").locator("ul").first.locator("li")
    expect(said).to_contain_text([words for _, _, words in FORM])


def test_an_earlier_decision_is_decided_again(opened: Open) -> None:
    with PageServer(small(gang("bob/quick", 1, gpu=2, queue="batch"))) as served:
        page = opened(f"{served.url}#/decisions")
        expect(page.locator("#decision")).to_contain_text("bob/quick")
        served.change(small())
        expect(page.locator("#decision h2")).to_have_text("Cycle 2")
        page.get_by_role("button", name="Step back").click()
        page.get_by_role("link", name="Decide it again").click()
        expect(page.locator("#about")).to_contain_text("About cycle 1")
        idle = re.sub(r"^actions: .*$", "actions: enqueue", default_text(), flags=re.MULTILINE)
        page.get_by_label("Configuration").fill(idle)
        page.get_by_role("button", name="What would happen?").click()
        expect(page.get_by_label("Answer")).to_contain_text("No longer starts: bob/quick")


def test_a_job_is_submitted_as_it_is_written(served: PageServer, opened: Open) -> None:
    page = opened(f"{served.url}#/submit")
    page.get_by_label("Manifest, as YAML").fill("kind: Job\nmetadata: {name: new}\n")
    page.get_by_role("button", name="Submit").click()
    expect(page.get_by_role("link", name="ann/new")).to_be_visible()
    assert ["kind: Job\nmetadata: {name: new}\n"] == served.submitted


def test_without_writes_nothing_can_be_submitted(opened: Open) -> None:
    with PageServer(small(), writes=False) as served:
        page = opened(f"{served.url}#/jobs/ann/giant")
        expect(page.locator(".story li")).to_have_count(5)
        expect(page.get_by_role("link", name="Submit")).to_have_count(0)
        expect(page.get_by_role("button", name="Hold")).to_have_count(0)


# -- live


def test_a_change_is_drawn_on_the_grid(served: PageServer, opened: Open) -> None:
    page = opened(served.url)
    grid(page)
    free, neighbour = colour(page, "r2-n2"), colour(page, "r1-n1")
    served.change(small(gang("bob/new", 1, gpu=8, on=["r2-n2"], queue="batch")))
    page.wait_for_function(f"free => ({PIXEL})(['r2-n2', 7]) !== free", arg=free)
    assert neighbour == colour(page, "r1-n1")
    expect(page.locator("#in-use")).to_have_text("58 of 96")
    expect(page.get_by_label("Colours")).to_contain_text("bob/new")
    served.change(small())
    page.wait_for_function(f"free => ({PIXEL})(['r2-n2', 7]) === free", arg=free)
    expect(page.locator("#in-use")).to_have_text("50 of 96")


def test_the_page_connects_again(served: PageServer, opened: Open) -> None:
    page = opened(f"{served.url}#/waiting")
    expect(page.locator("#live")).to_have_text("live")
    served.cut()
    expect(page.locator("#live")).to_have_text("not connected")
    served.change(small(gang("bob/late", 9, gpu=8, queue="batch")))
    expect(page.locator("tr[data-job='bob/late']")).to_be_visible()
    expect(page.locator("#live")).to_have_text("live")


# -- who sees it


def test_log_in_with_a_token(opened: Open) -> None:
    with PageServer(small(), tokens={"anns": Sight({"ann"}), "admins": ALL}) as served:
        page = opened(served.url)
        page.get_by_label("Token").fill("wrong")
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_contain_text("The cluster does not accept this token")
        assert "null" == page.evaluate("JSON.stringify(sessionStorage.getItem('maar.token'))")
        page.get_by_label("Token").fill("anns")
        page.get_by_role("button", name="Log in").click()
        grid(page)
        expect(page.get_by_label("Colours")).to_contain_text("jobs that you may not see: 14")
        assert "bob/" not in page.content()
        assert ["", {}] == page.evaluate("[document.cookie, { ...localStorage }]")
        assert "anns" not in page.url
        page.reload()
        grid(page)
        page.get_by_role("button", name="Log out").click()
        expect(page.get_by_label("Token")).to_be_visible()
        page.reload()
        expect(page.get_by_label("Token")).to_be_visible()


def test_names_are_never_markup(opened: Open) -> None:
    name = "ann/<img src=x onerror=document.title=1>"
    with PageServer(small(gang(name, 1, gpu=1, on=["r2-n2"], queue="batch"))) as served:
        page = opened(served.url)
        grid(page)
        expect(page.get_by_label("Colours")).to_contain_text(name)
        expect(page.locator("img")).to_have_count(0)


def test_inline_scripts_and_styles_are_refused(served: PageServer, browser: Any) -> None:
    context = browser.new_context()
    page = context.new_page()
    answer = page.goto(served.url)
    assert answer is not None
    policy = answer.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert {"default-src 'none'", "script-src 'self'", "style-src 'self'"} <= set(policy.split("; "))
    with pytest.raises(Error):
        page.add_script_tag(content="window.was = 1")
    assert page.evaluate("window.was === undefined")
    context.close()


# -- how it is used


def test_the_keyboard_is_enough(served: PageServer, opened: Open) -> None:
    page = opened(served.url)
    grid(page)
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to the content")).to_be_focused()
    page.locator(".grid").focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    expect(page.locator("#said")).to_contain_text("r2-n1, r2: ready, 8 of 8 GPUs in use: 8 by bob/night")
    page.keyboard.press("Enter")
    expect(page.locator("#node")).to_contain_text("r2-n1")
    page.get_by_text("Nodes as a table").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#as-table tbody tr")).to_have_count(12)
    page.keyboard.press("Tab")
    page.keyboard.type("failed")
    expect(page.locator("#as-table tbody tr")).to_have_count(1)
    expect(page.locator("#as-table tbody")).to_contain_text("r0-n3")


def test_the_focus_stays_when_data_changes(served: PageServer, opened: Open) -> None:
    page = opened(f"{served.url}#/waiting")
    button = page.locator("tr[data-job='bob/probe'] button")
    button.focus()
    served.change(small(gang("bob/late", 9, gpu=8, queue="batch")))
    expect(page.locator("tr[data-job='bob/late']")).to_be_visible()
    expect(button).to_be_focused()


def test_every_page_fits_400_pixels(served: PageServer, opened: Open) -> None:
    titles = {
        "cluster": "Cluster",
        "queues": "Queues",
        "waiting": "Waiting jobs",
        "jobs/ann/giant": "ann/giant",
        "decisions": "Decisions",
        "what-if": "What if",
        "submit": "Submit a job",
    }
    page = opened(served.url, width=400, height=800)
    for place, title in titles.items():
        page.goto(f"{served.url}#/{place}")
        expect(page.locator("main h1")).to_have_text(title)
        assert (place, True) == (place, page.evaluate("document.documentElement.scrollWidth <= 400"))
    page.goto(f"{served.url}#/jobs/ann/giant")
    expect(page.locator(".story li")).to_have_count(5)
    assert 400 >= page.evaluate("document.documentElement.scrollWidth")


def test_light_and_dark(served: PageServer, opened: Open) -> None:
    seen = {}
    for scheme in ("light", "dark"):
        page = opened(served.url, color_scheme=scheme)
        grid(page)
        back = page.evaluate("getComputedStyle(document.body).backgroundColor")
        seen[scheme] = (back, colour(page, "r2-n2"))
    assert ("rgb(246, 247, 249)", "rgb(16, 20, 27)") == (seen["light"][0], seen["dark"][0])
    assert seen["light"][1] != seen["dark"][1]
    page.get_by_role("button", name="Theme: auto").click()  # light
    page.wait_for_function(f"light => ({PIXEL})(['r2-n2', 0]) === light", arg=seen["light"][1])
