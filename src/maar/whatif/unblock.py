"""What would start a waiting job: the first five changes of a fixed list that are shown to work by a decision.

No part of a change works, and its amount is the smallest that works. The most promising kinds are tried first. The
search ends when the first five of the list (`changes.KINDS`) are found, or when its budget ends. "None found" is an
answer.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from maar.config.config import Config
from maar.model.snapshot import Cluster
from maar.whatif.answer import Decided, losers
from maar.whatif.changes import KINDS, PROMISING
from maar.whatif.edit import Edit, Scene
from maar.whatif.edits import in_words
from maar.whatif.patience import GoOn, always
from maar.whatif.search import EditSearch, OutOfBudget
from maar.whatif.started import Start

MOST = 5
"""Changes in an answer."""


class Change(msgspec.Struct, frozen=True):
    """A change that starts the job."""

    kind: str
    """Its name in `changes.KINDS`."""
    edits: tuple[Edit, ...]
    words: str
    start: Start
    """How far the job is with it: bound, waiting for room that is being freed, or admitted."""
    evicts: tuple[str, ...] = ()
    """Jobs that lose pods or workers by it."""
    delays: tuple[str, ...] = ()
    """Jobs that would start now and no longer do."""


class Unblocked(msgspec.Struct, frozen=True):
    """The answer of a search."""

    start: Start
    """How far the job is without any change. If it does not wait, nothing is searched."""
    changes: tuple[Change, ...] = ()
    """Empty: no change of the list starts the job, or no such change was found in time."""
    complete: bool = True
    """False: the budget ended before the list."""
    decisions: int = 0


def unblock(
    cluster: Cluster,
    config: Config,
    now: float,
    job: str,
    go_on: GoOn = always,
    *,
    most: int = MOST,
    before: Decided | None = None,
) -> Unblocked:
    """Up to `most` changes that start a job of the cluster.

    `go_on` is asked before each decision. `before` is the plan without any change, if the caller has it.
    """
    search = EditSearch(Scene(cluster, config), now, job, go_on, before)
    if search.start.ok:
        return Unblocked(search.start, decisions=search.decisions)
    names, found = list(KINDS), dict[str, Change]()
    complete = True
    for kind in (*PROMISING, *(name for name in names if name not in PROMISING)):
        if sum(name in found for name in names[: names.index(kind)]) >= most:
            continue  # it would not be shown
        try:
            edits = KINDS[kind](search)
            if edits is not None:
                found[kind] = _change(search, kind, edits)
        except OutOfBudget:
            complete = False
    changes = [found[name] for name in names if name in found]
    return Unblocked(search.start, tuple(changes[:most]), complete, search.decisions)


def _change(search: EditSearch, kind: str, edits: Sequence[Edit]) -> Change:
    """The change with what it costs others; `edits` are known to work."""
    after = search.decide(edits)
    evicts, delays = losers(search.before, after, search.starts)
    words = " and ".join(in_words(search.scene, edits))
    return Change(kind, tuple(edits), words, after.outcome.of(search.job.key), evicts, delays)
