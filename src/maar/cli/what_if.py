"""`maar what-if`: what would change if jobs, nodes or queues were added or edited. Nothing is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import click
import msgspec
from rich.console import RenderableType
from rich.padding import Padding

from maar.cli.asking.options import Asked, asking, show
from maar.cli.support.exits import BadInput
from maar.cli.support.printing import UNWRAPPED, facts, lines, printed
from maar.kube.picture.manifests import documents_in
from maar.model.words import count, number
from maar.sim.report.scales import duration
from maar.views.answers import WhatIfView
from maar.views.records import Moved, PlanView
from maar.web.api.question import FORECAST, LONGEST, Question, WebEdit, edit_problem

WIDTH = 80
NOTICED = 30.0
"""Smaller differences of forecasts, in seconds, are not shown."""


@asking(history=True)
@click.option(
    "-f", "--file", "paths", multiple=True, required=True, metavar="PATH",
    help="Manifests to add, and edits: a file, a folder, or - for standard input. May be repeated.",
)  # fmt: skip
@click.option(
    "--seconds", type=click.FloatRange(0, LONGEST), default=FORECAST, show_default=True, metavar="N",
    help="Time to forecast when waiting jobs start, without and with the change. 0: no forecast.",
)  # fmt: skip
def what_if(asked: Asked, paths: tuple[str, ...], seconds: float) -> None:
    """Show what would change in the next plan: who starts, who waits, who is evicted or shrunk. Nothing is written.

    Then it shows which waiting jobs would start earlier or later, as far as that can be forecast.

    A document of PATH is a manifest of what is added (a job, a Node, a Queue), or an edit such as
    `{edit: cordon, nodes: [n1]}`. docs/api.md lists the edits.
    """
    question = msgspec.structs.replace(_question(paths), seconds=seconds)
    show(asked, lambda source: source.what_if(question), lambda found: what_if_text(found.what_if, asked.wide))


def _question(paths: tuple[str, ...]) -> Question:
    manifests: list[dict[str, Any]] = []
    edits: list[Any] = []
    for place, document in documents_in(paths):
        if not isinstance(document, dict):
            raise BadInput(f"{place}: expected a manifest or an edit")
        if "edit" not in document:
            manifests.append(document)
            continue
        try:
            edits.append(msgspec.convert(document, WebEdit))
        except msgspec.ValidationError as error:
            raise BadInput(f"{place}: {edit_problem(str(error), document)}") from None
    return Question(edits=edits, manifests=manifests)


def what_if_text(found: WhatIfView, wide: bool) -> str:
    return printed(_parts(found, wide), UNWRAPPED if wide else WIDTH)


def _parts(found: WhatIfView, wide: bool) -> Iterator[RenderableType]:
    yield from found.edits
    yield ""
    rows = list(_rows(found))
    if not rows:
        yield "nothing would change in the next plan"
    else:
        yield _table(rows)
    later = list(_shifts(found))
    if later:
        yield ""
        arrivals = "with" if found.forecast.arrivals else "without"
        yield f"by forecasts, from {count(found.forecast.rollouts, 'roll-out')} {arrivals} jobs that come later"
        yield _table(later)
    if wide:
        yield ""
        yield "the whole plan with the change"
        yield _table(_plan(found.plan))


def _plan(plan: PlanView) -> Iterator[tuple[str, list[str]]]:
    """What the plan with the edits does, also what it would do without them."""
    others = {kind: f"{number(n)} of others" for kind, n in plan.others.items()}
    said = (
        ("bind", [_on(move) for move in plan.bind]),
        ("nominate", [_on(move) for move in plan.nominate]),
        ("evict", [_evicted(e.job, len(e.pods), e.beneficiary, e.reason) for e in plan.evict]),
        ("admit", list(plan.admit)),
        ("resize", [f"{s.job}: {number(s.before)} to {count(s.after, 'worker')}" for s in plan.sizes]),
    )
    for kind, texts in said:
        texts += [others[kind]] if kind in others else []
        if texts:
            yield kind, texts
    yield "wait", [count(plan.waiting, "job")]


def _on(move: Moved) -> str:
    return f"{move.job}: {', '.join(f'{pod} on {node}' for pod, node in sorted(move.pods.items()))}"


def _table(rows: Iterable[tuple[str, list[str]]]) -> Padding:
    return facts((what, lines(texts)) for what, texts in rows)


def _shifts(found: WhatIfView) -> Iterator[tuple[str, list[str]]]:
    """Waiting jobs whose forecast start differs by more than forecasts are good for."""
    said: dict[str, list[str]] = {"starts earlier": [], "starts later": [], "start": []}
    for shift in found.forecasts:
        before = None if shift.before is None else shift.before.start_p50
        after = None if shift.after is None else shift.after.start_p50
        if before is not None and after is not None:
            by = after - before
            if abs(by) >= NOTICED:
                said["starts earlier" if by < 0 else "starts later"].append(f"{shift.job}: by {duration(abs(by))}")
        elif shift.before is not None and shift.after is not None and shift.before.verdict != shift.after.verdict:
            said["start"].append(f"{shift.job}: {shift.before.verdict} before, {shift.after.verdict} then")
    yield from ((what, texts) for what, texts in said.items() if texts)


def _rows(found: WhatIfView) -> Iterator[tuple[str, list[str]]]:
    others = {kind: f"{number(n)} of others" for kind, n in found.others.items() if n}
    waits = [f"{r.job}: {'; '.join(dict.fromkeys(x.message for x in r.after))}" for r in found.reasons if r.after]
    said = (
        ("starts", list(found.starts), "starts"),
        ("starts no more", list(found.stays), "stays"),
        ("evicted", [_evicted(e.job, len(e.pods), e.beneficiary, e.reason) for e in found.evicted], "evicted"),
        ("not evicted", [e.job for e in found.spared], "spared"),
        ("resized", [f"{s.job}: {number(s.before)} to {count(s.after, 'worker')}" for s in found.resized], "resized"),
        ("waits", waits, ""),
    )
    for what, texts, kind in said:
        texts += [others[kind]] if kind in others else []
        if texts:
            yield what, texts


def _evicted(job: str, pods: int, beneficiary: str | None, reason: str) -> str:
    return f"{job} ({count(pods, 'pod')}) for {beneficiary or 'another job'}: {reason}"
