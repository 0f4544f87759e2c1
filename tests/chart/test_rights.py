"""The rights in the chart are exactly what the table of kinds needs, for every switch."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pytest
from tests.support.charts import Object, by_name, rendered

from maar.controller.main import lease_of_shard
from maar.kube.kinds import (
    FAMILIES,
    rights,
    rights_at_home,
    rights_of_shadow,
    rights_to_read,
    rights_to_read_at_home,
)
from maar.kube.kinds.kind import Right
from maar.shards.slots import MOST_SHARDS

pytestmark = pytest.mark.real

Rights = dict[tuple[str, str], set[str]]


def needed(table: Iterable[Right]) -> Rights:
    found: Rights = {}
    for right in table:
        found.setdefault((right.group, right.resource), set()).update(right.verbs)
    return found


def given(role: Object) -> Rights:
    found: Rights = {}
    for rule in role["rules"]:
        for place in itertools.product(rule["apiGroups"], rule["resources"]):
            found.setdefault(place, set()).update(rule["verbs"])
    return found


def named(role: Object) -> set[tuple[str, str]]:
    """The names and verbs of rules about ConfigMaps."""
    rules = [rule for rule in role["rules"] if rule["resources"] == ["configmaps"]]
    return {(name, verb) for rule in rules for name in rule.get("resourceNames", [""]) for verb in rule["verbs"]}


@pytest.mark.parametrize("family", ["", *FAMILIES])
def test_each_family_is_exactly_its_rights(family: str) -> None:
    objects = by_name(rendered({f"kinds.{family}": False} if family else {}))
    without = frozenset({family} - {""})
    assert needed(rights(without)) == given(objects["ClusterRole", "maar"])
    assert needed(rights_to_read(without)) == given(objects["ClusterRole", "maar-web"])
    assert not family or needed(rights(without)) != needed(rights()), "the family has rights of its own"


def test_the_values_name_every_family() -> None:
    objects = by_name(rendered({f"kinds.{family}": False for family in FAMILIES}))
    assert needed(rights(frozenset(FAMILIES))) == given(objects["ClusterRole", "maar"])
    arguments = objects["Deployment", "maar"]["spec"]["template"]["spec"]["containers"][0]["args"]
    left_out = {argument.removeprefix("--without=") for argument in arguments if argument.startswith("--without=")}
    assert set(FAMILIES) - {"metrics"} == left_out, "nothing watches metrics"


def test_a_shadow_may_only_read() -> None:
    objects = by_name(rendered({"shadow": True, "evictions.deleteVictims": True}))
    assert needed(rights_of_shadow()) == given(objects["ClusterRole", "maar"])
    home = objects["Role", "maar"]
    assert {(name, verb) for name, right in rights_to_read_at_home() for verb in right.verbs} == named(home)
    verbs = {
        verb
        for (kind, name), role in objects.items()
        if kind in ("ClusterRole", "Role") and name == "maar"
        for rule in role["rules"]
        for verb in rule["verbs"]
    }
    assert {"get", "list", "watch"} == verbs
    (container,) = objects["Deployment", "maar"]["spec"]["template"]["spec"]["containers"]
    assert "--dry-run" in container["args"]
    assert {"--leader-elect", "--delete-victims"}.isdisjoint(container["args"])
    assert 1 == objects["Deployment", "maar"]["spec"]["replicas"]


@pytest.mark.parametrize(
    ("values", "argument", "right"),
    [
        ({}, False, False),
        ({"evictions.allowDelete": True}, False, True),
        ({"evictions.deleteVictims": True}, True, True),
    ],
)
def test_evictions_by_delete_need_a_switch(values: dict[str, bool], argument: bool, right: bool) -> None:
    objects = by_name(rendered(values))
    (container,) = objects["Deployment", "maar"]["spec"]["template"]["spec"]["containers"]
    found = given(objects["ClusterRole", "maar"])["", "pods"]
    assert (argument, right) == ("--delete-victims" in container["args"], "delete" in found)


def test_leases_and_state_of_several_scheduler_names() -> None:
    names = ["maar", "volcano"]
    home = by_name(rendered({"schedulerNames": names}))["Role", "maar"]
    wanted = {lease_of_shard(name, shard) for name in names for shard in range(MOST_SHARDS)}
    (leases,) = (r["resourceNames"] for r in home["rules"] if r["resources"] == ["leases"] and "resourceNames" in r)
    assert sorted(wanted) == sorted(leases)
    state = {(name, verb) for name, right in rights_at_home() for verb in right.verbs}
    assert {("" if verb == "create" else name, verb) for name, verb in state} == named(home)
    assert "kube-system" == home["metadata"]["namespace"]
    without = by_name(rendered({"kinds.shards": False}))["Role", "maar"]
    (leases,) = (r["resourceNames"] for r in without["rules"] if r["resources"] == ["leases"] and "resourceNames" in r)
    assert ["maar"] == leases
