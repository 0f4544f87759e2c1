"""What a pod requests, as Kubernetes computes it.

Containers and sidecars run together. Init containers run one after the other before them, each beside the sidecars that
started before it. For each resource the larger of the two counts. Pod-level requests replace those of the containers,
and overhead is added. During an in-place resize the larger of requested and allocated counts. Every pod takes one slot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from maar.kube.wire.base import Quantities
from maar.kube.wire.errors import FieldError
from maar.kube.wire.pods import Container, ContainerStatus, Pod, Resources
from maar.model.resources import CPU, LARGEST_POD, MEMORY, PODS, QuantityError, units

Requests = tuple[tuple[str, int], ...]
Read = Callable[[Quantities, str], dict[str, int]]


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
    for i, container in enumerate(containers):
        first = i - len(spec.containers)
        field = f"containers[{i}]" if first < 0 else f"initContainers[{first}]"
        limits = amounts(container.resources.limits, f"spec.{field}.resources.limits")
        if first < 0 or container.restart_policy == "Always":
            _add(total, limits)
        else:
            _take_larger(most, limits)
    _take_larger(total, most)
    if spec.resources is not None:
        total.update(amounts(spec.resources.limits, "spec.resources.limits"))
    overhead, asked = amounts(spec.overhead, "spec.overhead"), dict(requests)
    found = []
    for name in (CPU, MEMORY):
        limit = total.get(name, 0)
        limit = min(limit + max(overhead.get(name, 0), 0), LARGEST_POD) if limit > 0 else 0
        if limit > asked.get(name, 0):
            found.append((name, limit))
    return tuple(found)


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
    spec, status = pod.spec, pod.status
    given = {s.name: s for s in (*status.container_statuses, *status.init_container_statuses)}
    total: dict[str, int] = {}
    for i, container in enumerate(spec.containers):
        _add(total, _container(container, given, f"spec.containers[{i}].resources", read))
    if spec.init_containers:
        _take_larger(total, _starting(spec.init_containers, given, total, read))
    if spec.resources is not None:
        _whole_pod(total, pod, spec.resources, read)
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


def _container(container: Container, given: Mapping[str, ContainerStatus], field: str, read: Read) -> dict[str, int]:
    """The requests of one container: a limit without a request counts as one, and allocated resources count too."""
    resources = container.resources
    wanted = read(resources.requests, f"{field}.requests")
    if resources.limits:
        for name, limit in read(resources.limits, f"{field}.limits").items():
            wanted.setdefault(name, limit)
    status = given.get(container.name)
    if status is not None:
        if status.allocated_resources:
            _take_larger(wanted, read(status.allocated_resources, "status.allocatedResources"))
        if status.resources is not None and status.resources.requests:
            _take_larger(wanted, read(status.resources.requests, "status.resources.requests"))
    return wanted


def _starting(
    containers: Iterable[Container], given: Mapping[str, ContainerStatus], total: dict[str, int], read: Read
) -> dict[str, int]:
    """The peak of requests before the containers start; adds sidecars to `total`."""
    sidecars: dict[str, int] = {}
    most: dict[str, int] = {}
    for i, container in enumerate(containers):
        wanted = _container(container, given, f"spec.initContainers[{i}].resources", read)
        if container.restart_policy == "Always":
            _add(total, wanted)
            _add(sidecars, wanted)
            _take_larger(most, sidecars)
        else:
            _add(wanted, sidecars)
            _take_larger(most, wanted)
    return most


def _whole_pod(total: dict[str, int], pod: Pod, resources: Resources, read: Read) -> None:
    """Pod-level requests replace the sum of the containers; a limit counts where there is no request."""
    wanted = read(resources.requests, "spec.resources.requests")
    for name, limit in read(resources.limits, "spec.resources.limits").items():
        if name not in total:
            wanted.setdefault(name, limit)
    status = pod.status
    if status.allocated_resources:
        _raise(wanted, read(status.allocated_resources, "status.allocatedResources"))
    if status.resources is not None:
        _raise(wanted, read(status.resources.requests, "status.resources.requests"))
    total.update(wanted)


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


def _raise(wanted: dict[str, int], given: Mapping[str, int]) -> None:
    """Allocated resources count where the pod itself requests the resource."""
    for name in wanted:
        wanted[name] = max(wanted[name], given.get(name, 0))
