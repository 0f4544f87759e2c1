"""The minimum of a gang: what it lacks, may lose, and which tasks fill the gap."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.strategies import clusters
from tests.support.subgroups import divided

from maar.model.minimum import Gap, Have, Lack, Minimum, choose, has_minimum, lack_of, needed, spread, with_minimum
from maar.model.snapshot import Cluster, Snapshot
from maar.model.tasks import READY, Status
from maar.testing.builders import Gang, gang

ROLES = Minimum(4, {"ps": 1, "w": 2})


def there(made: Gang, *numbers: int) -> bool:
    return has_minimum(made.job, [made.tasks[i] for i in numbers])


@pytest.mark.parametrize(
    ("have", "lack"),
    [
        (Have(0, {"ps": 0, "w": 0}), Lack(4, 4, {"ps": 1, "w": 2})),
        (Have(4, {"ps": 0, "w": 4}), Lack(1, 0, {"ps": 1})),
        (Have(3, {"ps": 1, "w": 2}), Lack(1, 1, {})),
        (Have(4, {"ps": 1, "w": 3}), Lack(0, 0, {})),
    ],
)
def test_what_a_gang_with_roles_lacks(have: Have[str], lack: Lack[str]) -> None:
    assert lack == ROLES.lack(have)


def test_role_minimums_above_the_minimum_of_the_gang_do_not_count() -> None:
    made = gang("a", roles={"ps": 1, "w": 2}, minimum=2, role_min={"ps": 1, "w": 2})
    assert there(made, 1, 2)
    strict = replace(made, job=replace(made.job, min_member=3))
    assert (False, True) == (there(strict, 1, 2), there(strict, 0, 1, 2))
    assert [0, 0] == [role.minimum for role in Snapshot(Cluster(jobs=(made.job,), tasks=made.tasks)).jobs.roles[0]]


def test_a_gang_needs_whole_subgroups() -> None:
    made = divided("a", [2, 2, 2], size=2, least=2, minimum=3)
    assert (True, False) == (there(made, 0, 1, 2, 3), there(made, 0, 1, 2, 4)), "two pods of one, one of two others"
    assert Lack(1, 0, {}, [1]) == lack_of(made.job, [made.tasks[i] for i in (0, 1, 2)])
    assert Lack(2, 1, {}, [1]) == lack_of(made.job, made.tasks[:2]), "another subgroup is more than one more pod"
    assert Lack(4, 3, {}, [2]) == lack_of(made.job, [])


def test_a_gang_without_a_minimum_has_it_with_one_pod() -> None:
    made = gang("a", 2, minimum=0)
    assert (False, True) == (there(made), there(made, 0))


def test_what_a_gang_may_lose() -> None:
    spare = ROLES.spare(Have(6, {"ps": 1, "w": 4}))
    assert not spare.covers({"ps": 1})
    assert not spare.covers({"w": 1, "other": 2}), "the gang keeps 4"
    assert (True, True, False) == (spare.take({"other": 1}), spare.take({"w": 1}), spare.take({"w": 1}))


@pytest.mark.parametrize(
    ("gap", "counts"),
    [
        (Gap(4, {"ps": 1, "w": 2}), [1, 1, 2]),
        (Gap(1, {"w": 2}), [0, 0, 2]),
        (Gap(6, {"w": 1}), [3, 1, 2]),
        (Gap(9, {"w": 9}), [3, 1, 2]),
    ],
)
def test_role_minimums_are_filled_first_and_then_any_group_in_order(gap: Gap[str], counts: list[int]) -> None:
    assert counts == spread(gap, ["x", "ps", "w"], [3, 1, 2])


def test_nothing_more_is_asked_for_if_a_role_gives_too_few() -> None:
    asked: list[tuple[int, int]] = []

    def take(group: int, count: int) -> int:
        asked.append((group, count))
        return count - (group == 1)

    gap = Gap(4, {"w": 2})
    spread(gap, ["x", "w"], [3, 2], take)
    assert ([(1, 2)], False) == (asked, gap.is_filled)


def test_a_gang_cannot_start_without_what_the_other_groups_cannot_give() -> None:
    assert [1, 1] == needed(Lack(5, 5, {}), ["w", "w"], [4, 4])
    assert [0, 2] == needed(Lack(2, 0, {"w": 2}), ["x", "w"], [4, 4])
    assert [1, 1] == needed(Lack(3, 3, {"w": 3}), ["w", "w"], [2, 2]), "each shape may have two of the three"


def test_the_waiting_tasks_that_complete_a_gang() -> None:
    made = gang("a", roles={"w": 3, "ps": 1}, minimum=2, role_min={"ps": 1})
    assert ["ns/a-w-0", "ns/a-ps-0"] == sorted((t.key for t in choose(made.job, (), made.tasks)), reverse=True)
    assert ["ns/a-ps-0"] == [t.key for t in choose(made.job, made.tasks[:2], made.tasks[2:])]
    parts = divided("b", [2, 2], size=2, least=1)
    assert ["ns/b-3"] == [t.key for t in choose(parts.job, parts.tasks[2:3], [*parts.tasks[:2], parts.tasks[3]])]
    assert [] == choose(made.job, made.tasks, ())


@given(clusters(), st.booleans())
def test_the_table_and_the_tasks_agree(scene: Cluster, nominated: bool) -> None:
    snapshot = Snapshot(scene)
    statuses = (*READY, Status.NOMINATED) if nominated else READY
    found = with_minimum(snapshot, nominated=nominated).tolist()

    for job in snapshot.jobs.jobs:
        members = snapshot.tasks_of(job.index)
        assert has_minimum(job, [task for task in members if task.status in statuses]) == found[job.index], job
