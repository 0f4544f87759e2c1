"""What-if answers: the difference that edits make, for one viewer."""

from __future__ import annotations

from collections import Counter

from maar.model.reasons import Reason
from maar.views.decisions import plan_view
from maar.views.jobs import reason_views
from maar.views.records import EvictView, PlanView, ReasonView, SizeView, StartView, View
from maar.views.sight import Sight
from maar.whatif.answer import Answer, Eviction


class OtherReasonsView(View, frozen=True):
    """Why a job waits, without the edits and with them; empty: it does not wait, or does not exist."""

    job: str
    before: tuple[ReasonView, ...]
    after: tuple[ReasonView, ...]


class ShiftView(View, frozen=True):
    """The forecast start of a waiting job without and with the edits; `None`: it does not exist or wait then."""

    job: str
    before: StartView | None
    after: StartView | None


class ShiftsView(View, frozen=True):
    """How the forecasts were made that are compared."""

    rollouts: int = 0
    """Futures that were played for both; the same ones. 0: none was finished."""
    seconds: float = 0.0
    words: str = ""
    """Why there are no forecasts; empty if there are."""
    others: int = 0
    """Waiting jobs that the viewer may not see."""
    arrivals: bool = False
    """Whether jobs that are submitted later, as in the past, were played too: the same ones for both."""


class WhatIfView(View, frozen=True):
    """The difference that edits make in the plan of this moment. Nothing is written."""

    edits: tuple[str, ...]
    """In words."""
    starts: tuple[str, ...]
    """Jobs that start only with the edits."""
    stays: tuple[str, ...]
    """Jobs that no longer start."""
    evicted: tuple[EvictView, ...]
    """Evictions only with the edits."""
    spared: tuple[EvictView, ...]
    """Evictions only without the edits."""
    resized: tuple[SizeView, ...]
    reasons: tuple[OtherReasonsView, ...]
    others: dict[str, int]
    """The number of other jobs in each list, which the viewer may not see."""
    plan: PlanView
    """The whole plan with the edits."""
    forecasts: tuple[ShiftView, ...] = ()
    """The forecasts of all waiting jobs that the viewer may see."""
    forecast: ShiftsView = ShiftsView()


def what_if_view(answer: Answer, sight: Sight, namespaces: frozenset[str] = frozenset()) -> WhatIfView:
    others = Counter[str]()

    def only(keys: tuple[str, ...], kind: str) -> tuple[str, ...]:
        shown = sight.only(keys)
        others[kind] += len(keys) - len(shown)
        return shown

    def evictions(found: tuple[Eviction, ...], kind: str) -> tuple[EvictView, ...]:
        shown = [e for e in found if sight.of(e.job)]
        others[kind] += len(found) - len(shown)
        return tuple(
            EvictView(
                job=e.job,
                pods=tuple(pod.partition("/")[2] for pod in e.pods if sight.of(pod)),
                beneficiary=sight.named(e.beneficiary),
                reason=sight.said(e.reason, namespaces),
                cause="",
            )
            for e in shown
        )

    def reasons(found: tuple[Reason, ...]) -> tuple[ReasonView, ...]:
        return reason_views(found, sight, namespaces)

    resized = [s for s in answer.resized if sight.of(s.job)]
    others["resized"] += len(answer.resized) - len(resized)
    told = [r for r in answer.reasons if sight.of(r.job)]
    return WhatIfView(
        edits=tuple(sight.said(words, namespaces) for words in answer.edits),
        starts=only(answer.starts, "starts"),
        stays=only(answer.stays, "stays"),
        evicted=evictions(answer.evicted, "evicted"),
        spared=evictions(answer.spared, "spared"),
        resized=tuple(SizeView(job=s.job, before=s.before, after=s.after, why="") for s in resized),
        reasons=tuple(OtherReasonsView(job=r.job, before=reasons(r.before), after=reasons(r.after)) for r in told),
        others={kind: count for kind, count in sorted(others.items()) if count},
        plan=plan_view(answer.after, answer.moved, namespaces, sight),
    )
