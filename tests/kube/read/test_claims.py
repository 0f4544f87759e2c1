"""Slices, classes, claims and templates, from YAML to the model."""

from __future__ import annotations

from typing import Any

import yaml

from maar.kube.read.claims.claims import claim, device_class, from_template
from maar.kube.read.claims.slices import pool_slices
from maar.kube.wire import devices as wire
from maar.kube.wire.decoding import decode
from maar.model.devices.claim import (
    AllocatedConfig,
    AllocatedDevice,
    Allocation,
    AllocationMode,
    Consumer,
    DeviceClass,
    DeviceConfig,
    DeviceConstraint,
    DeviceRequest,
    DevicesWanted,
    Parameters,
    ResourceClaim,
    Selectors,
)
from maar.model.devices.device import (
    NANO,
    Attribute,
    Consumption,
    Device,
    DeviceCapacity,
    DeviceId,
    DevicePlace,
    DeviceToleration,
    PoolId,
    PoolSlice,
    Range,
    RequestPolicy,
)
from maar.model.selectors import NodeTerm, Requirement, Taint

POOL = PoolId("gpu.nvidia.com", "n1")
SLICE = """
metadata: {name: n1-gpus}
spec:
  driver: gpu.nvidia.com
  pool: {name: n1, generation: 3, resourceSliceCount: 2}
  nodeName: n1
  devices:
  - name: gpu-0
    attributes:
      type: {string: gpu}
      numa: {int: 0}
      nvlink: {bool: true}
      driverVersion: {version: 560.35.3}
      profiles: {strings: [1g, 2g]}
      later: {dictionary: {}}
    capacity:
      memory: {value: 80Gi, requestPolicy: {default: 1Gi, validRange: {min: 1Gi, max: 80Gi, step: 1Mi}}}
      shares: {value: "4", requestPolicy: {default: "1", validValues: ["1", "2"]}}
      cores: {value: 1500m}
    consumesCounters: [{counterSet: card-0, counters: {memory: {value: 80Gi}}}]
    taints: [{key: xid, value: "79", effect: NoSchedule, timeAdded: "2026-01-01T00:00:00Z"}]
    bindsToNode: true
    bindingConditions: [ready]
    bindingFailureConditions: [failed]
    allowMultipleAllocations: true
"""


def slices(*texts: str, rules: str = "[]") -> tuple[list[PoolSlice], list[str]]:
    found = [decode(yaml.safe_load(text), wire.ResourceSlice) for text in texts]
    return pool_slices(found, [decode(one, wire.DeviceTaintRule) for one in yaml.safe_load(rules)])


def changed(text: str, **spec: Any) -> str:
    document = yaml.safe_load(text)
    document["spec"].update(spec)
    return yaml.safe_dump(document)


def test_a_slice() -> None:
    gi = 2**30 * NANO
    expected = Device(
        id=DeviceId("gpu.nvidia.com", "n1", "gpu-0"),
        attributes={
            "type": Attribute("string", "gpu"),
            "numa": Attribute("int", 0),
            "nvlink": Attribute("bool", True),
            "driverVersion": Attribute("version", "560.35.3"),
            "profiles": Attribute("strings", ("1g", "2g")),
            "later": Attribute("unsupported"),
        },
        capacity={
            "memory": DeviceCapacity(80 * gi, RequestPolicy(gi, range=Range(gi, 80 * gi, 2**20 * NANO))),
            "shares": DeviceCapacity(4 * NANO, RequestPolicy(NANO, values=(NANO, 2 * NANO))),
            "cores": DeviceCapacity(3 * NANO // 2),
        },
        consumes=(Consumption("card-0", {"memory": 80 * gi}),),
        taints=(Taint("xid", "79", "NoSchedule"),),
        place=DevicePlace(),
        shared=True,
        binds_to_node=True,
        binding_conditions=("ready",),
        binding_failure_conditions=("failed",),
    )
    assert ([PoolSlice("n1-gpus", POOL, 3, 2, DevicePlace("n1"), (expected,))], []) == slices(SLICE)


def test_where_devices_are() -> None:
    selector = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "rack", "operator": "In", "values": ["1"]}]}]}
    rack = (NodeTerm((Requirement("rack", "In", ("1",)),)),)
    each = [{"name": "a", "nodeSelector": selector}, {"name": "b", "allNodes": True}]
    (by_selector, everywhere, by_device), _ = slices(
        changed(SLICE, nodeName=None, nodeSelector=selector),
        changed(SLICE, nodeName=None, allNodes=True),
        changed(SLICE, nodeName=None, perDeviceNodeSelection=True, devices=each),
    )
    assert DevicePlace(terms=rack) == by_selector.place
    assert DevicePlace(all_nodes=True) == everywhere.place
    assert None is by_device.place
    assert [DevicePlace(terms=rack), DevicePlace(all_nodes=True)] == [one.place for one in by_device.devices]


def test_counters_of_a_pool() -> None:
    sets = [{"name": "card-0", "counters": {"slices": {"value": "7"}}}]
    (once, twice), _ = slices(
        changed(SLICE, devices=[], sharedCounters=sets), changed(SLICE, devices=[], sharedCounters=sets * 2)
    )
    assert ({"card-0": {"slices": 7 * NANO}}, "") == (once.counters, once.duplicate_set)
    assert "card-0" == twice.duplicate_set


def test_taints_that_rules_add() -> None:
    rules = """
    - {metadata: {name: b}, spec: {taint: {key: all, effect: NoExecute}}}
    - {metadata: {name: a}, spec: {deviceSelector: {device: gpu-0}, taint: {key: one, value: x, effect: None}}}
    - {metadata: {name: c}, spec: {deviceSelector: {device: gpu-1}, taint: {key: another, effect: NoSchedule}}}
    - {metadata: {name: d}, spec: {deviceSelector: {driver: nic}, taint: {key: driver, effect: NoSchedule}}}
    - {metadata: {name: e}, spec: {deviceSelector: {pool: n2}, taint: {key: pool, effect: NoSchedule}}}
    """
    (found,), _ = slices(SLICE, rules=rules)
    expected = (Taint("xid", "79", "NoSchedule"), Taint("one", "x", "None"), Taint("all", "", "NoExecute"))
    assert expected == found.devices[0].taints


def test_a_slice_that_is_not_understood_is_left_out() -> None:
    groups = [{"counterSet": "c", "counters": {}, "compatibilityGroups": ["mig"]}]
    found, problems = slices(
        changed(SLICE, devices=[{"name": "a", "capacity": {"memory": {"value": "80Gb"}}}]),
        changed(SLICE, devices=[{"name": "a", "consumesCounters": groups}]),
        changed(SLICE, devices=[{"name": "a", "capacity": {"memory": {"value": "1e9999"}}}]),
        SLICE,
    )
    assert 1 == len(found)
    assert problems[0].startswith(
        "resource slice `n1-gpus`: spec.devices[0].capacity.memory.value: not a quantity: `80Gb`"
    )
    assert problems[2].endswith("capacity.memory.value: expected less than 1e36, got `1e9999`")
    assert problems[1].endswith("spec.devices[0].consumesCounters[0].compatibilityGroups: not supported")


def test_a_class() -> None:
    text = """
    metadata: {name: gpu.nvidia.com, creationTimestamp: "1970-01-01T00:01:00Z"}
    spec:
      extendedResourceName: nvidia.com/gpu
      selectors: [{cel: {expression: device.driver == 'gpu.nvidia.com'}}]
      config: [{opaque: {driver: gpu.nvidia.com, parameters: {b: 1, a: [x]}}}]
    """
    found = device_class(decode(yaml.safe_load(text), wire.DeviceClass))
    parameters = Parameters("gpu.nvidia.com", b'{"a":["x"],"b":1}')
    selectors = ("device.driver == 'gpu.nvidia.com'",)
    assert DeviceClass("gpu.nvidia.com", selectors, (DeviceConfig(parameters),), "nvidia.com/gpu", 60.0) == found
    assert "nvidia.com/gpu" == found.charged_as
    assert "deviceclass.resource.kubernetes.io/mig" == DeviceClass("mig").charged_as


SPEC = """
devices:
  requests:
  - name: gpu
    exactly:
      deviceClassName: gpu.nvidia.com
      count: 8
      selectors: [{cel: {expression: "true"}}]
      tolerations: [{key: xid, operator: Exists, effect: NoExecute, tolerationSeconds: 60}, {key: y, value: z}]
      capacity: {requests: {memory: 10Gi}}
      adminAccess: false
  - name: nic
    firstAvailable:
    - {name: fast, deviceClassName: nic, allocationMode: All}
    - {name: slow, deviceClassName: nic, allocationMode: Some}
  - {name: later}
  constraints: [{requests: [gpu], matchAttribute: a/b}, {distinctAttribute: c/d}]
  config: [{requests: [gpu], opaque: {driver: gpu.nvidia.com, parameters: {}}}]
"""
TOLERATIONS = (DeviceToleration("xid", "Exists", "", "NoExecute", 60), DeviceToleration("y", "Equal", "z", "", None))
REQUESTS = (
    DeviceRequest(
        "gpu",
        DevicesWanted(
            "gpu",
            Selectors("gpu.nvidia.com", ("true",)),
            count=8,
            admin=False,
            tolerations=TOLERATIONS,
            capacity={"memory": 10 * 2**30 * NANO},
        ),
    ),
    DeviceRequest(
        "nic",
        first_available=(
            DevicesWanted("fast", Selectors("nic"), AllocationMode.ALL),
            DevicesWanted("slow", Selectors("nic"), AllocationMode.UNKNOWN),
        ),
    ),
    DeviceRequest("later"),
)
CONSTRAINTS = (DeviceConstraint(("gpu",), "a/b"), DeviceConstraint((), "", "c/d"))
CONFIG = (DeviceConfig(Parameters("gpu.nvidia.com", b"{}"), ("gpu",)),)


def test_a_claim_with_its_allocation() -> None:
    status = """
    reservedFor: [{resource: pods, name: p, uid: u1}]
    allocation:
      nodeSelector: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [n1]}]}]}
      allocationTimestamp: "2026-01-01T00:00:00Z"
      devices:
        results:
        - {request: gpu, driver: gpu.nvidia.com, pool: n1, device: gpu-0, adminAccess: true}
        - {request: nic/fast, driver: nic, pool: n1, device: x, shareID: s1, consumedCapacity: {bw: 500m},
           tolerations: [{key: y, value: z}], bindingConditions: [ready], bindingFailureConditions: [failed]}
        config: [{source: FromClass, opaque: {driver: nic, parameters: 1}}, {source: FromClaim, requests: [gpu]}]
    """
    document = {
        "metadata": {"name": "c", "namespace": "ns", "uid": "u"},
        "spec": yaml.safe_load(SPEC),
        "status": yaml.safe_load(status),
    }
    allocation = Allocation(
        results=(
            AllocatedDevice("gpu", DeviceId("gpu.nvidia.com", "n1", "gpu-0"), admin=True),
            AllocatedDevice(
                "nic/fast",
                DeviceId("nic", "n1", "x"),
                tolerations=TOLERATIONS[1:],
                binding_conditions=("ready",),
                binding_failure_conditions=("failed",),
                share=True,
                consumed={"bw": NANO // 2},
            ),
        ),
        config=(AllocatedConfig(Parameters("nic", b"1"), of_class=True), AllocatedConfig(None, False, ("gpu",))),
        nodes=(NodeTerm(fields=(Requirement("metadata.name", "In", ("n1",)),)),),
    )
    expected = ResourceClaim("ns", "c", "u", REQUESTS, CONSTRAINTS, CONFIG, allocation, (Consumer("u1", "p"),))
    assert expected == claim(decode(document, wire.ResourceClaim))


def test_the_claim_of_a_template() -> None:
    document = {"metadata": {"name": "t", "namespace": "ns"}, "spec": {"spec": yaml.safe_load(SPEC)}}
    found = from_template(decode(document, wire.ResourceClaimTemplate), "for pod p")
    assert ResourceClaim("ns", "for pod p", "", REQUESTS, CONSTRAINTS, CONFIG) == found
