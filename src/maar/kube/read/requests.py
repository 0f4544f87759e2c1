"""What a pod requests, as Kubernetes computes it.

Containers and sidecars run together. Init containers run one after the other before them, each beside the sidecars that
started before it. For each resource the larger of the two counts. Pod-level requests replace those of the containers,
and overhead is added. Every pod takes one slot.

A pod can be resized in place: then its spec states what is asked for, and its status what its node has allocated and
what its containers have. The largest of the three counts. A node that can never carry out the resize says so, and what
is asked for does not count. Init containers that are no sidecars are not resized. Limits follow the same rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from msgspec.structs import replace

from maar.kube.wire.base import Quantities
from maar.kube.wire.errors import FieldError
from maar.kube.wire.pods import Container, ContainerStatus, Pod, PodStatus, Resources
from maar.model.resources import CPU, LARGEST_POD, MEMORY, PODS, QuantityError, units

Requests = tuple[tuple[str, int], ...]
Read = Callable[[Quantities, str], dict[str, int]]
RESIZABLE = (CPU, MEMORY)
"""The resources that Kubernetes resizes in place."""
STATE = ("phase", "nominated_node_name", "start_time")
"""The fields of a pod's status that do not say how much the pod holds. All others do, and conditions may."""


def pod_requests(pod: Pod) -> Requests:
    """The requests of a pod, sorted by name, without zeros, and with one pod slot."""
    return _requests(pod, amounts)


def pod_limits(pod: Pod, requests: Requests) -> Requests:
    """What a pod may use of CPU and memory, where that is more than it requests, sorted by name.

    A container without a limit adds nothing, as in Volcano.
    """
    spec = pod.spec
    containers = (*spec.containers, *spec.init_containers)
    if spec.resources is None and not any(c.resources.limits for c in containers):
        return ()
    total: dict[str, int] = {}
    most: dict[str, int] = {}
    given = _Given(pod)
    for i, container in enumerate(containers):
        first = i - len(spec.containers)
        field = f"containers[{i}]" if first < 0 else f"initContainers[{first}]"
        limits = amounts(container.resources.limits, f"spec.{field}.resources.limits")
        if first < 0 or container.restart_policy == "Always":
            _add(total, given.limits(limits, given.of(container), amounts))
        else:
            _take_larger(most, limits)
    _take_larger(total, most)
    if spec.resources is not None:
        total.update(given.limits(amounts(spec.resources.limits, "spec.resources.limits"), pod.status, amounts))
    overhead, asked = amounts(spec.overhead, "spec.overhead"), dict(requests)
    found = []
    for name in (CPU, MEMORY):
        limit = total.get(name, 0)
        limit = min(limit + max(overhead.get(name, 0), 0), LARGEST_POD) if limit > 0 else 0
        if limit > asked.get(name, 0):
            found.append((name, limit))
    return tuple(found)


def holds_the_same(was: Pod, now: Pod) -> bool:
    """Whether two versions of a pod with the same spec take the same room, whatever else their status says.

    A kubelet that starts a pod reports what the pod requests, and that changes nothing.
    """
    state = {name: getattr(now.status, name) for name in STATE}
    if was.resize_infeasible == now.resize_infeasible:
        state["conditions"] = now.status.conditions
    if replace(was.status, **state) == now.status:
        return True
    try:
        before, after = pod_requests(was), pod_requests(now)
        return before == after and pod_limits(was, before) == pod_limits(now, after)
    except FieldError:
        return False


def room_taken(pod: Pod, has: Mapping[str, int] | None) -> Requests:
    """The same for a pod on a node that `has` these amounts: what is no quantity takes all of its resource there.

    The API server accepts 5,000 digits, and a kubelet may run such a pod: it ignores limits, and resources that its
    node does not have. So the pod must not keep others from the rest of the node. No node: larger than any.
    """

    def read(quantities: Quantities, field: str) -> dict[str, int]:
        found = {}
        for name, value in quantities.items():
            try:
                found[name] = units(name, value, up=True)
            except QuantityError:
                found[name] = LARGEST_POD if has is None else has.get(name, 0)
        return found

    return _requests(pod, read)


def _requests(pod: Pod, read: Read) -> Requests:
    spec, given = pod.spec, _Given(pod)
    total: dict[str, int] = {}
    for i, container in enumerate(spec.containers):
        wanted = _container(container, f"spec.containers[{i}].resources", read)
        _add(total, given.requests(wanted, given.of(container), read))
    if spec.init_containers:
        _take_larger(total, _starting(spec.init_containers, given, total, read))
    if spec.resources is not None:
        _whole_pod(total, spec.resources, pod.status, given, read)
    if spec.overhead:
        _add(total, read(spec.overhead, "spec.overhead"))
    total[PODS] = 1
    return tuple(sorted((name, min(amount, LARGEST_POD)) for name, amount in total.items() if amount > 0))


def negative_request(pod: Pod) -> str:
    """The first negative request, with its field; empty if all requests are valid."""
    for field, quantities in _quantities(pod):
        for name, value in quantities.items():
            if units(name, value, up=True) < 0:
                return f"{field}.{name}: expected an amount of at least 0, got `{value}`"
    return ""


def amounts(quantities: Quantities, field: str) -> dict[str, int]:
    """Quantities as amounts, rounded up; the error names the field."""
    try:
        return {name: units(name, value, up=True) for name, value in quantities.items()}
    except QuantityError:
        raise quantity_error(quantities, field) from None


def quantity_error(quantities: Quantities, field: str) -> FieldError:
    """The error for the first value that is not a quantity."""
    for name, value in quantities.items():
        try:
            units(name, value, up=True)
        except QuantityError as error:
            return FieldError(f"{field}.{name}", str(error))
    raise AssertionError("all are quantities")


class _Given:
    """What the node of a pod has given to it, by its status."""

    def __init__(self, pod: Pod) -> None:
        status = pod.status
        self._by_name = {s.name: s for s in (*status.container_statuses, *status.init_container_statuses)}
        self._infeasible = pod.resize_infeasible

    def of(self, container: Container) -> ContainerStatus | None:
        return self._by_name.get(container.name)

    def requests(self, asked: dict[str, int], status: ContainerStatus | PodStatus | None, read: Read) -> dict[str, int]:
        """What counts of the requests of a container or a pod, with its status. Changes `asked`."""
        if status is None or (status.resources is None and not status.allocated_resources):
            return asked
        asked = self._kept(asked)
        if status.allocated_resources:
            _take_larger(asked, read(status.allocated_resources, "status.allocatedResources"))
        if status.resources is not None and status.resources.requests:
            _take_larger(asked, read(status.resources.requests, "status.resources.requests"))
        return asked

    def limits(self, asked: dict[str, int], status: ContainerStatus | PodStatus | None, read: Read) -> dict[str, int]:
        """The same for limits, which are not allocated."""
        if status is None or status.resources is None:
            return asked
        asked = self._kept(asked)
        _take_larger(asked, read(status.resources.limits, "status.resources.limits"))
        return asked

    def _kept(self, asked: dict[str, int]) -> dict[str, int]:
        """What counts of the spec beside the status: not what a resize asks for in vain."""
        return {name: n for name, n in asked.items() if name not in RESIZABLE} if self._infeasible else asked


def _container(container: Container, field: str, read: Read) -> dict[str, int]:
    """What one container asks for: a limit without a request counts as one."""
    resources = container.resources
    wanted = read(resources.requests, f"{field}.requests")
    if resources.limits:
        for name, limit in read(resources.limits, f"{field}.limits").items():
            wanted.setdefault(name, limit)
    return wanted


def _starting(containers: Iterable[Container], given: _Given, total: dict[str, int], read: Read) -> dict[str, int]:
    """The peak of requests before the containers start; adds sidecars to `total`."""
    sidecars: dict[str, int] = {}
    most: dict[str, int] = {}
    for i, container in enumerate(containers):
        wanted = _container(container, f"spec.initContainers[{i}].resources", read)
        if container.restart_policy == "Always":
            wanted = given.requests(wanted, given.of(container), read)
            _add(total, wanted)
            _add(sidecars, wanted)
            _take_larger(most, sidecars)
        else:
            _add(wanted, sidecars)
            _take_larger(most, wanted)
    return most


def _whole_pod(total: dict[str, int], resources: Resources, status: PodStatus, given: _Given, read: Read) -> None:
    """Pod-level requests replace the sum of the containers; a limit counts where there is no request."""
    wanted = read(resources.requests, "spec.resources.requests")
    for name, limit in read(resources.limits, "spec.resources.limits").items():
        if name not in total:
            wanted.setdefault(name, limit)
    names = tuple(wanted)
    counted = given.requests(wanted, status, read)
    total.update({name: counted.get(name, 0) for name in names})  # only what the pod itself requests


def _quantities(pod: Pod) -> Iterable[tuple[str, Quantities]]:
    spec = pod.spec
    for group, containers in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        for i, container in enumerate(containers):
            yield f"spec.{group}[{i}].resources.requests", container.resources.requests
            yield f"spec.{group}[{i}].resources.limits", container.resources.limits
    if spec.resources is not None:
        yield "spec.resources.requests", spec.resources.requests
        yield "spec.resources.limits", spec.resources.limits
    yield "spec.overhead", spec.overhead


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        if amount > 0:
            total[name] = total.get(name, 0) + amount
        else:
            total.setdefault(name, 0)


def _take_larger(total: dict[str, int], other: Mapping[str, int]) -> None:
    for name, amount in other.items():
        if amount > total.get(name, -1):
            total[name] = amount
