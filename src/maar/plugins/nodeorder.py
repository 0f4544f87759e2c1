"""nodeorder: the scores of Kubernetes, weighted.

Each score is 0 to 100, times its weight. Scores by free room (least and most requested, balanced) are computed only for
changed rows. Scores fixed by the snapshot (preferred node affinity, avoided taints, images) are computed once per shape
and normalised over the nodes it may use. Scores by other pods (preferred pod affinity, spread) are computed at every
placement, see `neighbour_scores`. Scores that do not apply to a shape cost nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np

from maar.model.nodes import NodeTable
from maar.model.resources import CPU, MEMORY, UNLIMITED, Floats, Ints, Mask
from maar.model.shapes import Shape
from maar.model.snapshot import Snapshot
from maar.plugins.support.fullness import Fullness
from maar.plugins.support.neighbour_scores import NeighbourScores
from maar.session.hooks import Limit
from maar.session.register import Register
from maar.session.session import Session

NAME = "nodeorder"

SMALLEST_IMAGE, LARGEST_IMAGE = 23 * 2**20, 1000 * 2**20
"""Thresholds of Kubernetes: smaller sizes score nothing, larger sizes (per container) score no more."""


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The weight of each score; 0 disables it."""

    least: float = msgspec.field(name="leastrequested.weight", default=1.0)
    most: float = msgspec.field(name="mostrequested.weight", default=0.0)
    node_affinity: float = msgspec.field(name="nodeaffinity.weight", default=2.0)
    pod_affinity: float = msgspec.field(name="podaffinity.weight", default=2.0)
    balanced: float = msgspec.field(name="balancedresource.weight", default=1.0)
    taints: float = msgspec.field(name="tainttoleration.weight", default=3.0)
    images: float = msgspec.field(name="imagelocality.weight", default=1.0)
    spread: float = msgspec.field(name="podtopologyspread.weight", default=2.0)


class Dim(NamedTuple):
    """One resource in the room scores of a shape."""

    number: int
    request: int


class Nodeorder:
    def __init__(self, arguments: Arguments) -> None:
        self._weights = arguments
        self._dims: dict[int, list[Dim]] = {}
        self._fixed: dict[int, Floats | None] = {}
        self._images: dict[str, Floats] = {}

    def open(self, session: Session, on: Register) -> None:
        self._session = session
        self._fullness = Fullness(session)
        on.score(self._score)
        if on.flags.get("nodeOrder", True):
            weights = self._weights
            self._neighbours = NeighbourScores(session, weights.pod_affinity, weights.spread)
            on.cluster_score(self._neighbours.score)
            on.limit(self._one_by_one)

    def _one_by_one(self, shape: int, later: bool) -> Limit | None:
        """Place pods with preferences about equal pods one by one: each placement changes the scores."""
        if not self._neighbours.sees_itself(shape):
            return None
        return Limit(np.full(len(self._session.snapshot.nodes), UNLIMITED, dtype=np.int64), coupled=True)

    def _score(self, shape: int, rows: Ints | slice) -> Floats:
        if shape not in self._fixed:
            self._fixed[shape] = self._fixed_of(shape)
            self._dims[shape] = self._dims_of(shape)
        scores = self._room(self._dims[shape], rows)
        fixed = self._fixed[shape]
        if fixed is not None:
            scores += fixed[rows]
        return scores

    # -- scores by free room

    def _dims_of(self, shape: int) -> list[Dim]:
        """CPU and memory, then the requested accelerators (which count only for the balance)."""
        snapshot = self._session.snapshot
        request = snapshot.shapes.requests[shape]
        wanted = [snapshot.axes.index[CPU], snapshot.axes.index[MEMORY]]
        wanted += [dim for dim in snapshot.axes.accelerators if request[dim] > 0]
        return [Dim(dim, int(request[dim])) for dim in wanted]

    def _room(self, dims: list[Dim], rows: Ints | slice) -> Floats:
        weights = self._weights
        if not (weights.least or weights.most or weights.balanced):
            return np.zeros(self._session.snapshot.nodes.unschedulable[rows].shape, dtype=np.float64)
        # Column by column: elementwise operations give each row the same bits in any set of rows.
        taken, unit = self._fullness.taken(rows), self._fullness.unit
        full = [(taken[:, d.number] + d.request) * unit(d.number)[rows] for d in dims]
        scores = (full[0] + full[1]) * (50.0 * (weights.most - weights.least)) + 100.0 * weights.least
        if weights.balanced:
            scores += weights.balanced * balance(full)
        return scores

    # -- scores fixed by the snapshot

    def _fixed_of(self, shape: int) -> Floats | None:
        snapshot, weights = self._session.snapshot, self._weights
        wanted = snapshot.shapes.shapes[shape]
        usable: Mask = np.ones(len(snapshot.nodes), dtype=np.bool_)
        for _, rejection in self._session.rejections(shape):
            usable &= ~rejection.nodes
        parts = (
            (weights.node_affinity, node_affinity(wanted, snapshot.nodes, usable)),
            (weights.taints, avoided_taints(wanted, snapshot.nodes, usable)),
            (weights.images, images_there([self._image(name) for name in wanted.images])),
        )
        applying = [weight * part for weight, part in parts if weight and part is not None]
        return sum(applying[1:], applying[0]) if applying else None

    def _image(self, name: str) -> Floats:
        sizes = self._images.get(name)
        if sizes is None:
            sizes = self._images[name] = image_sizes(name, self._session.snapshot)
        return sizes


def balance(full: list[Floats]) -> Floats:
    """100 if all resources are equally full, less the more they differ (standard deviation)."""
    if len(full) == 2:
        return np.asarray(100.0 - np.minimum(np.abs(full[0] - full[1]) * 50.0, 100.0))
    mean = sum(full[1:], full[0]) * (1.0 / len(full))
    variance = sum(((f - mean) ** 2 for f in full[1:]), (full[0] - mean) ** 2) * (1.0 / len(full))
    return np.asarray(100.0 * (1.0 - np.minimum(np.sqrt(variance), 1.0)))


def node_affinity(shape: Shape, nodes: NodeTable, usable: Mask) -> Floats | None:
    """The weights of the preferred terms that each node meets, scaled so that the best usable node gets 100."""
    if not shape.node_preferences:
        return None
    scores = np.zeros(len(nodes), dtype=np.float64)
    for weight, term in shape.node_preferences:
        # Unlike a required term, a preferred term without expressions matches no node, so it adds nothing.
        scores += weight * nodes.meets_term(term)
    best = scores[usable].max(initial=0.0)
    return scores * (100.0 / best) if best > 0 else None


def avoided_taints(shape: Shape, nodes: NodeTable, usable: Mask) -> Floats | None:
    """100 for nodes without an untolerated PreferNoSchedule taint, less for each such taint."""
    soft = [
        sum(t.effect == "PreferNoSchedule" and not any(x.tolerates(t) for x in shape.tolerations) for t in taints)
        for taints in nodes.taint_sets
    ]
    if not any(soft):
        return None
    counts = np.array(soft, dtype=np.float64)[nodes.taint_class]
    most = counts[usable].max(initial=0.0)
    return 100.0 - np.minimum(counts * (100.0 / most), 100.0) if most > 0 else None


def image_sizes(image: str, snapshot: Snapshot) -> Floats:
    """The score of an image on each node, in bytes; lower for an image on few nodes, to avoid crowding there."""
    nodes = snapshot.nodes
    here = np.zeros(len(nodes), dtype=np.float64)
    for found in snapshot.images:
        if found.name == image:
            here[[nodes.row[name] for name in found.nodes if name in nodes.row]] = found.size
    return here * (np.count_nonzero(here) / max(len(nodes), 1))


def images_there(sizes: list[Floats]) -> Floats | None:
    """How much of the images of a shape each node already has; `sizes` has the score of each image on each node."""
    if not sizes:
        return None
    largest = LARGEST_IMAGE * len(sizes)
    inside = np.clip(sum(sizes[1:], sizes[0]), SMALLEST_IMAGE, largest)
    return 100.0 * (inside - SMALLEST_IMAGE) / (largest - SMALLEST_IMAGE)
