"""Which devices selectors match, how often that is computed, and what happens to expressions that take too long."""

from __future__ import annotations

from collections.abc import Iterator

from maar.kube.read.claims.selecting import Budget, Selecting
from maar.model.devices.claim import DeviceClass, Selected, Selectors
from maar.model.devices.device import NANO, Attribute, Device, DeviceCapacity, DeviceId

DRIVER = "gpu.nvidia.com"
GPU = DeviceClass("gpu", ("device.driver == 'gpu.nvidia.com'", "device.attributes['gpu.nvidia.com'].type == 'gpu'"))
BIG = "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('40Gi')) >= 0"


def gpus(count: int, memory: int = 80, of: str = "gpu", start: int = 0) -> list[Device]:
    """Devices as NVIDIA's driver publishes them: each has a uuid of its own."""
    return [
        Device(
            DeviceId(DRIVER, f"n{i // 8}", f"gpu-{i % 8}"),
            {"type": Attribute("string", of), "uuid": Attribute("string", f"GPU-{i}")},
            {"memory": DeviceCapacity(memory * 2**30 * NANO)},
        )
        for i in range(start, start + count)
    ]


def ids(devices: list[Device]) -> frozenset[DeviceId]:
    return frozenset(one.id for one in devices)


def seconds(each: float) -> Iterator[float]:
    """A clock on which everything takes the same time."""
    now = 0.0
    while True:
        yield now
        now += each


def test_all_selectors_of_the_class_and_of_the_request_must_match() -> None:
    big, small, mig = gpus(2), gpus(2, 24, start=2), gpus(2, of="mig", start=4)
    found = Selecting().selected(Selectors("gpu", (BIG,)), GPU, [*big, *small, *mig], Budget())
    assert Selected(ids(big)) == found
    assert Selected(ids(big + small)) == Selecting().selected(Selectors("gpu"), GPU, big + small + mig, Budget())


def test_expressions_are_evaluated_once_for_each_distinct_kind_of_device() -> None:
    selecting = Selecting()
    devices = gpus(400) + gpus(400, 24, start=400)
    wanted = Selectors("gpu", (BIG,))
    assert ids(devices[:400]) == selecting.selected(wanted, GPU, devices, Budget()).devices
    assert 4 == selecting.evaluations  # driver, type, and two sizes of memory
    assert ids(devices[:400]) == selecting.selected(wanted, GPU, devices, Budget()).devices
    assert 4 == selecting.evaluations


def test_an_expression_without_a_value_is_an_error_of_its_devices() -> None:
    with_it, without = gpus(1)[0], gpus(1, start=1)[0]
    with_it = Device(with_it.id, {**with_it.attributes, "nvlink": Attribute("bool", True)}, with_it.capacity)
    expression = "device.attributes['gpu.nvidia.com'].nvlink"
    found = Selecting().selected(Selectors("gpu", ("true", expression)), GPU, [with_it, without], Budget())
    assert ids([with_it]) == found.devices
    assert {
        without.id: 'selectors[1]: device `gpu.nvidia.com/n0/gpu-1`: Key not found in map : "nvlink"'
    } == found.faulty


def test_an_expression_is_not_asked_about_devices_that_do_not_match_before() -> None:
    """Kubernetes stops at the first selector that is false."""
    other = Device(DeviceId("nic.example.com", "n0", "nic"))
    found = Selecting().selected(Selectors("gpu"), GPU, [*gpus(1), other], Budget())
    assert Selected(ids(gpus(1))) == found


def test_a_broken_expression_is_an_error_with_its_place() -> None:
    devices = gpus(2)
    broken = DeviceClass("gpu", ("nonsense",))
    found = Selecting().selected(Selectors("gpu"), broken, devices, Budget())
    assert "device class `gpu`: selectors[0]: 1:1: undeclared reference to `nonsense` (in container ``)" == found.error
    assert Selected() == Selecting().selected(Selectors("gpu"), broken, [], Budget())
    found = Selecting().selected(Selectors("gpu", ("nonsense",)), GPU, devices, Budget())
    assert {"selectors[0]: 1:1: undeclared reference to `nonsense` (in container ``)"} == {*found.faulty.values()}
    assert ids(devices) == found.faulty.keys()


def test_a_device_that_is_unreadable_is_an_error_of_each_selector() -> None:
    device = Device(DeviceId(DRIVER, "n0", "x"), {"later": Attribute("unsupported")})
    found = Selecting().selected(Selectors("gpu"), GPU, [device], Budget())
    assert "attribute `later`: of a type that is not supported" in found.faulty[device.id]


def test_a_budget_that_is_used_up_is_an_error_of_its_claims_only() -> None:
    clock = seconds(0.5)
    selecting = Selecting()
    devices = gpus(8)
    uuids = Selectors("gpu", ("device.attributes['gpu.nvidia.com'].uuid != ''",))
    late = Selected(error="no time left: the expressions of the namespace take too long")
    budget = Budget(4.0, lambda: next(clock))
    assert late == selecting.selected(uuids, GPU, devices, budget)
    assert late == selecting.selected(uuids, GPU, devices, budget)
    known = selecting.evaluations
    assert 0 < known < 10
    # The next attempt goes on, and others have budgets of their own.
    assert Selected(ids(devices)) == selecting.selected(uuids, GPU, devices, Budget())
    assert 10 == selecting.evaluations  # driver, type, and eight devices
    assert Selected(ids(devices)) == selecting.selected(uuids, GPU, devices, Budget(4.0, lambda: next(clock)))


def test_expressions_are_forgotten_when_there_are_too_many() -> None:
    selecting = Selecting(kept=2, kept_values=6)
    devices = gpus(4)
    any_class = DeviceClass("gpu")
    uuid = "device.attributes['gpu.nvidia.com'].uuid != '%s'"
    for i in range(3):
        selecting.selected(Selectors("gpu", (uuid % i,)), any_class, devices, Budget())
    assert 12 == selecting.evaluations
    selecting.selected(Selectors("gpu", (uuid % 2,)), any_class, devices, Budget())
    assert 12 == selecting.evaluations
    selecting.selected(Selectors("gpu", (uuid % 0,)), any_class, devices, Budget())
    assert 16 == selecting.evaluations
