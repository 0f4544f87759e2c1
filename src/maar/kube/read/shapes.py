"""The shape of a pod: what it needs and where it may run, as plain data of the model.

Shapes are made in two passes: `draft` makes everything but the selectors that match the pod, and `finish` adds these
once all pods have been read. Equal shapes are one object.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

import msgspec
from msgspec.structs import replace

from maar.kube.read.limits import check
from maar.kube.read.neighbours import Matcher, Namespaces, pod_term, spread
from maar.kube.read.requests import pod_limits, pod_requests
from maar.kube.read.selectors import has, node_term
from maar.kube.read.storage.volumes import Needs
from maar.kube.wire import annotations as known
from maar.kube.wire.annotations import Notes
from maar.kube.wire.pods import Container, Pod, PodSpec, WireToleration
from maar.kube.wire.values import yes
from maar.model.selectors import PodSelector, Port, Toleration
from maar.model.shapes import MOST_NEW, FillStrategy, Shape

STRATEGIES = {"MostAllocated": True, "LeastAllocated": False}
"""Volcano's names, and whether pods are packed."""
ANY_ZONE = "*"
"""The only value of `volcano.sh/revocable-zone` on pods that means something, as in Volcano."""
MOST_WEIGHT = 1e6
"""Larger weights count as this: anyone may write one whose sums are infinite."""

LONGEST_IMAGE = 1000
"""Characters of an image's name that is kept; tuned by hand. Registries allow about 400, the API server any number."""


class Shapes:
    """The shapes of all pods that are read; equal shapes are one object."""

    def __init__(self, namespaces: Namespaces) -> None:
        self._namespaces = namespaces
        self._drafts: dict[Shape, Shape] = {}
        self._finished: dict[tuple[Shape, tuple[PodSelector, ...]], Shape] = {}

    def tidy(self, pods: int, drafts: Iterable[Shape]) -> None:
        """Forget the shapes of pods that are gone, if these are many; `pods` pods exist, and have `drafts`."""
        if len(self._drafts) + len(self._finished) > 3 * pods + MOST_NEW:
            self._drafts = {draft: draft for draft in drafts}
            self._finished = {}

    def draft(self, pod: Pod, needs: Needs | None = None, images: tuple[str, ...] = ()) -> Shape:
        """A pod's shape but for the selectors that match it; `images` are those of its images that some node has.

        Raises `TooMuch` if the pod states more than it may.
        """
        spec = pod.spec
        check(spec)
        requests = pod_requests(pod)
        shape = Shape(
            requests=requests,
            limits=pod_limits(pod, requests),
            node_selector=tuple(has(k, v) for k, v in sorted(spec.node_selector.items())),
            tolerations=tuple(map(_toleration, spec.tolerations)),
            ports=_ports(spec),
            spread=tuple(spread(s, pod.namespace, pod.metadata.labels) for s in spec.topology_spread_constraints),
            images=images,
            strategy=_strategy(pod.metadata.annotations) if pod.metadata.annotations else None,
            revocable=is_revocable(pod.metadata.annotations) if pod.metadata.annotations else False,
        )
        if spec.affinity is not None:
            shape = self._with_affinity(shape, pod)
        if needs is not None:
            shape = replace(shape, volume_terms=needs.ways, volume_needs=needs.takes)
        return self._drafts.setdefault(shape, shape)

    def bare(self, pod: Pod) -> Shape:
        """A shape with only what a pod requests."""
        shape = Shape(requests=pod_requests(pod))
        return self._drafts.setdefault(shape, shape)

    def finish(self, draft: Shape, pod: Pod, matcher: Matcher) -> Shape:
        """The draft with the selectors that match the pod."""
        if matcher.empty:
            return draft
        matches = matcher.matches(pod.namespace, pod.metadata.labels)
        if not matches:
            return draft
        key = (draft, matches)
        shape = self._finished.get(key)
        if shape is None:
            shape = self._finished[key] = replace(draft, matches=matches)
        return shape

    def _with_affinity(self, shape: Shape, pod: Pod) -> Shape:
        wanted = pod.spec.affinity
        assert wanted is not None
        own, labels, spaces = pod.namespace, pod.metadata.labels, self._namespaces
        nodes, near, apart = wanted.node_affinity, wanted.pod_affinity, wanted.pod_anti_affinity
        required = nodes.required
        return replace(
            shape,
            node_terms=None if required is None else tuple(map(node_term, required.node_selector_terms)),
            node_preferences=tuple((p.weight, node_term(p.preference)) for p in nodes.preferred),
            affinity=tuple(pod_term(t, own, labels, spaces) for t in near.required),
            anti_affinity=tuple(pod_term(t, own, labels, spaces) for t in apart.required),
            pod_preferences=(
                *((p.weight, pod_term(p.pod_affinity_term, own, labels, spaces)) for p in near.preferred),
                *((-p.weight, pod_term(p.pod_affinity_term, own, labels, spaces)) for p in apart.preferred),
            ),
        )


def selectors_of(shape: Shape) -> Iterable[PodSelector]:
    """All selectors of other pods in a shape."""
    for term in (*shape.affinity, *shape.anti_affinity):
        yield term.pods
    for _, term in shape.pod_preferences:
        yield term.pods
    for constraint in shape.spread:
        yield constraint.pods


def names_of(spec: PodSpec) -> set[str]:
    """The full names of all images of a pod."""
    return {full_image(c.image) for c in (*spec.init_containers, *spec.containers) if c.image}


def full_image(name: str) -> str:
    """An image's name with its tag, as nodes list it.

    >>> full_image("registry:5000/train"), full_image("train:2")
    ('registry:5000/train:latest', 'train:2')
    """
    return (_full_image if len(name) <= LONGEST_IMAGE else _full_image.__wrapped__)(name)


@lru_cache(maxsize=4096)
def _full_image(name: str) -> str:
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"


@lru_cache(maxsize=4096)
def _toleration(wire: WireToleration) -> Toleration:
    return Toleration(wire.key, wire.operator or "Equal", wire.value, wire.effect)


def _strategy(annotations: Mapping[str, str]) -> FillStrategy | None:
    """What a pod states about the plugin resource-strategy-fit; an invalid value counts as missing, as in Volcano."""
    notes = Notes(annotations)
    pack, weights = notes.read(known.STRATEGY_TYPE, _packs), notes.read(known.STRATEGY_WEIGHTS, _weights)
    return None if pack is None and not weights else FillStrategy(pack, weights or ())


def strategy_problem(annotations: Mapping[str, str]) -> str:
    """Which of these values counts as missing, and why; empty if none does."""
    notes = Notes(annotations)
    notes.read(known.STRATEGY_TYPE, _packs)
    notes.read(known.STRATEGY_WEIGHTS, _weights)
    return notes.problem


def _packs(text: str) -> bool:
    if text not in STRATEGIES:
        raise ValueError(f"expected {' or '.join(f'`{name}`' for name in STRATEGIES)}, got `{text}`")
    return STRATEGIES[text]


def is_revocable(annotations: Mapping[str, str]) -> bool:
    """Whether a pod may use revocable nodes: as it says, else if it says that it is preemptable. As in Volcano."""
    zone = annotations.get(known.REVOCABLE_ZONE)
    return zone == ANY_ZONE if zone else Notes(annotations).read(known.PREEMPTABLE, yes) is True


def _weights(text: str) -> tuple[tuple[str, float], ...]:
    """Weights of resources in JSON; a weight that is not positive counts as 1."""
    try:
        found = msgspec.json.decode(text, type=dict[str, float])
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from None
    return tuple((name, min(weight, MOST_WEIGHT) if weight > 0 else 1.0) for name, weight in sorted(found.items()))


def _ports(spec: PodSpec) -> tuple[Port, ...]:
    """Host ports of containers and sidecars; on the host network every container port is a host port."""
    found = set()
    for container in (*spec.containers, *filter(_is_sidecar, spec.init_containers)):
        for port in container.ports:
            number = port.host_port or (port.container_port if spec.host_network else 0)
            if number > 0:
                found.add(Port(number, port.protocol or "TCP", port.host_ip or "0.0.0.0"))  # noqa: S104 compared, not bound
    return tuple(sorted(found)) if found else ()


def _is_sidecar(container: Container) -> bool:
    return container.restart_policy == "Always"
