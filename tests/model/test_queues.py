"""The tree of queues: it always has a root, and an invalid queue has a reason."""

from __future__ import annotations

from maar.model.queues import Queue, QueueTree


def paths(tree: QueueTree) -> dict[str, list[str]]:
    names = [q.name for q in tree.queues]
    return {names[i]: [names[q] for q in path] for i, path in enumerate(tree.path)}


def broken(tree: QueueTree) -> dict[str, str]:
    return {q.name: why for q, why in zip(tree.queues, tree.broken, strict=True) if why}


def test_root_and_default_are_always_there() -> None:
    tree = QueueTree([])
    assert {"default": ["default", "root"], "root": ["root"]} == paths(tree)
    assert not tree.queues[tree.root].reclaimable
    assert {} == broken(tree)


def test_they_may_be_given() -> None:
    tree = QueueTree([Queue("default", weight=7), Queue("root", weight=3, parent="nowhere")])
    assert {"default": 7, "root": 3} == {q.name: q.weight for q in tree.queues}
    assert {} == broken(tree)


def test_paths_go_up_to_the_root() -> None:
    tree = QueueTree([Queue("leaf", parent="middle"), Queue("middle", parent="top"), Queue("top", parent="root")])
    assert ["leaf", "middle", "top", "root"] == paths(tree)["leaf"]
    number = tree.number
    assert [number["middle"]] == tree.children[number["top"]]
    assert [number["default"], number["top"]] == sorted(tree.children[tree.root])
    assert tree.is_leaf(number["leaf"])
    assert not tree.is_leaf(number["middle"])


def test_a_missing_parent_breaks_its_own_branch_only() -> None:
    tree = QueueTree([Queue("lost", parent="gone"), Queue("below", parent="lost"), Queue("fine")])
    why = "parent queue `gone` does not exist"
    assert {"lost": why, "below": why} == broken(tree)
    assert ["below", "root"] == paths(tree)["below"]
    assert ["fine", "root"] == paths(tree)["fine"]


def test_a_cycle_of_parents() -> None:
    tree = QueueTree([Queue("a", parent="b"), Queue("b", parent="a"), Queue("under", parent="a")])
    assert {
        "a": "its parents form a cycle: a -> b -> a",
        "b": "its parents form a cycle: b -> a -> b",
        "under": "its parents form a cycle: a -> b -> a",
    } == broken(tree)
    assert {"a": ["a", "root"], "b": ["b", "root"], "under": ["under", "root"]}.items() <= paths(tree).items()


def test_its_own_parent() -> None:
    assert {"me": "its parents form a cycle: me -> me"} == broken(QueueTree([Queue("me", parent="me")]))


def test_what_was_broken_before_stays_so() -> None:
    assert {"q": "weight is negative"} == broken(QueueTree([Queue("q", parent="gone", broken="weight is negative")]))


def test_the_order_does_not_matter() -> None:
    queues = [Queue("b", parent="a"), Queue("c", parent="b"), Queue("a")]
    assert paths(QueueTree(queues)) == paths(QueueTree(queues[::-1]))
