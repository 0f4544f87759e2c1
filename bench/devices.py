"""Measures devices for claims in process: `python -m bench.devices [--nodes 5000] [--devices 8]`.

Each node has devices as NVIDIA's driver publishes them: attributes that all share, and a uuid of its own. Gangs of as
many pods as a node has devices, with a claim each, fill the cluster, then each claim is given back. Measured is CPU
time: reading slices, evaluating the expressions of a class and of a request, making the table, and per pod the
question to the table (once for a gang), the exact search and the change of the table. Nothing of a session is in it.
The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import msgspec
import numpy as np

from maar.kube.read.claims.claims import claim, device_class
from maar.kube.read.claims.selecting import Budget, Selecting
from maar.kube.read.claims.slices import pool_slices
from maar.kube.wire import devices as wire
from maar.kube.wire.decoding import decode, decode_json
from maar.model.devices.allocator import Outcome, Problem, allocate
from maar.model.devices.claim import Allocation, ResourceClaim, Selectors
from maar.model.devices.device import NodeNames
from maar.model.devices.ledger import DeviceLedger
from maar.model.devices.pools import Inventory
from maar.model.devices.table import DeviceTable
from maar.session.journal import Journal

DRIVER = "gpu.nvidia.com"
CLASS: dict[str, Any] = {
    "metadata": {"name": DRIVER},
    "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]},
}
MEMORY = f"device.capacity['{DRIVER}'].memory"
EXPRESSION = f"device.attributes['{DRIVER}'].type == 'gpu' && {MEMORY}.compareTo(quantity('40Gi')) >= 0"
LIMIT = 10_000


def published(node: int, devices: int) -> bytes:
    """The slice of a node, as JSON."""
    spec = {
        "driver": DRIVER,
        "pool": {"name": f"node-{node}", "generation": 1, "resourceSliceCount": 1},
        "nodeName": f"node-{node}",
        "devices": [
            {
                "name": f"gpu-{i}",
                "attributes": {
                    "type": {"string": "gpu"},
                    "uuid": {"string": f"GPU-{node}-{i}"},
                    "productName": {"string": "NVIDIA H100 80GB HBM3"},
                    "brand": {"string": "Nvidia"},
                    "architecture": {"string": "Hopper"},
                    "cudaComputeCapability": {"version": "9.0.0"},
                    "driverVersion": {"version": "560.35.3"},
                    "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:0{i}"},
                },
                "capacity": {"memory": {"value": "80Gi"}},
            }
            for i in range(devices)
        ],
    }
    return json.dumps({"metadata": {"name": f"node-{node}-{DRIVER}"}, "spec": spec}).encode()


def asked(name: str) -> ResourceClaim:
    exactly = {"deviceClassName": DRIVER, "selectors": [{"cel": {"expression": EXPRESSION}}]}
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    return claim(decode({"metadata": {"name": name}, "spec": spec}, wire.ResourceClaim))


def measure(nodes: int, devices: int) -> dict[str, float]:
    """CPU seconds and rates."""
    texts = [published(i, devices) for i in range(nodes)]
    found: dict[str, float] = {"nodes": nodes, "devices": nodes * devices}
    start = time.process_time()

    def lap(name: str) -> None:
        nonlocal start
        found[name] = round(time.process_time() - start, 3)
        start = time.process_time()

    slices, problems = pool_slices(decode_json(text, wire.ResourceSlice) for text in texts)
    assert not problems
    lap("read_s")
    inventory = Inventory(slices)
    of = device_class(decode(CLASS, wire.DeviceClass))
    lap("inventory_s")
    selecting, wanted = Selecting(), Selectors(DRIVER, (EXPRESSION,))
    selected = selecting.selected(wanted, of, inventory.devices.values(), Budget())
    assert len(selected.devices) == nodes * devices, selected.error or next(iter(selected.faulty.values()))
    lap("select_s")
    selecting.selected(Selectors(DRIVER, (f"true && {EXPRESSION}",)), of, inventory.devices.values(), Budget())
    lap("select_another_s")
    names = [NodeNames(f"node-{i}") for i in range(nodes)]
    journal = Journal()
    table = DeviceTable(inventory, names, DeviceLedger(inventory.devices, journal), journal)
    pods = [asked(f"claim-{i}") for i in range(nodes * devices)]
    start = time.process_time()
    problem = Problem(pods[:1], {of.name: of}, {wanted: selected})
    table.room(pods[:1], problem)
    lap("table_s")
    assert table.is_exact(pods[:1], problem)
    held = fill(table, inventory, names, pods, devices, problem)
    lap("decide_s")
    for allocation in held:
        table.give_back(allocation)
    lap("give_back_s")
    assert int(table.room(pods[:1], problem).sum()) == nodes * devices
    found["pods_per_s"] = round(len(pods) / found["decide_s"])
    return found


def fill(
    table: DeviceTable,
    inventory: Inventory,
    names: list[NodeNames],
    pods: list[ResourceClaim],
    gang: int,
    problem: Problem,
) -> list[Allocation]:
    """Devices for all pods, gang by gang."""
    held: list[Allocation] = []
    for first in range(0, len(pods), gang):
        room = table.room(pods[first : first + 1], problem)
        row = int(np.argmax(room >= gang))
        pools = inventory.on(names[row])
        for one in pods[first : first + gang]:
            mine = msgspec.structs.replace(problem, claims=(one,))
            answer = allocate(mine, names[row], pools, table.ledger, limit=LIMIT)
            assert answer.outcome is Outcome.ALLOCATED
            table.take(answer.allocations[0])
            held.extend(answer.allocations)
    return held


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--devices", type=int, default=8)
    arguments = parser.parse_args()
    found = measure(arguments.nodes, arguments.devices)
    for name, value in found.items():
        print(f"{name:<20} {value:>12,}")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
