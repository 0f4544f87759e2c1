"""Edits: each changes what it names and nothing else, says so in words, and refuses bad fields by name."""

from __future__ import annotations

import msgspec
import pytest

from maar.config.file import default_config
from maar.model.elastic import Elastic
from maar.model.jobs import Job
from maar.model.nodes import Node
from maar.model.plan import Elect, Lock
from maar.model.queues import Queue
from maar.model.selectors import Taint
from maar.model.snapshot import Cluster, Quota
from maar.model.tasks import Status, Task
from maar.registry import catalog
from maar.testing.builders import GPU, cluster, elastic, gang, node, shape
from maar.web.api.question import WebEdit
from maar.whatif.config_edits import SetAlgorithm, UseConfig
from maar.whatif.edit import Edit, EditError, Scene
from maar.whatif.edits import applied, in_words
from maar.whatif.job_edits import AddJobs, EndJobs, SetMinimum, SetPriority, SetQueue, SetRequest
from maar.whatif.node_edits import AddNodes, AddNodesLike, Cordon, EndReservation, RemoveNodes, Uncordon
from maar.whatif.queue_edits import AddQueues, OpenQueue, SetAmounts, SetQuota, SetWeight

CONFIG = default_config(catalog())
SCENE = Scene(
    cluster(
        node("n1", gpu=8),
        node("n2", gpu=8, unschedulable=True, taints=[Taint("node.kubernetes.io/unschedulable", effect="NoSchedule")]),
        Queue("a", weight=2, capability={GPU: 8, "cpu": 4000}, open=False),
        gang("low", 2, gpu=2, on=["n1"], min_resources={GPU: 3}),
        elastic("train", 2, 4, on=["n1", "n1"], reserved=(("n1", 1),), beside=(shape(cpu=2),)),
        Elect("ns/low", 1.0),
        Lock("n1", "ns/low", 1.0),
        Quota("ns/team", {"pods": 4, "requests.cpu": 1000}),
    ),
    CONFIG,
)


def after(*edits: Edit) -> Cluster:
    """The cluster after edits; the scene itself is the same as before."""
    before = msgspec.msgpack.encode(SCENE.cluster)
    made = applied(SCENE, edits).cluster
    assert before == msgspec.msgpack.encode(SCENE.cluster)
    return made


def job(of: Cluster, key: str) -> Job:
    return next(job for job in of.jobs if job.key == key)


def queue(of: Cluster, name: str) -> Queue:
    return next(queue for queue in of.queues if queue.name == name)


def tasks(of: Cluster, key: str) -> list[Task]:
    return [task for task in of.tasks if task.job == key]


def bounds(of: Cluster, key: str) -> Elastic:
    found = job(of, key).elastic
    assert found is not None
    return found


def test_jobs_are_added_with_their_pods() -> None:
    new = gang("new", 2)
    made = after(AddJobs((new.job,), new.tasks))
    assert (3, 2) == (len(made.jobs), len(tasks(made, "ns/new")))


def test_a_job_ends_with_its_pods() -> None:
    made = after(EndJobs(("ns/low",)))
    assert ["ns/train"] == [job.key for job in made.jobs]
    assert {"ns/train"} == {task.job for task in made.tasks}


def test_a_priority_is_that_of_the_pods_too() -> None:
    made = after(SetPriority("ns/low", 7))
    assert [7, 7, 7] == [job(made, "ns/low").priority, *(task.priority for task in tasks(made, "ns/low"))]
    assert 0 == job(made, "ns/train").priority


def test_a_minimum_takes_what_the_group_declares_along() -> None:
    made = job(after(SetMinimum("ns/low", 1)), "ns/low")
    assert (1, {GPU: 2}) == (made.min_member, made.min_resources)


def test_the_minimum_of_an_elastic_job_has_its_other_pods() -> None:
    made = after(SetMinimum("ns/train", 4))
    assert (4, 3) == (job(made, "ns/train").min_member, bounds(made, "ns/train").min)


def test_a_job_moves() -> None:
    assert "a" == job(after(SetQueue("ns/low", "a")), "ns/low").queue


def test_only_pods_without_a_node_request_less() -> None:
    made = after(SetRequest("ns/low", GPU, 1))
    assert {Status.BOUND: 2, Status.PENDING: 1} == {
        task.status: dict(task.shape.requests)[GPU] for task in tasks(made, "ns/low")
    }
    assert 0 == dict(bounds(after(SetRequest("ns/train", GPU, 0)), "ns/train").shape.requests)[GPU]


def test_nodes_are_added_cordoned_and_uncordoned() -> None:
    made = after(AddNodes((node("n3"),)), Cordon(("n1",)), Uncordon(("n2",)))
    assert {"n1": True, "n2": False, "n3": False} == {node.name: node.unschedulable for node in made.nodes}
    assert () == made.nodes[1].taints


def test_new_nodes_are_like_another_one() -> None:
    template = node("n2", gpu=8, labels={"kubernetes.io/hostname": "n2", "rack": "r1"}, unschedulable=True)
    scene = Scene(cluster(template, node("n2-copy-1")), CONFIG)
    made = applied(scene, [AddNodesLike("n2", 2)]).cluster.nodes[2:]
    expected = [node(f"n2-copy-copy-{i}", gpu=8, labels={"rack": "r1"}) for i in (1, 2)]
    assert expected == list(made)


def test_pods_of_a_removed_node_wait_if_they_are_created_again() -> None:
    made = after(RemoveNodes(("n1",)))
    assert ["n2"] == [node.name for node in made.nodes]
    assert [Status.PENDING] == [task.status for task in tasks(made, "ns/low")], "the bound pod had no controller"
    assert [(Status.PENDING, "")] * 2 == [(task.status, task.node) for task in tasks(made, "ns/train")]
    assert ((), ()) == (bounds(made, "ns/train").reserved, made.locks)


def test_a_reservation_ends() -> None:
    made = after(EndReservation("ns/low"))
    assert (None, ()) == (made.elect, made.locks)


def test_queues() -> None:
    made = after(
        AddQueues((Queue("b"),)),
        SetWeight("a", 5),
        SetAmounts("a", "capability", {GPU: 16, "cpu": None}),
        SetAmounts("a", "deserved", {GPU: 4}),
        OpenQueue("a"),
        SetAmounts("default", "guarantee", {GPU: 1}),
    )
    assert Queue("a", weight=5, capability={GPU: 16}, deserved={GPU: 4}) == queue(made, "a")
    assert Queue("b") == queue(made, "b")
    assert Queue("default", guarantee={GPU: 1}) == queue(made, "default")


def test_a_quota() -> None:
    assert (Quota("ns/team", {"pods": 9, "requests.cpu": 1000}),) == after(SetQuota("ns/team", {"pods": 9})).quotas


def test_another_configuration() -> None:
    text = 'actions: "allocate"\ntiers:\n- plugins:\n  - {name: gang}\n'
    assert ["allocate"] == [a.name for a in applied(SCENE, [UseConfig(text)]).config.actions]


def test_another_algorithm_of_a_pool_keeps_its_other_settings() -> None:
    before, made = CONFIG.pools[0], applied(SCENE, [SetAlgorithm("default", "tiresias")]).config.pools[0]
    assert ("elastic-fifo", "tiresias") == (before.algorithm.name, made.algorithm.name)
    assert (before.rate_limit, before.hold) == (made.rate_limit, made.hold)


WORDS: list[tuple[Edit, str]] = [
    (AddJobs((Job("ns/x"), Job("ns/y"))), "add jobs `ns/x`, `ns/y` with 0 pods"),
    (EndJobs(("ns/low",)), "end job `ns/low`"),
    (SetPriority("ns/low", 3), "raise the priority of `ns/low` from 0 to 3"),
    (SetPriority("ns/low", 1), "raise the priority of `ns/low` from 0 to 1, above `ns/train`"),
    (SetPriority("ns/low", -1), "lower the priority of `ns/low` from 0 to -1"),
    (SetMinimum("ns/low", 1), "lower the minimum of `ns/low` from 2 to 1 pod"),
    (SetQueue("ns/low", "a"), "move `ns/low` from queue `default` to queue `a`"),
    (SetRequest("ns/low", "memory", 2**20), "request 1Mi memory for each pod of `ns/low` instead of 1Gi"),
    (AddNodes((node("n3"), node("n4"))), "add nodes `n3`, `n4`"),
    (AddNodesLike("n1", 2), "add 2 nodes like `n1`"),
    (Cordon(("n1",)), "cordon node `n1`"),
    (Uncordon(("n1", "n2")), "uncordon nodes `n1`, `n2`"),
    (RemoveNodes(("n1",)), "remove node `n1`"),
    (EndReservation("ns/low"), "release the nodes that are reserved for `ns/low`: `n1`"),
    (AddQueues((Queue("b"),)), "add queue `b`"),
    (SetWeight("a", 3), "raise the weight of queue `a` from 2 to 3"),
    (OpenQueue("a"), "open queue `a`"),
    (SetAmounts("a", "capability", {GPU: 16}), f"raise the capability of queue `a` by 8 {GPU} (8 to 16)"),
    (SetAmounts("a", "capability", {"cpu": 1500}), "lower the capability of queue `a` by 2500m cpu (4 to 1500m)"),
    (SetAmounts("a", "capability", {GPU: None}), f"remove {GPU} from the capability of queue `a`"),
    (SetAmounts("a", "deserved", {GPU: 4}), f"set the deserved amount of queue `a` to 4 {GPU}"),
    (SetQuota("ns/team", {"pods": 5}), "raise the ResourceQuota `ns/team` by 1 pods (4 to 5)"),
    (SetAlgorithm("default", "srtf"), "use algorithm `srtf` in pool `default`, not `elastic-fifo`"),
    (UseConfig("actions: allocate\ntiers: [{plugins: [{name: gang}]}]"), "use another configuration"),
]


@pytest.mark.parametrize(("edit", "words"), WORDS, ids=[words for _, words in WORDS])
def test_edits_in_words(edit: Edit, words: str) -> None:
    assert [words] == in_words(SCENE, [edit])


@pytest.mark.parametrize("edit", [edit for edit, _ in WORDS], ids=[words for _, words in WORDS])
def test_edits_are_read_from_json(edit: Edit) -> None:
    assert edit == msgspec.json.decode(msgspec.json.encode(edit), type=type(edit))


def test_the_kind_of_an_edit_is_a_word() -> None:
    text = b'[{"edit": "set-weight", "queue": "a", "weight": 3}]'
    assert [SetWeight("a", 3)] == msgspec.json.decode(text, type=list[WebEdit])


def test_words_follow_the_edits_before() -> None:
    edits = [SetWeight("a", 3), SetWeight("a", 4)]
    assert "raise the weight of queue `a` from 3 to 4" == in_words(SCENE, edits)[1]


LOW = gang("low", 1)
BAD: list[tuple[Edit, str]] = [
    (AddJobs((LOW.job,)), "jobs[0]: job `ns/low` exists already"),
    (AddJobs((Job(""),)), "jobs[0]: expected a name, got nothing"),
    (AddJobs((Job("ns/x"),), LOW.tasks), "tasks[0]: pod `ns/low-0` exists already"),
    (AddJobs((Job("ns/x"),), gang("y").tasks), "tasks[0].job: unknown job `ns/y`; did you mean `ns/x`? known: ns/x"),
    (AddJobs((Job("ns/y"),), gang("y", on=["n9"]).tasks), "tasks[0].node: unknown node `n9`"),
    (EndJobs(()), "jobs: expected the names of jobs, got nothing"),
    (EndJobs(("ns/lwo",)), "jobs[0]: unknown job `ns/lwo`; did you mean `ns/low`?"),
    (SetPriority("ns/lwo", 1), "job: unknown job `ns/lwo`; did you mean `ns/low`? known: ns/low, ns/train"),
    (SetPriority("ns/low", 2**31), "priority: expected at most 2000001000, got `2147483648`"),
    (SetMinimum("ns/low", 0), "minimum: expected at least 1, got `0`"),
    (SetMinimum("ns/train", 1), "minimum: expected at least 2, got `1`"),
    (SetMinimum("ns/train", 6), "minimum: expected at most 5, got `6`"),
    (SetQueue("ns/low", "b"), "queue: unknown queue `b`"),
    (SetRequest("ns/low", "gpu", 1), "resource: unknown resource of the job `gpu`"),
    (SetRequest("ns/low", "pods", 1), "resource: expected a resource that pods request, got `pods`"),
    (SetRequest("ns/low", GPU, -1), "amount: expected at least 0, got `-1`"),
    (AddNodes((Node("n1", {}),)), "nodes[0]: node `n1` exists already"),
    (AddNodes((Node("x", {}), Node("x", {}))), "nodes[1]: node `x` exists already"),
    (AddNodesLike("n7", 1), "like: unknown node `n7`"),
    (AddNodesLike("n1", 0), "count: expected at least 1, got `0`"),
    (AddNodesLike("n1", 10**9), "count: expected at most 4096, got `1000000000`"),
    (Cordon(()), "nodes: expected the names of nodes, got nothing"),
    (Uncordon(("n1", "n7")), "nodes[1]: unknown node `n7`"),
    (RemoveNodes(("n7",)), "nodes[0]: unknown node `n7`"),
    (EndReservation("ns/train"), "job: unknown elected job `ns/train`"),
    (AddQueues((Queue("a"),)), "queues[0]: queue `a` exists already"),
    (SetWeight("c", 1), "queue: unknown queue `c`"),
    (SetWeight("a", 0), "weight: expected at least 1, got `0`"),
    (OpenQueue("c"), "queue: unknown queue `c`"),
    (SetAmounts("a", "capability", {}), "amounts: expected amounts of resources, got nothing"),
    (SetAmounts("a", "capability", {"cpu": -1}), "amounts.cpu: expected at least 0, got `-1`"),
    (SetAmounts("a", "limit", {"cpu": 1}), "of: expected `capability`, `deserved` or `guarantee`"),  # type: ignore[arg-type]
    (SetQuota("ns/x", {"cpu": 1}), "quota: unknown ResourceQuota `ns/x`"),
    (SetAlgorithm("gpus", "srtf"), "pool: unknown pool `gpus`"),
    (SetAlgorithm("default", "srt"), "algorithm: unknown algorithm `srt`; did you mean `srtf`?"),
    (SetAlgorithm("default", "srtf", {"x": 1}), "arguments: unknown argument `x`"),
    (UseConfig("actions: alocate\ntiers: []"), "text: actions: unknown action `alocate`; did you mean `allocate`?"),
]


@pytest.mark.parametrize(("edit", "problem"), BAD, ids=[problem for _, problem in BAD])
def test_a_bad_field_is_named(edit: Edit, problem: str) -> None:
    with pytest.raises(EditError) as error:
        applied(SCENE, [OpenQueue("a"), edit])
    assert str(error.value).startswith(f"edits[1].{problem}")


def test_a_long_list_of_names_is_only_counted() -> None:
    scene = Scene(cluster(node(f"n{i}") for i in range(500)), CONFIG)
    with pytest.raises(
        EditError, match=r"^edits\[0\].nodes\[0\]: unknown node `n50O`; did you mean `n50`\? there are 500$"
    ):
        applied(scene, [Cordon(("n50O",))])
