"""What the allocator finds on one node: each kind of claim and device, and each reason why there is nothing."""

from __future__ import annotations

import pytest
from tests.support.devices import (
    NODE,
    alike,
    alternative,
    amounts,
    claim,
    device,
    different,
    names,
    pool_of,
    problem,
    search,
    wants,
)

from maar.model.devices.allocator import Features, Outcome, Problem, allocate
from maar.model.devices.claim import (
    AllocatedConfig,
    AllocatedDevice,
    Allocation,
    AllocationMode,
    DeviceClass,
    DeviceConfig,
    DeviceConstraint,
    DeviceRequest,
    DevicesWanted,
    Parameters,
    ResourceClaim,
    Selected,
    Selectors,
)
from maar.model.devices.device import (
    NANO,
    Attribute,
    Device,
    DeviceCapacity,
    DevicePlace,
    DeviceToleration,
    NodeNames,
    PoolSlice,
    Range,
    RequestPolicy,
)
from maar.model.devices.ledger import DeviceLedger
from maar.model.devices.pools import Inventory
from maar.model.selectors import NodeTerm, Requirement, Taint

ALL = AllocationMode.ALL
TAINT = Taint("xid", "79", "NoSchedule")
HERE = (NodeTerm(fields=(Requirement("metadata.name", "In", ("n1",)),)),)


def gpus(count: int) -> list[PoolSlice]:
    return pool_of(*(device(f"gpu-{i}") for i in range(count)))


def held(slices: list[PoolSlice], *devices: str, memory: int | None = None) -> DeviceLedger:
    """A ledger in which claims hold whole devices, or shares of some memory."""
    inventory = Inventory(slices)
    ledger = DeviceLedger(inventory.devices)
    ids = {one.device: one for one in inventory.devices}
    for name in devices:
        share = memory is not None
        consumed = amounts({"memory": memory}) if memory is not None else {}
        ledger.take(Allocation((AllocatedDevice("r", ids[name], share=share, consumed=consumed),)))
    return ledger


# Whole devices


def test_devices_are_taken_in_the_order_of_pools_slices_and_devices() -> None:
    pool = [
        *pool_of(device("b-1", pool="b")),
        *pool_of(device("a-2", pool="a"), device("a-1", pool="a")),
    ]
    assert [["a-2", "a-1", "b-1"]] == names(search(pool, claim(wants(count=3))))


def test_devices_in_use_are_left_out() -> None:
    pool = gpus(3)
    found = search(pool, claim(wants(count=2)), ledger=held(pool, "gpu-0"))
    assert [["gpu-1", "gpu-2"]] == names(found)
    assert Outcome.NO_FIT is search(pool, claim(wants(count=3)), ledger=held(pool, "gpu-0")).outcome


def test_claims_of_one_pod_do_not_share_devices() -> None:
    claims = [claim(wants(count=2), name="a"), claim(wants(count=1), name="b")]
    assert [["gpu-0", "gpu-1"], ["gpu-2"]] == names(search(gpus(3), *claims))
    assert Outcome.NO_FIT is search(gpus(2), *claims).outcome


def test_an_earlier_request_gives_way_to_a_later_one() -> None:
    """The first request could have the only device that the second one's selector matches: the search goes back."""
    inventory = Inventory(gpus(2))
    first = next(one for one in inventory.devices if one.device == "gpu-0")
    only = Selectors("gpu", ("an expression",))
    known = problem(inventory, [claim(wants("r1"), DeviceRequest("r2", exactly=DevicesWanted("r2", only)))])
    asked = Problem(known.claims, known.classes, {**known.selected, only: Selected(frozenset({first}))})
    found = allocate(asked, NODE, inventory.on(NODE), DeviceLedger(inventory.devices), limit=100)
    assert [["gpu-1", "gpu-0"]] == names(found)


def test_no_claims_need_nothing() -> None:
    assert (Outcome.ALLOCATED, ()) == (search(gpus(1)).outcome, search(gpus(1)).allocations)


def test_a_pod_may_have_more_claims_than_python_has_stack() -> None:
    pool = [one for i in range(200) for one in pool_of(*(device(f"d{k}", pool=f"p{i:03}") for k in range(8)))]
    claims = [claim(wants(count=32), name=f"c{i}") for i in range(50)]
    assert Outcome.ALLOCATED is search(pool, *claims).outcome


# All devices


def test_all_devices_of_the_class() -> None:
    pool = pool_of(device("a"), device("b", "nic"), device("c"))
    assert [["a", "c"]] == names(search(pool, claim(wants(mode=ALL))))


def test_all_devices_are_not_those_that_are_free() -> None:
    pool = gpus(2)
    assert Outcome.NO_FIT is search(pool, claim(wants(mode=ALL)), ledger=held(pool, "gpu-1")).outcome


def test_all_devices_are_at_least_one() -> None:
    found = search(pool_of(device("a", "nic"), device("b"), place=DevicePlace("n2")), claim(wants(mode=ALL)))
    assert Outcome.NO_FIT is found.outcome


def test_all_devices_of_a_pool_that_is_being_updated_are_not_known() -> None:
    pool = [PoolSlice(s.name, s.pool, 1, 2, s.place, s.devices) for s in gpus(2)]
    found = search(pool, claim(wants(mode=ALL)))
    assert Outcome.REFUSED is found.outcome
    assert "pool `gpu.example.com/n1` is being updated" in found.why
    assert Outcome.NO_FIT is search(pool, claim(wants())).outcome


def test_all_devices_that_a_constraint_excludes_are_a_mistake() -> None:
    pool = pool_of(device("a", attributes={"numa": 0}), device("b", attributes={"numa": 1}))
    found = search(pool, claim(wants(mode=ALL), constraints=(alike("numa"),)))
    assert Outcome.REFUSED is found.outcome
    assert "wants all devices, but a constraint excludes `gpu.example.com/n1/b`" in found.why


# Alternatives


def test_the_first_possible_alternative_wins() -> None:
    pool = pool_of(device("a", "big"), device("b", "small"), device("c", "small"))
    request = DeviceRequest("r", first_available=(alternative("two", "big", 2), alternative("one", "small", 2)))
    found = search(pool, claim(request))
    assert [["b", "c"]] == names(found)
    assert {"r/one"} == {one.request for one in found.allocations[0].results}


def test_an_alternative_gives_way_to_a_later_request() -> None:
    pool = pool_of(device("a", "big"), device("b", "small"))
    request = DeviceRequest("r", first_available=(alternative("x", "big"), alternative("y", "small")))
    found = search(pool, claim(request, wants("s", "big")))
    assert [["b", "a"]] == names(found)


def test_a_claim_holds_at_most_32_devices() -> None:
    pool = gpus(40)
    assert Outcome.ALLOCATED is search(pool, claim(wants(count=32))).outcome
    found = search(pool, claim(wants("a", count=20), wants("b", count=13)))
    assert Outcome.REFUSED is found.outcome
    assert "more than a claim can hold: 32" in found.why
    fewer = DeviceRequest("b", first_available=(alternative("x", count=13), alternative("y", count=12)))
    assert "b/y" == search(pool, claim(wants("a", count=20), fewer)).allocations[0].results[-1].request


# Constraints


def test_matching_attributes() -> None:
    pool = pool_of(*(device(f"d{i}", attributes={"numa": i // 2 % 2}) for i in range(5)))
    assert [["d0", "d1", "d4"]] == names(search(pool, claim(wants(count=3), constraints=(alike("numa"),))))
    assert Outcome.NO_FIT is search(pool, claim(wants(count=4), constraints=(alike("numa"),))).outcome


def test_distinct_attributes() -> None:
    pool = pool_of(*(device(f"d{i}", attributes={"numa": i // 2}) for i in range(4)))
    assert [["d0", "d2"]] == names(search(pool, claim(wants(count=2), constraints=(different("numa"),))))
    assert Outcome.NO_FIT is search(pool, claim(wants(count=3), constraints=(different("numa"),))).outcome


def test_a_device_without_the_attribute_meets_no_constraint() -> None:
    pool = pool_of(device("a"), device("b", attributes={"numa": 0}))
    for constraint in (alike("numa"), different("numa")):
        assert [["b"]] == names(search(pool, claim(wants(), constraints=(constraint,))))


def test_the_type_of_an_attribute_counts() -> None:
    pool = pool_of(device("a", attributes={"x": 1}), device("b", attributes={"x": True}))
    assert Outcome.NO_FIT is search(pool, claim(wants(count=2), constraints=(alike("x"),))).outcome
    assert [["a", "b"]] == names(search(pool, claim(wants(count=2), constraints=(different("x"),))))


def test_a_list_meets_no_constraint_beside_another_device() -> None:
    many = Attribute("strings", ("x",))
    pool = pool_of(device("a", attributes={"x": many}), device("b", attributes={"x": many}))
    for constraint in (alike("x"), different("x")):
        assert Outcome.NO_FIT is search(pool, claim(wants(count=2), constraints=(constraint,))).outcome


def test_a_constraint_is_about_its_requests_only() -> None:
    pool = pool_of(
        *(device(f"d{i}", attributes={"numa": i}) for i in range(2)), device("nic", "nic", attributes={"numa": 1})
    )
    requests = (wants("gpu", count=1), wants("nic", "nic"))
    assert [["d0", "nic"]] == names(search(pool, claim(*requests, constraints=(alike("numa", "gpu"),))))
    assert [["d1", "nic"]] == names(search(pool, claim(*requests, constraints=(alike("numa", "gpu", "nic"),))))


def test_a_constraint_can_name_one_alternative() -> None:
    pool = pool_of(device("a", "big"), device("b", "small", attributes={"numa": 0}))
    request = DeviceRequest("r", first_available=(alternative("x", "big"), alternative("y", "small")))
    assert [["a"]] == names(search(pool, claim(request, constraints=(alike("numa", "r/y"),))))
    assert [["b"]] == names(search(pool, claim(request, constraints=(alike("numa", "r"),))))


# Taints


@pytest.mark.parametrize(("effect", "free"), [("NoSchedule", False), ("NoExecute", False), ("None", True)])
def test_taints_keep_claims_off(effect: str, free: bool) -> None:
    pool = pool_of(device("a", taints=(Taint("xid", "79", effect),)))
    assert free is (search(pool, claim(wants())).outcome is Outcome.ALLOCATED)


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        (DeviceToleration("xid", "Equal", "79"), True),
        (DeviceToleration("xid", "Equal", "80"), False),
        (DeviceToleration("xid", "Exists"), True),
        (DeviceToleration("", "Exists"), True),
        (DeviceToleration("xid", "Exists", effect="NoExecute"), False),
    ],
)
def test_tolerations(toleration: DeviceToleration, tolerated: bool) -> None:
    found = search(pool_of(device("a", taints=(TAINT,))), claim(wants(tolerations=(toleration,))))
    assert tolerated is (found.outcome is Outcome.ALLOCATED)
    if tolerated:
        assert (toleration,) == found.allocations[0].results[0].tolerations


# Admin access


def test_admin_access_is_also_to_devices_in_use_but_once_in_a_claim() -> None:
    pool = gpus(2)
    ledger = held(pool, "gpu-0", "gpu-1")
    found = search(pool, claim(wants(count=2, admin=True)), ledger=ledger)
    assert [["gpu-0", "gpu-1"]] == names(found)
    assert all(one.admin for one in found.allocations[0].results)
    assert Outcome.NO_FIT is search(pool, claim(wants(count=3, admin=True)), ledger=ledger).outcome


# Partitions

CARD = {"memory": 80, "slices": 7}


def partitions() -> list[PoolSlice]:
    """A card, and its halves and quarters."""
    return pool_of(
        device("full", "full", partition={"memory": 80, "slices": 7}),
        *(device(f"half-{i}", "half", partition={"memory": 40, "slices": 3}) for i in range(2)),
        *(device(f"quarter-{i}", "quarter", partition={"memory": 20, "slices": 2}) for i in range(4)),
        card=CARD,
    )


def test_partitions_share_the_counters_of_their_card() -> None:
    pool = partitions()
    assert [["half-0", "half-1"]] == names(search(pool, claim(wants(of="half", count=2))))
    assert [["quarter-0", "quarter-1", "quarter-2"]] == names(search(pool, claim(wants(of="quarter", count=3))))
    assert Outcome.NO_FIT is search(pool, claim(wants(of="quarter", count=4))).outcome  # 8 of 7 slices
    assert Outcome.NO_FIT is search(pool, claim(wants("a", "full"), wants("b", "quarter"))).outcome


def test_partitions_in_use_consume_the_card() -> None:
    pool = partitions()
    assert Outcome.NO_FIT is search(pool, claim(wants(of="full")), ledger=held(pool, "quarter-3")).outcome
    assert [["half-0"]] == names(search(pool, claim(wants(of="half")), ledger=held(pool, "quarter-3")))
    assert [["full"]] == names(search(pool, claim(wants(of="full"))))


def test_counters_that_are_not_there_make_a_pool_invalid() -> None:
    pool = pool_of(device("a", partition={"tensor": 1}), card=CARD)
    found = search(pool, claim(wants()))
    assert Outcome.NO_FIT is found.outcome
    assert "pool `gpu.example.com/n1` is invalid: device `a`: no counter `tensor` in set `card`" == found.why
    two_sets = [*pool_of(device("a"), card=CARD)]
    twice = [PoolSlice(s.name, s.pool, 1, 3, s.place, s.devices, s.counters) for s in two_sets]
    third = PoolSlice("n1-c", twice[0].pool, 1, 3, DevicePlace("n1"), counters={"card": amounts(CARD)})
    assert "two sets of counters have the name `card`" in search([*twice, third], claim(wants())).why


# Consumable capacity


def shared(memory: int = 10, policy: RequestPolicy | None = None) -> Device:
    return device("a", shared=True, capacity={"memory": DeviceCapacity(memory * NANO, policy)})


def consumed(*found: Allocation) -> list[int]:
    return [one.consumed["memory"] // NANO for allocation in found for one in allocation.results]


def test_shares_of_a_device_add_up_to_its_capacity() -> None:
    pool = pool_of(shared())
    claims = [claim(wants(memory=6), name="a"), claim(wants(memory=4), name="b")]
    found = search(pool, *claims)
    assert [["a"], ["a"]] == names(found)
    assert [6, 4] == consumed(*found.allocations)
    assert all(one.share for allocation in found.allocations for one in allocation.results)
    assert Outcome.NO_FIT is search(pool, claim(wants(memory=6)), ledger=held(pool, "a", memory=5)).outcome
    assert [["a"]] == names(search(pool, claim(wants(memory=5)), ledger=held(pool, "a", memory=5)))


def test_one_request_has_a_device_once() -> None:
    assert Outcome.NO_FIT is search(pool_of(shared()), claim(wants(memory=1, count=2))).outcome


def test_a_request_for_another_capacity_does_not_fit() -> None:
    asked = claim(wants(capacity=amounts({"bandwidth": 1})))
    assert Outcome.NO_FIT is search(pool_of(shared()), asked).outcome


STEPS = RequestPolicy(default=2 * NANO, range=Range(2 * NANO, 8 * NANO, 2 * NANO))
VALUES = RequestPolicy(default=1 * NANO, values=(1 * NANO, 4 * NANO))


@pytest.mark.parametrize(
    ("policy", "asked", "expected"),
    [
        (None, None, 10),
        (None, 3, 3),
        (STEPS, None, 2),
        (STEPS, 1, 2),
        (STEPS, 3, 4),
        (STEPS, 8, 8),
        (STEPS, 9, None),
        (VALUES, None, 1),
        (VALUES, 2, 4),
        (VALUES, 5, None),
        (RequestPolicy(default=1 * NANO, range=Range(2 * NANO)), 1, 1),
        (RequestPolicy(default=3 * NANO, range=Range(2 * NANO)), 1, 2),
    ],
)
def test_the_policy_of_a_capacity(policy: RequestPolicy | None, asked: int | None, expected: int | None) -> None:
    found = search(pool_of(shared(policy=policy)), claim(wants(memory=asked)))
    assert ([] if expected is None else [expected]) == consumed(*found.allocations)


@pytest.mark.parametrize(("asked", "why"), [(-1, "the amount is negative"), (2**64, "larger than 2^63-1")])
def test_amounts_that_kubernetes_refuses(asked: int, why: str) -> None:
    found = search(pool_of(shared(policy=STEPS)), claim(wants(memory=asked)))
    if asked < 0:
        found = search(pool_of(shared()), claim(wants(memory=asked)))
    assert Outcome.REFUSED is found.outcome
    assert why in found.why


def test_fractions_of_units_round_to_steps_only_if_the_cluster_can() -> None:
    tenth = NANO // 10
    policy = RequestPolicy(default=2 * tenth, range=Range(2 * tenth, NANO, tenth))
    pool = pool_of(device("a", shared=True, capacity={"cpu": DeviceCapacity(NANO, policy)}))
    asked = claim(wants(capacity={"cpu": 25 * NANO // 100}))
    for fractions, expected in ((True, 3 * tenth), (False, NANO)):
        found = search(pool, asked, features=Features(fractional_range=fractions))
        assert {"cpu": expected} == found.allocations[0].results[0].consumed


def test_a_shared_partition_consumes_its_card_once() -> None:
    half = device("half", "half", shared=True, memory=10, partition={"memory": 40})
    other = device("other", "other", partition={"memory": 40})
    pool = pool_of(half, other, card={"memory": 80})
    claims = [claim(wants(of="half", memory=3), name="a"), claim(wants(of="half", memory=3), name="b")]
    assert [["half"], ["half"], ["other"]] == names(search(pool, *claims, claim(wants(of="other"), name="c")))


# Pools, places


def test_the_newest_generation_counts() -> None:
    old = pool_of(device("old"))
    new = [PoolSlice("x", old[0].pool, 2, 1, old[0].place, (device("new"),))]
    assert [["new"]] == names(search([*new, *old], claim(wants())))


def test_an_incomplete_generation_that_is_replaced_elsewhere_is_ignored() -> None:
    here = [PoolSlice(s.name, s.pool, 1, 2, s.place, s.devices) for s in pool_of(device("old"))]
    there = [PoolSlice("x", here[0].pool, 2, 1, DevicePlace("n2"), (device("new"),))]
    found = search([*here, *there], claim(wants(mode=ALL)))
    assert (Outcome.NO_FIT, "") == (found.outcome, found.why)


def test_two_devices_of_one_name_make_a_pool_invalid() -> None:
    found = search(pool_of(device("a"), device("a")), claim(wants()))
    assert "pool `gpu.example.com/n1` is invalid: two devices have the name `a`" == found.why


def test_devices_of_other_nodes_are_not_used() -> None:
    pool = [*pool_of(device("a", pool="n2"), node="n2"), *pool_of(device("b"))]
    assert [["b"]] == names(search(pool, claim(wants())))


def zone(name: str) -> DevicePlace:
    return DevicePlace(terms=(NodeTerm((Requirement("zone", "In", (name,)),)),))


@pytest.mark.parametrize(
    ("place", "nodes"),
    [
        (DevicePlace("n1"), HERE),
        (DevicePlace(all_nodes=True), None),
        (zone("z1"), zone("z1").terms),
        (DevicePlace(), "nowhere"),
        (zone("z2"), "nowhere"),
        (DevicePlace(terms=(NodeTerm(),)), "nowhere"),
    ],
)
def test_where_an_allocation_can_be_used(place: DevicePlace, nodes: tuple[NodeTerm, ...] | str | None) -> None:
    of_slice = search(pool_of(device("a"), place=place), claim(wants()))
    of_device = search(pool_of(device("a", place=place), place=None), claim(wants()))
    for found in (of_slice, of_device):
        assert (nodes == "nowhere") is (found.outcome is Outcome.NO_FIT)
        if nodes != "nowhere":
            assert nodes == found.allocations[0].nodes


def test_a_device_that_binds_to_its_node_pins_the_claim() -> None:
    found = search(pool_of(device("a", binds_to_node=True), place=DevicePlace(all_nodes=True)), claim(wants()))
    assert HERE == found.allocations[0].nodes


def test_requirements_of_several_devices_are_merged() -> None:
    rack = DevicePlace(terms=(NodeTerm((Requirement("rack", "In", ("1", "2")), Requirement("zone", "In", ("z1",)))),))
    pool = [*pool_of(device("a", pool="a"), place=zone("z1")), *pool_of(device("b", pool="b"), place=rack)]
    found = search(pool, claim(wants(count=2)), node=NodeNames("n1", {"zone": "z1", "rack": "1"}))
    expected = (Requirement("zone", "In", ("z1",)), Requirement("rack", "In", ("1", "2")))
    assert (NodeTerm(expected),) == found.allocations[0].nodes


def test_devices_with_binding_conditions_come_last() -> None:
    pool = [
        *pool_of(device("a", pool="a", binding_conditions=("ready",), binding_failure_conditions=("failed",))),
        *pool_of(device("b", pool="b")),
    ]
    found = search(pool, claim(wants(count=2)))
    assert [["b", "a"]] == names(found)
    assert (("ready",), ("failed",)) == (
        found.allocations[0].results[1].binding_conditions,
        found.allocations[0].results[1].binding_failure_conditions,
    )


# Configuration


def test_configuration_of_classes_and_of_the_claim_for_what_was_chosen() -> None:
    pool = pool_of(device("a"), device("b", "nic"))
    inventory = Inventory(pool)
    mode, mtu, other = (Parameters("gpu.example.com", text) for text in (b'"mig"', b'"9000"', b'"x"'))
    request = DeviceRequest("r", first_available=(alternative("gpu"), alternative("nic", "nic")))
    asked = claim(
        request,
        wants("s", "nic"),
        config=(
            DeviceConfig(mtu, ("s",)),
            DeviceConfig(other, ("r/nic",)),
            DeviceConfig(other, ("r", "s")),
            DeviceConfig(mode),
        ),
    )
    known = problem(inventory, [asked])
    classes = {**known.classes, "gpu": DeviceClass("gpu", config=(DeviceConfig(mode),))}
    found = allocate(
        Problem(known.claims, classes, known.selected),
        NODE,
        inventory.on(NODE),
        DeviceLedger(inventory.devices),
        limit=100,
    )
    assert (
        AllocatedConfig(mode, of_class=True, requests=("r/gpu",)),
        AllocatedConfig(mtu, of_class=False, requests=("s",)),
        AllocatedConfig(other, of_class=False),
        AllocatedConfig(mode, of_class=False),
    ) == found.allocations[0].config


# What cannot be understood, what is too much


@pytest.mark.parametrize(
    ("asked", "features", "why"),
    [
        (claim(wants(of="tpu")), Features(), "claim `ns/c`: request `r`: no device class `tpu`"),
        (claim(DeviceRequest("r")), Features(), "claim `ns/c`: request `r`: of a kind that is not supported"),
        (claim(wants(mode=AllocationMode.UNKNOWN)), Features(), "its allocation mode is not supported"),
        (claim(wants(), constraints=(DeviceConstraint(),)), Features(), "constraints[0]: of a kind that is not"),
        (claim(wants(admin=True)), Features(admin_access=False), "asks for admin access, which the cluster"),
        (claim(wants(memory=1)), Features(consumable_capacity=False), "asks for capacity of devices, which"),
        (
            claim(DeviceRequest("r", first_available=(alternative("a"),))),
            Features(prioritized_list=False),
            "has alternatives, which the cluster does not support",
        ),
    ],
)
def test_claims_are_refused_with_a_reason(asked: ResourceClaim, features: Features, why: str) -> None:
    found = search(gpus(1), asked, features=features)
    assert Outcome.REFUSED is found.outcome
    assert why in found.why


def test_an_expression_without_a_value_ends_the_search_that_meets_it() -> None:
    pool = gpus(3)
    inventory = Inventory(pool)
    known = problem(inventory, [claim(wants(count=2))])
    ids = sorted(inventory.devices)
    for bad, outcome in ((ids[0], Outcome.REFUSED), (ids[2], Outcome.ALLOCATED)):
        said = Selected(frozenset(ids) - {bad}, {bad: "selectors[0]: no such key: `model`"})
        asked = Problem(known.claims, known.classes, {Selectors("gpu"): said})
        found = allocate(asked, NODE, inventory.on(NODE), DeviceLedger(inventory.devices), limit=100)
        assert outcome is found.outcome
        if outcome is Outcome.REFUSED:
            assert "claim `ns/c`: selectors[0]: no such key: `model`" == found.why


def test_a_search_is_bounded_and_says_so() -> None:
    """12 requests of 2 that must be alike, of 23 devices in pairs: each wrong pair is found late."""
    pool = pool_of(*(device(f"d{i:02}", attributes={"pair": i // 2}) for i in range(23)))
    requests = [wants(f"r{i}", count=2) for i in range(12)]
    constraints = tuple(alike("pair", one.name) for one in requests)
    asked = claim(*requests, constraints=constraints)
    found = search(pool, asked, limit=2000)
    assert (Outcome.CANCELLED, 2000, "gave up after 2000 steps") == (found.outcome, found.steps, found.why)
    assert Outcome.ALLOCATED is search(pool, claim(*requests[:11], constraints=constraints[:11]), limit=2000).outcome


def test_a_search_is_bounded_also_in_the_devices_that_it_tries() -> None:
    """No device after the first goes with it: each step tries all of them."""
    pool = pool_of(*(device(f"d{i:03}", attributes={"x": i}) for i in range(128)))
    asked = claim(wants(count=2), constraints=(alike("x"),))
    found = search(pool, asked, limit=200)
    assert Outcome.CANCELLED is found.outcome
    assert found.steps < 200
    assert Outcome.NO_FIT is search(pool, asked, limit=1000).outcome


def test_too_many_devices_are_not_tried_in_all_combinations() -> None:
    """20 devices leave no room for either alternative of the second request, whichever 20 these are."""
    first = DeviceRequest("a", first_available=(alternative("many", count=20), alternative("one")))
    second = DeviceRequest("b", first_available=(alternative("x", count=13), alternative("y", count=14)))
    found = search(gpus(40), claim(first, second), limit=100)
    assert ["a/one", *["b/x"] * 13] == [one.request for one in found.allocations[0].results]
