"""`maar what-if`: what would change if jobs, nodes or queues were added or edited. Nothing is written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
import msgspec
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table

from maar.cli.asking.asked import Asked, asking, show
from maar.cli.exits import BadInput
from maar.cli.printing import UNWRAPPED, lines, printed
from maar.kube.picture.manifests import documents_in
from maar.kube.wire.errors import ManifestError
from maar.views.answers import WhatIfView
from maar.web.api.asking import Question, WebEdit

WIDTH = 80


@asking()
@click.option(
    "-f", "--file", "paths", multiple=True, required=True, metavar="PATH",
    help="Manifests to add, and edits: a file, a folder, or - for standard input. May be repeated.",
)  # fmt: skip
def what_if(asked: Asked, paths: tuple[str, ...]) -> None:
    """Show what would change in the next plan: who starts, who waits, who is evicted or shrunk. Nothing is written.

    A document of PATH is a manifest of what is added (a job, a Node, a Queue), or an edit such as
    `{edit: cordon, nodes: [n1]}`. docs/commands.md lists the edits.
    """
    question = _question(paths)
    show(asked, lambda source: source.what_if(question), lambda found: what_if_text(found.what_if, asked.wide))


def _question(paths: tuple[str, ...]) -> Question:
    manifests: list[dict[str, Any]] = []
    edits: list[Any] = []
    try:
        for place, document in documents_in(paths):
            if not isinstance(document, dict):
                raise BadInput(f"{place}: expected a manifest or an edit")
            if "edit" not in document:
                manifests.append(document)
                continue
            try:
                edits.append(msgspec.convert(document, WebEdit))
            except msgspec.ValidationError as error:
                raise BadInput(f"{place}: {error}") from None
    except ManifestError as error:
        raise BadInput(str(error)) from None
    return Question(edits=edits, manifests=manifests)


def what_if_text(found: WhatIfView, wide: bool) -> str:
    return printed(_parts(found), UNWRAPPED if wide else WIDTH)


def _parts(found: WhatIfView) -> Iterator[RenderableType]:
    yield from found.edits
    yield ""
    rows = list(_rows(found))
    if not rows:
        yield "nothing would change in the next plan"
        return
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for what, texts in rows:
        table.add_row(what, lines(texts))
    yield Padding(table, (0, 0, 0, 2))


def _rows(found: WhatIfView) -> Iterator[tuple[str, list[str]]]:
    others = {kind: f"{count} of others" for kind, count in found.others.items() if count}
    waits = [f"{r.job}: {'; '.join(dict.fromkeys(x.message for x in r.after))}" for r in found.reasons if r.after]
    said = (
        ("starts", list(found.starts), "starts"),
        ("starts no more", list(found.stays), "stays"),
        ("evicted", [_evicted(e.job, len(e.pods), e.beneficiary, e.reason) for e in found.evicted], "evicted"),
        ("not evicted", [e.job for e in found.spared], "spared"),
        ("resized", [f"{s.job}: {s.before} to {s.after} workers" for s in found.resized], "resized"),
        ("waits", waits, ""),
    )
    for what, texts, kind in said:
        texts += [others[kind]] if kind in others else []
        if texts:
            yield what, texts


def _evicted(job: str, pods: int, beneficiary: str | None, reason: str) -> str:
    return f"{job} ({pods} {'pod' if pods == 1 else 'pods'}) for {beneficiary or 'another job'}: {reason}"
