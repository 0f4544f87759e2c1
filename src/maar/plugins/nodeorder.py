"""nodeorder: the scores of Kubernetes, weighted.

Each score is 0 to 100, times its weight. Scores by free room (least and most requested, balanced) are whole numbers,
rounded down as in Kubernetes, so that nodes that hardly differ are equal; they are computed only for changed rows. In
least and most requested, a pod without a CPU or memory request counts with what Kubernetes assumes. Pods without any
request go where the fewest of them are. Scores fixed by the snapshot (preferred node affinity, avoided taints, images)
are computed once per shape and normalised over the nodes it may use. Scores by other pods (preferred pod affinity,
spread) are computed at every placement, see `neighbour_scores` and `default_spread`. Scores that do not apply to a
shape cost nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np

from maar.model.fitting import columns_of
from maar.model.nodes import NodeTable
from maar.model.resources import CPU, MEMORY, Floats, Ints, Mask
from maar.model.shapes import Shape
from maar.model.snapshot import Snapshot
from maar.plugins.support.default_spread import DefaultSpread
from maar.plugins.support.fullness import Fullness
from maar.plugins.support.neighbour_scores import NeighbourScores
from maar.plugins.support.unstated import Unstated
from maar.session.register import Register
from maar.session.session import Session

NAME = "nodeorder"

SMALLEST_IMAGE, LARGEST_IMAGE = 23 * 2**20, 1000 * 2**20
"""Thresholds of Kubernetes: smaller sizes score nothing, larger sizes (per container) score no more."""


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The weight of each score; 0 disables it. `defaults`: also pods without spread constraints are spread."""

    least: float = msgspec.field(name="leastrequested.weight", default=1.0)
    most: float = msgspec.field(name="mostrequested.weight", default=0.0)
    node_affinity: float = msgspec.field(name="nodeaffinity.weight", default=2.0)
    pod_affinity: float = msgspec.field(name="podaffinity.weight", default=2.0)
    balanced: float = msgspec.field(name="balancedresource.weight", default=1.0)
    taints: float = msgspec.field(name="tainttoleration.weight", default=3.0)
    images: float = msgspec.field(name="imagelocality.weight", default=1.0)
    spread: float = msgspec.field(name="podtopologyspread.weight", default=2.0)
    defaults: bool = msgspec.field(name="podtopologyspread.defaults", default=True)
    best_effort: float = msgspec.field(name="besteffort.weight", default=1.0)


class Dims(NamedTuple):
    """The resources in the room scores of a shape: CPU, memory, and the accelerators that it requests."""

    numbers: Ints
    request: Floats
    """A column: how much it requests of each."""
    capacity: Floats
    """How much each node has: a row for each resource, a column for each node."""


class Nodeorder:
    def __init__(self, arguments: Arguments) -> None:
        self._weights = arguments
        self._dims: dict[int, Dims] = {}
        self._capacity: dict[tuple[int, ...], Floats] = {}
        """How much each node has, by the resources that count."""
        self._fixed: dict[int, Floats | None] = {}
        self._images: dict[str, Floats] = {}

    def open(self, session: Session, on: Register) -> None:
        self._session = session
        self._fullness = Fullness(session)
        if on.flags.get("nodeOrder", True):
            weights = self._weights
            self._unstated = Unstated(session)
            on.score(self._score)
            self._neighbours = NeighbourScores(session, weights.pod_affinity, weights.spread)
            on.cluster_score(self._neighbours.score)
            if weights.defaults and weights.spread:
                on.job_score(DefaultSpread(session, self._neighbours, weights.spread).score)
            # Pods with preferences about equal pods are placed one by one: each placement changes the scores.
            on.one_by_one(len(session.snapshot.nodes), self._neighbours.sees_itself)

    def _score(self, shape: int, rows: Ints | slice) -> Floats:
        if shape not in self._fixed:
            self._fixed[shape] = self._fixed_of(shape)
            self._dims[shape] = self._dims_of(shape)
        scores = self._room(shape, rows)
        fixed = self._fixed[shape]
        if fixed is not None:
            scores += fixed[rows]
        crowd = self._unstated.crowd(shape, rows) if self._weights.best_effort else None
        if crowd is not None:
            scores += 100.0 * self._weights.best_effort / (1 + crowd)
        return scores

    # -- scores by free room

    def _dims_of(self, shape: int) -> Dims:
        """CPU and memory, then the requested accelerators (which count only for the balance)."""
        snapshot = self._session.snapshot
        request = snapshot.shapes.requests[shape]
        wanted = [snapshot.axes.index[CPU], snapshot.axes.index[MEMORY]]
        wanted += [dim for dim in snapshot.axes.accelerators if request[dim] > 0]
        key, numbers = tuple(wanted), np.array(wanted, dtype=np.int64)
        if key not in self._capacity:
            self._capacity[key] = np.maximum(snapshot.nodes.allocatable.T.take(numbers, axis=0), 1).astype(np.float64)
        return Dims(numbers, request[wanted, np.newaxis].astype(np.float64), self._capacity[key])

    def _room(self, shape: int, rows: Ints | slice) -> Floats:
        dims, weights = self._dims[shape], self._weights
        if not (weights.least or weights.most or weights.balanced):
            return np.zeros(self._session.snapshot.nodes.unschedulable[rows].shape, dtype=np.float64)
        # Only elementwise operations: they give each row the same bits in any set of rows.
        taken, has = self._fullness.taken(dims.numbers, rows), columns_of(dims.capacity, rows)
        amounts = np.empty((len(taken), 2, taken.shape[1]), dtype=np.float64)
        amounts[:, 0] = taken
        np.add(amounts[:, 0], dims.request, out=amounts[:, 1])
        scores = None
        if weights.least or weights.most:
            assumed = self._unstated.assumed(shape, rows)
            asked = amounts[:2, 1]
            if assumed is not None:
                asked = np.minimum(asked + assumed, has[:2])  # many small pods make a node full, not more
            scores = allocation(asked, has[:2], weights.least, weights.most)
        if weights.balanced:
            amounts /= has[:, np.newaxis]
            balanced = balance(amounts)
            if weights.balanced != 1.0:
                balanced *= weights.balanced
            scores = balanced if scores is None else np.add(scores, balanced, out=scores)
        return np.asarray(scores)

    # -- scores fixed by the snapshot

    def _fixed_of(self, shape: int) -> Floats | None:
        snapshot, weights = self._session.snapshot, self._weights
        wanted, usable = snapshot.shapes.shapes[shape], self._session.usable(shape)
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


def allocation(amounts: Floats, capacity: Floats, least: float, most: float) -> Floats:
    """The scores by how full a node would be, each resource and their mean rounded down, times their weights.

    The quotients are those of whole numbers far below 2**53, so they are rounded to the same numbers as integers.
    """
    full = amounts * 100.0
    full /= capacity
    scores = None
    if least:
        up = np.ceil(full)
        scores = 100.0 - np.ceil((up[0] + up[1]) * 0.5)
        scores = scores if least == 1.0 else least * scores
    if most:
        np.floor(full, out=full)
        more = most * np.floor((full[0] + full[1]) * 0.5)
        scores = more if scores is None else scores + more
    return np.asarray(scores)


def balance(full: Floats) -> Floats:
    """How much more equally full the resources of a node become by a pod, as since Kubernetes 1.36.

    `full` has for each resource a row without the pod and a row with it; it is overwritten. 75 if the balance stays as
    it is, up to 100 if it improves, down to 50 if it gets worse. Both balances and the result are rounded down.
    """
    np.minimum(full, 1.0, out=full)
    if len(full) == 2:
        deviation = np.abs(full[0] - full[1])
        deviation /= 2.0
    else:
        full -= _total(full) / len(full)
        full *= full
        deviation = _total(full)
        deviation /= len(full)
        np.sqrt(deviation, out=deviation)
    np.subtract(1.0, deviation, out=deviation)
    deviation *= 100.0
    np.floor(deviation, out=deviation)
    better: Floats = deviation[1] - deviation[0]
    better += 150.0
    better *= 0.5
    return np.floor(better, out=better)


def _total(rows: Floats) -> Floats:
    """The sum of the rows, one after the other."""
    total: Floats = rows[0] + rows[1]
    for row in rows[2:]:
        total += row
    return total


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
