"""The device table says at least how many pods fit on a node, and for plain claims exactly how many."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.model.devices.test_possible import scene
from tests.support.devices import LIMIT, NODE, alike, alternative, claim, device, pool_of, problem, wants

from maar.model.devices.allocator import Outcome, Problem, allocate
from maar.model.devices.claim import AllocatedDevice, Allocation, AllocationMode, DeviceRequest, ResourceClaim
from maar.model.devices.device import DevicePlace, NodeNames, PoolSlice
from maar.model.devices.ledger import DeviceLedger
from maar.model.devices.pools import Inventory
from maar.model.devices.table import DeviceTable
from maar.model.selectors import NodeTerm, Requirement, Taint
from maar.session.journal import Journal

NODES = [NodeNames("n1", {"zone": "z1"}), NodeNames("n2", {"zone": "z1"}), NodeNames("n3", {"zone": "z2"})]


def table_of(slices: list[PoolSlice], taken: tuple[Allocation, ...] = ()) -> tuple[Inventory, DeviceTable]:
    inventory = Inventory(slices)
    table = DeviceTable(inventory, NODES, DeviceLedger(inventory.devices))
    for allocation in taken:
        table.take(allocation)
    return inventory, table


def room(slices: list[PoolSlice], *claims: ResourceClaim) -> list[int]:
    inventory, table = table_of(slices)
    return [int(one) for one in table.room(claims, problem(inventory, claims))]


def on_each(*counts: int) -> list[PoolSlice]:
    """A pool of plain GPUs on each node."""
    slices = []
    for node, count in zip(NODES, counts, strict=True):
        slices += pool_of(*(device(f"g{i}", pool=node.name) for i in range(count)), node=node.name) if count else []
    return slices


def filled(asked: Problem, inventory: Inventory, node: NodeNames, table: DeviceTable) -> int:
    """How many times the allocator finds devices on a node, one pod after the other."""
    pods = 0
    while pods < 40:
        found = allocate(asked, node, inventory.on(node), table.ledger, limit=LIMIT)
        if found.outcome is not Outcome.ALLOCATED:
            break
        pods += 1
        for allocation in found.allocations:
            table.take(allocation)
    return pods


def test_plain_devices() -> None:
    asked = claim(wants(count=2))
    assert [4, 1, 0] == room(on_each(8, 3, 0), asked)
    inventory, table = table_of(on_each(8, 3, 0))
    assert table.is_exact([asked], problem(inventory, [asked]))


def test_several_requests_of_one_kind_add_up() -> None:
    assert [2, 1, 0] == room(on_each(8, 3, 0), claim(wants("a", count=2)), claim(wants("b", count=1)))


def test_alternatives_add_up_and_all_devices_go_to_one() -> None:
    either = DeviceRequest("e", first_available=(alternative("x", "gpu", 2), alternative("y", "nic")))
    slices = [*on_each(4, 0, 0), *pool_of(device("nic", "nic", pool="nics"))]
    assert [3, 0, 0] == room(slices, claim(either))
    assert [4, 0, 0] == room(slices, claim(wants(mode=AllocationMode.ALL)))


def test_devices_of_the_network_are_free_on_all_their_nodes() -> None:
    zone = DevicePlace(terms=(NodeTerm((Requirement("zone", "In", ("z1",)),)),))
    slices = pool_of(device("a", pool="net"), device("b", pool="net"), place=zone)
    asked = claim(wants())
    assert [2, 2, 0] == room(slices, asked)
    inventory, table = table_of(slices)
    asked_now = problem(inventory, [asked])
    assert not table.is_exact([asked], asked_now)
    table.room([asked], asked_now)
    assert 1 == filled(problem(inventory, [claim(wants(count=2))]), inventory, NODES[1], table)
    assert [0, 0, 0] == table.room([asked], asked_now).tolist()


def test_taints_pools_that_cannot_be_used_and_nodes_that_are_not_there() -> None:
    tainted = pool_of(device("a", pool="t", taints=(Taint("x", "", "NoSchedule"),)))
    incomplete = [PoolSlice(s.name, s.pool, 1, 2, s.place, s.devices) for s in pool_of(device("b", pool="i"))]
    invalid = pool_of(device("c", pool="v", partition={"tensor": 1}), card={"memory": 1})
    elsewhere = pool_of(device("d", pool="e"), node="n9")
    assert [0, 0, 0] == room([*tainted, *incomplete, *invalid, *elsewhere], claim(wants()))


@pytest.mark.parametrize(
    "asked",
    [
        claim(wants("a"), wants("b", "nic")),
        claim(wants(), constraints=(alike("numa"),)),
        claim(wants(admin=True)),
        claim(wants(mode=AllocationMode.ALL)),
        claim(wants(of="nic")),
    ],
)
def test_what_is_an_upper_bound_only(asked: ResourceClaim) -> None:
    slices = [*on_each(1, 1, 1), *pool_of(device("nic", "nic", pool="nics", shared=True, memory=4))]
    inventory, table = table_of(slices)
    assert not table.is_exact([asked], problem(inventory, [asked]))


@pytest.mark.parametrize("part", range(3))
def test_safety_no_node_takes_more_than_the_table_says(part: int) -> None:
    exact = 0
    for seed in range(part, 300, 3):
        slices, claims, taken = scene(random.Random(seed))
        inventory, table = table_of(slices, tuple(Allocation((one,)) for one in taken))
        asked = problem(inventory, claims, classes=("gpu", "nic"))
        bound = int(table.room(claims, asked)[0])
        is_exact = table.is_exact(claims, asked)
        pods = filled(asked, inventory, NODE, table)
        assert pods <= bound, f"seed {seed}"
        if is_exact:
            assert pods == bound, f"seed {seed}"
            exact += 1
        assert fresh(inventory, table, claims, asked) == table.room(claims, asked).tolist(), f"seed {seed}"
    assert exact


def fresh(inventory: Inventory, table: DeviceTable, claims: list[ResourceClaim], asked: Problem) -> list[int]:
    """The answer of a new table over the same ledger."""
    return [int(one) for one in DeviceTable(inventory, NODES, table.ledger).room(claims, asked)]


@given(st.integers(0, 499), st.lists(st.integers(0, 6), max_size=8))
def test_safety_a_rollback_restores_the_table(seed: int, order: list[int]) -> None:
    slices, claims, taken = scene(random.Random(seed))
    inventory = Inventory(slices)
    journal = Journal()
    table = DeviceTable(inventory, NODES, DeviceLedger(inventory.devices, journal), journal)
    asked = problem(inventory, claims, classes=("gpu", "nic"))
    before = table.room(claims, asked).tolist()
    mark = journal.mark()
    held: list[AllocatedDevice] = []
    for i in order:
        if held and i % 2:
            table.give_back(Allocation((held.pop(),)))
        elif taken:
            held.append(taken[i % len(taken)])
            table.take(Allocation((held[-1],)))
        assert fresh(inventory, table, claims, asked) == table.room(claims, asked).tolist()
    journal.rollback(mark)
    assert before == table.room(claims, asked).tolist()
    assert DeviceLedger(inventory.devices).contents() == table.ledger.contents()
    assert np.array_equal(table.room(claims, asked), DeviceTable(inventory, NODES, table.ledger).room(claims, asked))
