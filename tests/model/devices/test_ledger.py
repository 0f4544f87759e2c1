"""*Safety*: whatever is allocated and given back, no device is given twice, and no counter or capacity is exceeded."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from tests.support.devices import LIMIT, alternative, amounts, claim, device, pool_of, problem, wants

from maar.model.devices.allocator import Outcome, allocate
from maar.model.devices.claim import AllocatedDevice, Allocation, DeviceRequest, ResourceClaim
from maar.model.devices.device import DeviceId, DevicePlace, NodeNames
from maar.model.devices.ledger import DeviceLedger
from maar.model.devices.pools import Inventory

NODES = [NodeNames(name) for name in ("n1", "n2")]
CARD = {"memory": 8, "slices": 4}


def cluster() -> Inventory:
    """On each node a card in partitions, some of them shared, and plain devices; a pool of the network."""
    slices = []
    for node in NODES:
        slices += pool_of(
            device("full", "full", pool=node.name, partition=CARD, memory=8),
            device("half-0", "half", pool=node.name, partition={"memory": 4, "slices": 2}, memory=4, shared=True),
            device("half-1", "half", pool=node.name, partition={"memory": 4, "slices": 2}, memory=4, shared=True),
            device("quarter", "quarter", pool=node.name, partition={"memory": 2, "slices": 1}, memory=2),
            *(device(f"gpu-{i}", pool=node.name) for i in range(3)),
            card=CARD,
            node=node.name,
        )
    everywhere = DevicePlace(all_nodes=True)
    return Inventory([*slices, *pool_of(*(device(f"x{i}", "channel", "net") for i in range(2)), place=everywhere)])


CLASSES = ("full", "half", "half", "quarter", "gpu", "channel")
requests = st.builds(
    wants,
    name=st.sampled_from(("a", "b")),
    of=st.sampled_from(CLASSES),
    count=st.integers(1, 2),
    memory=st.sampled_from((None, 1, 2)),
)
either = st.builds(
    lambda one, other: DeviceRequest("e", first_available=(alternative("x", one), alternative("y", other))),
    st.sampled_from(CLASSES),
    st.sampled_from(CLASSES),
)
claims = st.lists(st.one_of(requests, requests, either), min_size=1, max_size=2).map(lambda some: claim(*some))
takes = st.tuples(st.sampled_from(NODES), st.lists(claims, min_size=1, max_size=2))
gives_back = st.integers(0, 20)


def check(inventory: Inventory, held: list[Allocation]) -> None:
    """What must hold, counted again from all that is held."""
    results = [one for allocation in held for one in allocation.results]
    whole = Counter(one.device for one in results if not one.share)
    shares = {one.device for one in results if one.share}
    assert {} == {one: times for one, times in whole.items() if times > 1 or one in shares}
    for one in shares:
        used = sum(result.consumed["memory"] for result in results if result.device == one)
        assert used <= inventory.devices[one].capacity["memory"].amount
    for node in NODES:
        consumed = Counter[str]()
        for one in {result.device for result in results if result.device.pool == node.name}:
            for each in inventory.devices[one].consumes:
                consumed.update(each.counters)
        assert all(amount <= amounts(CARD)[name] for name, amount in consumed.items())


@given(st.lists(st.one_of(takes, takes, gives_back), max_size=25))
def test_safety_nothing_is_given_twice(steps: list[tuple[NodeNames, list[ResourceClaim]] | int]) -> None:
    inventory = cluster()
    ledger = DeviceLedger(inventory.devices)
    held: list[Allocation] = []
    for step in steps:
        if isinstance(step, int):
            if held:
                ledger.give_back(held.pop(step % len(held)))
        else:
            node, asked = step
            found = allocate(problem(inventory, asked), node, inventory.on(node), ledger, limit=LIMIT)
            assert found.outcome in (Outcome.ALLOCATED, Outcome.NO_FIT)
            for allocation in found.allocations:
                ledger.take(allocation)
                held.append(allocation)
        check(inventory, held)
        again = DeviceLedger(inventory.devices)
        for allocation in held:
            again.take(allocation)
        assert again.contents() == ledger.contents()
    for allocation in held:
        ledger.give_back(allocation)
    assert DeviceLedger(inventory.devices).contents() == ledger.contents()


def test_a_device_that_two_claims_hold_is_free_after_both() -> None:
    """Another scheduler may have given it away a second time: the API server does not refuse that."""
    inventory = cluster()
    ledger = DeviceLedger(inventory.devices)
    full = DeviceId("gpu.example.com", "n1", "full")
    twice = Allocation((AllocatedDevice("r", full),))
    ledger.take(twice)
    ledger.take(twice)
    ledger.give_back(twice)
    assert ledger.is_taken(full)
    ledger.give_back(twice)
    assert not ledger.is_taken(full)
    assert DeviceLedger(inventory.devices).contents() == ledger.contents()


def test_admin_access_takes_nothing() -> None:
    inventory = cluster()
    ledger = DeviceLedger(inventory.devices)
    ledger.take(Allocation((AllocatedDevice("r", DeviceId("gpu.example.com", "n1", "full"), admin=True),)))
    assert DeviceLedger(inventory.devices).contents() == ledger.contents()


def test_shares_of_a_partition_consume_its_card_once() -> None:
    inventory = cluster()
    ledger = DeviceLedger(inventory.devices)
    share = Allocation((AllocatedDevice("r", DeviceId("gpu.example.com", "n1", "half-0"), share=True),))
    ledger.take(share)
    once = dict(ledger.counters)
    ledger.take(share)
    assert once == ledger.counters
    ledger.give_back(share)
    assert once == ledger.counters
    ledger.give_back(share)
    assert {} == ledger.counters
