"""Scores that depend on other pods: preferred pod affinity and anti-affinity, and soft topology spread.

A part of `nodeorder`, by the rules of Kubernetes. Preferences count in both directions: running pods may prefer the new
pod too. Every matching pod in the node's domain adds the weight of the preference, and the result is scaled to 0 to 100
over the nodes that the shape may use. A spread constraint with `ScheduleAnyway` prefers the domains with the fewest
matching pods; small domains weigh less.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from maar.model.resources import Floats, Mask
from maar.model.selectors import PodSelector, PodTerm, Spread
from maar.plugins.support.neighbours import Neighbours
from maar.plugins.support.node_masks import NodeMasks
from maar.session.session import Session


class Wish(NamedTuple):
    """A preference of placed pods of some shapes for pods near them (or, with a negative weight, far from them)."""

    weight: int
    topology_key: str
    shapes: tuple[int, ...]


class NeighbourWishes(NamedTuple):
    """All preferences that affect the scores of one shape."""

    own: tuple[tuple[int, PodTerm], ...]
    others: tuple[Wish, ...]
    spread: tuple[Spread, ...]


class NeighbourScores:
    def __init__(self, session: Session, affinity_weight: float, spread_weight: float) -> None:
        self._session = session
        self._affinity = affinity_weight
        self._spread = spread_weight
        self.neighbours = Neighbours(session)
        self.masks = NodeMasks(session.snapshot.nodes)
        self._wishes: dict[int, NeighbourWishes | None] = {}
        self._wanting: dict[PodSelector, list[Wish]] | None = None

    def score(self, shape: int) -> Floats | None:
        """The sum of all scores, or `None` if none applies."""
        wishes = self._wishes_of(shape)
        if wishes is None:
            return None
        total = self._affinity_score(shape, wishes)
        spread = self._spread_score(shape, wishes)
        if total is None or spread is None:
            return spread if total is None else total
        return total + spread

    def sees_itself(self, shape: int) -> bool:
        """Whether one more pod of the shape changes the scores for the next pod."""
        wishes = self._wishes_of(shape)
        if wishes is None:
            return False
        matches = self._session.snapshot.shapes.shapes[shape].matches
        return any(term.pods in matches for _, term in wishes.own) or any(s.pods in matches for s in wishes.spread)

    def _wishes_of(self, shape: int) -> NeighbourWishes | None:
        if shape not in self._wishes:
            wanted = self._session.snapshot.shapes.shapes[shape]
            own = wanted.pod_preferences if self._affinity else ()
            others = [w for s in wanted.matches for w in self._wanting_pods(s)] if self._affinity else []
            spread = tuple(s for s in wanted.spread if not s.hard) if self._spread else ()
            some = own or others or spread
            self._wishes[shape] = NeighbourWishes(own, tuple(others), spread) if some else None
        return self._wishes[shape]

    def _wanting_pods(self, selector: PodSelector) -> list[Wish]:
        """The preferences of all shapes for the pods of a selector."""
        if self._wanting is None:
            shapes: dict[tuple[int, PodTerm], list[int]] = {}
            for number, shape in enumerate(self._session.snapshot.shapes.shapes):
                for preference in shape.pod_preferences:
                    shapes.setdefault(preference, []).append(number)
            self._wanting = {}
            for (weight, term), numbers in shapes.items():
                wish = Wish(weight, term.topology_key, tuple(numbers))
                self._wanting.setdefault(term.pods, []).append(wish)
        return self._wanting.get(selector, [])

    def _affinity_score(self, shape: int, wishes: NeighbourWishes) -> Floats | None:
        near = self.neighbours
        raw = np.zeros(len(self._session.snapshot.nodes), dtype=np.int64)
        for weight, term in wishes.own:
            counts = near.counts(term.pods, later=False)
            if counts is not None:
                raw += weight * near.domains(term.topology_key).around(counts)
        for wish in wishes.others:
            raw += wish.weight * near.domains(wish.topology_key).around(near.present(wish.shapes, later=False))
        among = raw[self._session.usable(shape)]
        if len(among) == 0 or (low := int(among.min())) == (high := int(among.max())):
            return None
        return (raw - low).astype(np.float64) * (100.0 * self._affinity / (high - low))

    def _spread_score(self, shape: int, wishes: NeighbourWishes) -> Floats | None:
        if not wishes.spread:
            return None
        near, usable = self.neighbours, self._session.usable(shape)
        keyed = np.ones(len(usable), dtype=np.bool_)
        for constraint in wishes.spread:
            keyed &= near.domains(constraint.topology_key).has
        among = usable & keyed
        if not among.any():
            return None
        raw = np.zeros(len(usable), dtype=np.float64)
        for constraint in wishes.spread:
            domains = near.domains(constraint.topology_key)
            size = len(np.unique(domains.codes[among]))
            counts = near.counts(constraint.pods, later=True)
            if counts is not None:
                counted = keyed & self.masks.eligible(self._session.snapshot.shapes.shapes[shape], constraint)
                raw += domains.around(counts * counted) * math.log(size + 2)
            raw += constraint.max_skew - 1
        return np.where(keyed, fewest_first(raw, among, self._spread), 0.0)


def fewest_first(raw: Floats, among: Mask, weight: float) -> Floats:
    """Counts as scores: the highest among some nodes gets least."""
    low, high = float(raw[among].min()), float(raw[among].max())
    if high == 0:
        return np.full(len(raw), 100.0 * weight)
    return (high + low - raw) * (100.0 * weight / high)
