"""The answers of Kubernetes' allocator: each case of the oracle, from its objects to its allocations and steps.

Left out are three searches that the tests of Kubernetes cancelled from outside (lines 157, 158 and 159), and the names
of shares, which are random.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.support.shared import SHARED, needs

from maar.kube.read.claims.claims import claim, device_class
from maar.kube.read.claims.selecting import Budget, Selecting
from maar.kube.read.claims.slices import amount, pool_slices
from maar.kube.wire import devices as wire
from maar.kube.wire.decoding import decode
from maar.model.devices.allocator import Features, Outcome, Problem, Searched, allocate
from maar.model.devices.claim import AllocatedDevice, Allocation, DeviceClass, Selected, Selectors
from maar.model.devices.device import DeviceId, NodeNames
from maar.model.devices.ledger import DeviceLedger
from maar.model.devices.pools import Inventory

PATH = "oracle/dra-allocator.jsonl"
CASES = [json.loads(line) for line in (SHARED / PATH).read_text().splitlines()] if (SHARED / PATH).exists() else []
CANCELLED = "filter operation aborted"


def features(names: list[str]) -> Features:
    return Features(
        admin_access="DRAAdminAccess" in names,
        prioritized_list="DRAPrioritizedList" in names,
        partitions="DRAPartitionableDevices" in names,
        taints="DRADeviceTaints" in names,
        binding_conditions="DRADeviceBindingConditions+DRAResourceClaimDeviceStatus" in names,
        consumable_capacity="DRAConsumableCapacity" in names,
        fractional_range="DRAFractionalCapacityRange" in names,
    )


def device_id(text: str) -> DeviceId:
    return DeviceId(*text.split("/"))


def answer(case: dict[str, Any]) -> Searched:
    """What Maar says about a case."""
    known: dict[str, DeviceClass] = {}
    for found in case["classes"] or ():
        one = device_class(decode(found, wire.DeviceClass))
        known[one.name] = one
    claims = [claim(decode(found, wire.ResourceClaim)) for found in case["claims"] or ()]
    supported = features(case["features"])
    slices, _ = pool_slices(decode(found, wire.ResourceSlice) for found in case["slices"] or ())
    inventory = Inventory(slices, supported.partitions)
    selecting, budget = Selecting(), Budget()
    selected: dict[Selectors, Selected] = {}
    for one_claim in claims:
        for request in one_claim.requests:
            for wanted in (*request.first_available, *filter(None, [request.exactly])):
                if wanted.device_class in known:
                    selected[wanted.selectors] = selecting.selected(
                        wanted.selectors, known[wanted.device_class], inventory.devices.values(), budget
                    )
    ledger = DeviceLedger(inventory.devices)
    for text in case["allocated"] or ():
        ledger.take(Allocation((AllocatedDevice("", device_id(text)),)))
    for text, used in (case["consumed"] or {}).items():
        consumed = {name: amount(value, text) for name, value in used.items()}
        ledger.take(Allocation((AllocatedDevice("", device_id(text), share=True, consumed=consumed),)))
    node = NodeNames(case["node"]["metadata"]["name"], case["node"]["metadata"].get("labels", {}))
    problem = Problem(claims, known, selected, supported)
    return allocate(problem, node, inventory.on(node), ledger, limit=100_000)


def allocation(found: dict[str, Any]) -> Allocation:
    """An allocation of the oracle, as the reader of claims reads it."""
    status = {"metadata": {"name": "c"}, "status": {"allocation": found}}
    read = claim(decode(status, wire.ResourceClaim)).allocation
    assert read is not None
    return read


@needs(PATH)
@pytest.mark.parametrize("line", [i for i, case in enumerate(CASES, 1) if CANCELLED not in case.get("error", "")])
def test_the_allocator_answers_like_kubernetes(line: int) -> None:
    case = CASES[line - 1]
    actual = answer(case)
    assert case["steps"] == actual.steps
    if case["results"] is None:
        if "error" not in case:
            assert (Outcome.NO_FIT, "") == (actual.outcome, actual.why)
        elif case["error"].startswith("invalid resource pools"):
            assert Outcome.NO_FIT is actual.outcome
            assert "is invalid" in actual.why
        else:
            assert Outcome.REFUSED is actual.outcome, actual
            assert actual.why
        return
    assert tuple(map(allocation, case["results"])) == actual.allocations, actual
    assert Outcome.ALLOCATED is actual.outcome
