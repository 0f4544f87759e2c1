"""`maar plan` about shards: what one of them does, wants and lends, and recordings of shards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.shards.test_step import NODES, OWNERS, QUEUES

from maar.cli.main import main
from maar.config.file import default_config, default_text
from maar.controller.record import Frame, Recorder
from maar.decide import decide
from maar.model.outcome import carry_out
from maar.model.snapshot import Snapshot
from maar.registry import catalog
from maar.shards.public_view import after, standing_of
from maar.shards.shard import decide_as
from maar.shards.sharing import Sharing
from maar.testing.builders import cluster, gang

CONFIG = default_config(catalog())
NOW, CREATED = "2026-11-01T10:00:00Z", "2026-11-01T09:00:00Z"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["plan", *arguments], catch_exceptions=False)


def shard_map(**spec: Any) -> dict[str, Any]:
    """Shard 0 has queue `red` and nodes `a1`, `a2`; shard 1 has `blue` and `b1`, `b2`."""
    slots = {"shards": 2, "slots": list(OWNERS.slots), "epochs": {"0": 3, "1": 1}, "holders": {"0": "x", "1": "y"}}
    return {"apiVersion": "maar.dev/v1alpha1", "kind": "ShardMap", "metadata": {"name": "maar"}, "spec": slots | spec}


def want(job: str, nodes: list[str]) -> dict[str, Any]:
    times = {"created": CREATED, "deadline": "2026-11-01T10:00:20Z"}
    spec = {"wants": [{"job": f"default/{job}", "uid": f"uid-{job}", "nodes": nodes, **times}]}
    return {"apiVersion": "maar.dev/v1alpha1", "kind": "Shard", "metadata": {"name": "shard-1"}, "spec": spec}


def objects(*, queue: str, pods: int, more: tuple[dict[str, Any], ...] = ()) -> list[dict[str, Any]]:
    """Four nodes with 4 GPUs, and a gang whose pods need a whole node each."""
    nodes = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name},
            "status": {"allocatable": {"cpu": "16", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": "4"}},
        }
        for name in ("a1", "a2", "b1", "b2")
    ]
    volcano = {"apiVersion": "scheduling.volcano.sh/v1beta1"}
    queues = [{**volcano, "kind": "Queue", "metadata": {"name": name}, "spec": {}} for name in ("red", "blue")]
    group = {
        **volcano,
        "kind": "PodGroup",
        "metadata": {"name": "train", "namespace": "default", "uid": "uid-train", "creationTimestamp": CREATED},
        "spec": {"minMember": pods, "queue": queue},
    }
    members = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"train-{i}",
                "creationTimestamp": CREATED,
                "annotations": {"scheduling.k8s.io/group-name": "train"},
            },
            "spec": {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "4"}}}]},
        }
        for i in range(pods)
    ]
    return [*nodes, *queues, group, *members, *more]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "objects.json"


def written(file: Path, items: list[dict[str, Any]]) -> str:
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return str(file)


def planned(*arguments: str) -> dict[str, Any]:
    result = run(*arguments, "-o", "json", "--now", NOW)
    assert 0 == result.exit_code, result.output
    (cycle,) = json.loads(result.stdout)["cycles"]
    assert isinstance(cycle, dict)
    return cycle


def test_a_gang_that_fits_on_its_shard_starts_there_and_the_other_shard_does_nothing(file: Path) -> None:
    path = written(file, objects(queue="red", pods=2, more=(shard_map(),)))
    own, other, one = (planned(path, *arguments) for arguments in (("--shard", "0"), ("--shard", "1"), ()))
    assert {"a1", "a2"} == set(own["bind"].values())
    assert ([], {}) == (own["wants"], own["lends"])
    assert ({}, []) == (other["bind"], other["waiting"])
    assert 2 == len(one["bind"]), "without --shard it is the plan of one Maar"
    assert "wants" not in one


def test_a_gang_that_needs_more_nodes_wants_them_and_says_so(file: Path) -> None:
    path = written(file, objects(queue="red", pods=3, more=(shard_map(),)))
    own = planned(path, "--shard", "0")
    (asked,) = own["wants"]
    assert {} == own["bind"]
    assert ("default/train", 3, False) == (asked["job"], len(asked["nodes"]), asked["asks"])
    (waits,) = own["waiting"]
    message = "its pods fit, and 1 of their nodes are being borrowed from other shards"
    assert ("Borrowing", message) == (waits["reasons"][0]["code"], waits["reasons"][0]["message"])
    text = run(path, "--shard", "0", "--now", NOW).stdout
    assert "shard 0: owns 2 of 4 nodes, decides for queues: default, red" in text
    assert "wants, until it is bound" in text
    assert message in text
    assert "nothing to do now" not in text


def test_a_shard_lends_the_nodes_that_another_one_wants(file: Path) -> None:
    path = written(file, objects(queue="blue", pods=3, more=(shard_map(), want("train", ["a2", "b1", "b2"]))))
    lender = planned(path, "--shard", "0")
    assert {"a2": 1} == lender["lends"]
    text = run(path, "--shard", "0", "--now", NOW, "--cycles", "2").stdout
    first, second = text.split("cycle 2 of 2")
    assert "to shard 1" in first
    assert "to shard 1" not in second, "it was done between the cycles"
    borrowed = shard_map(nodes={"a2": 1})
    path = written(file, objects(queue="blue", pods=3, more=(borrowed, want("train", ["a2", "b1", "b2"]))))
    assert {"a2", "b1", "b2"} == set(planned(path, "--shard", "1")["bind"].values())


def test_room_that_is_promised_to_another_shard_is_kept_in_later_cycles(file: Path) -> None:
    theirs = objects(queue="blue", pods=1)[-2:]
    for item in theirs:
        item["metadata"] |= {"name": "theirs", "uid": "uid-theirs"}
    theirs[0]["status"] = {"phase": "Inqueue"}
    theirs[1]["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "theirs"}
    theirs[1]["status"] = {"nominatedNodeName": "a2"}
    path = written(file, objects(queue="red", pods=2, more=(shard_map(), *theirs)))
    result = run(path, "--shard", "0", "--cycles", "2", "-o", "json", "--now", NOW)
    wants = [cycle["wants"][0]["nodes"] for cycle in json.loads(result.stdout)["cycles"]]
    assert [["a1", "b1"]] * 2 == wants


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ((), "--shard: the input has no ShardMap"),
        ((shard_map(),), "--shard: the ShardMap has no shard 5; it has 0, 1"),
        ((shard_map(slots=[0, 1]),), "ShardMap `maar`: spec.slots"),
    ],
)
def test_what_cannot_be_decided_as_a_shard_is_refused(file: Path, more: tuple[Any, ...], problem: str) -> None:
    result = run(written(file, objects(queue="red", pods=2, more=more)), "--shard", "5")
    assert 2 == result.exit_code
    assert problem in result.stderr
    assert "" == result.stdout


def test_a_recording_of_a_shard_is_decided_again_as_that_shard(tmp_path: Path) -> None:
    """A gang that would start at once for one Maar borrows a node first, and then starts."""
    path = tmp_path / "shard.rec"
    recorder, sharing = Recorder(path), Sharing(OWNERS)
    now = cluster(*NODES, *QUEUES, gang("g", 3, gpu=4, queue="red"))
    bound = []
    for i in range(3):
        snapshot = Snapshot(now)
        standing = standing_of(sharing, 0, snapshot)
        taken = decide_as(standing, snapshot, CONFIG, 100.0 + i)
        recorder.write(Frame(100.0 + i, taken.plan, cluster=now, config=default_text(), standing=standing))
        bound.append(len(taken.plan.bind))
        sharing = after(sharing, 0, taken)
        for node in {node for want in taken.wants for node in want.nodes} if i else ():
            sharing = Sharing(sharing.owners.lent(node, 0), sharing.wants)
        now = carry_out(now, taken.plan, 100.0 + i)
    recorder.close()
    assert [0, 0, 3] == bound
    result = run(str(path), "-o", "json")
    assert 0 == result.exit_code, result.output
    cycles = json.loads(result.stdout)["cycles"]
    assert bound == [len(cycle["bind"]) for cycle in cycles]
    assert [["ns/g"]] * 3 == [[want["job"] for want in cycle["wants"]] for cycle in cycles]
    refused = run(str(path), "--shard", "0")
    assert (2, True) == (refused.exit_code, "a recording is decided as the shard that made it" in refused.stderr)


def test_a_recording_of_one_maar_says_nothing_about_shards(tmp_path: Path) -> None:
    path = tmp_path / "one.rec"
    scene = cluster(*NODES, *QUEUES, gang("g", 3, gpu=4, queue="red"))
    recorder = Recorder(path)
    recorder.write(Frame(100.0, decide(Snapshot(scene), CONFIG, 100.0), cluster=scene, config=default_text()))
    recorder.close()
    (cycle,) = json.loads(run(str(path), "-o", "json").stdout)["cycles"]
    assert 3 == len(cycle["bind"])
    assert {"wants", "lends"}.isdisjoint(cycle)
