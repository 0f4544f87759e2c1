"""Jobs of the training operator and of the MPI operator, from their bytes to readings and to patches."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.objects import decoded

from maar.kube.kinds.elastic import ElasticSpec, Kept
from maar.kube.kinds.kind import JobKind, Request, WantedState
from maar.kube.kinds.kubeflow import mpijob
from maar.kube.picture.owners import Owner

MAAR = frozenset({"maar"})
MAPS = {"PyTorchJob": "pytorchReplicaSpecs", "MPIJob": "mpiReplicaSpecs", "TFJob": "tfReplicaSpecs"}
MAPS |= {"XGBoostJob": "xgbReplicaSpecs", "PaddleJob": "paddleReplicaSpecs"}


def role(replicas: int, *, gpu: int = 1, scheduler: str = "maar", **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "resources": {"limits": {"nvidia.com/gpu": str(gpu)}}, **spec.pop("container", {})}
    return {
        "replicas": replicas,
        "template": {
            "metadata": {"creationTimestamp": None},
            "spec": {"containers": [container], "schedulerName": scheduler, **spec},
        },
    }


def job(kind: str = "PyTorchJob", version: str = "v1", **more: Any) -> Owner:
    roles = more.pop("roles", {"Worker": role(2)})
    said = {
        "apiVersion": f"kubeflow.org/{version}",
        "kind": kind,
        "metadata": {
            "name": "train",
            "namespace": "ns",
            "uid": "u",
            "resourceVersion": "7",
            "annotations": more.pop("annotations", {}),
        },
        "status": more.pop("status", {}),
        "spec": {MAPS[kind]: roles, "runPolicy": more.pop("policy", {}), **more},
    }
    of, item = decoded(said)
    assert isinstance(of, JobKind)
    return Owner(of, item.namespace, item.name, item)


def conditions(*types: str, **more: Any) -> dict[str, Any]:
    return {"conditions": [{"type": t, "status": "True", "reason": "r", **more} for t in types]}


def read(of: Owner, names: frozenset[str] | None = None) -> ElasticSpec | None:
    return of.kind.elastic(of.item, None, names)


def reading(of: Owner) -> ElasticSpec:
    found = read(of, MAAR)
    assert found is not None
    return found


ELASTIC = {"minReplicas": 1, "maxReplicas": 4}


def test_a_pytorchjob_states_its_bounds() -> None:
    found = reading(job(elasticPolicy=ELASTIC, roles={"Master": role(1), "Worker": role(2)}))
    assert (1, 4, 2, 2, "worker", False, "") == (
        *(found.min, found.max, found.size, found.requested),
        *(found.role, found.suspended, found.broken),
    )
    assert ["master"] == [p.metadata.labels["training.kubeflow.org/replica-type"] for p in found.beside]
    assert "train" == found.worker.metadata.labels["training.kubeflow.org/job-name"]
    assert "ns" == found.worker.namespace


def test_without_bounds_it_is_not_elastic() -> None:
    assert read(job(), MAAR) is None


def test_of_another_scheduler_it_is_left_alone() -> None:
    assert read(job(elasticPolicy=ELASTIC, roles={"Worker": role(2, scheduler="other")}), MAAR) is None
    assert read(job(elasticPolicy=ELASTIC, roles={"Worker": role(2, scheduler="other")})) is not None


def test_a_size_that_an_autoscaler_owns_is_left_alone() -> None:
    assert read(job(elasticPolicy={**ELASTIC, "metrics": [{"type": "Resource"}]}), MAAR) is None
    assert read(job(elasticPolicy={**ELASTIC, "metrics": None}), MAAR) is not None


def test_annotations_come_before_fields() -> None:
    found = reading(job(elasticPolicy=ELASTIC, annotations={"maar.dev/max-workers": "8"}))
    assert (1, 8) == (found.min, found.max)


def test_a_bound_that_is_left_out_is_what_the_owner_asked_for() -> None:
    assert (2, 4) == (lambda r: (r.min, r.max))(reading(job(elasticPolicy={"maxReplicas": 4})))
    assert (1, 2) == (lambda r: (r.min, r.max))(reading(job(elasticPolicy={"minReplicas": 1})))
    kept = {"maar.dev/elastic": '{"requested": 3}'}
    grown = reading(job(elasticPolicy={"minReplicas": 1}, annotations=kept, roles={"Worker": role(1)}))
    assert (1, 3, 1, 3) == (grown.min, grown.max, grown.size, grown.requested)


@pytest.mark.parametrize(
    ("policy", "annotations", "broken"),
    [
        ({"minReplicas": 0}, {}, "spec.elasticPolicy.minReplicas: expected a number of at least 1, got `0`"),
        (
            {"minReplicas": 3, "maxReplicas": 2},
            {},
            "spec.elasticPolicy.maxReplicas: expected at least the minimum of 3, got `2`",
        ),
        (
            None,
            {"maar.dev/min-workers": "few"},
            "`maar.dev/min-workers`: expected a whole number of at least 1, got `few`",
        ),
        (
            ELASTIC,
            {"maar.dev/max-workers": "0"},
            "`maar.dev/max-workers`: expected a whole number of at least 1, got `0`",
        ),
    ],
)
def test_bounds_that_make_no_sense_break_the_job(policy: Any, annotations: dict[str, str], broken: str) -> None:
    assert broken == reading(job(elasticPolicy=policy, annotations=annotations)).broken


HUGE = 2_000_000_000


@pytest.mark.parametrize(
    ("workers", "masters", "policy", "broken"),
    [
        (2, 1, {"minReplicas": HUGE, "maxReplicas": HUGE}, "spec.elasticPolicy.minReplicas: expected at most 10000"),
        (2, HUGE, ELASTIC, "replicas beside its workers: expected at most 10000"),
        (HUGE, 1, None, "replicas: expected at most 10000"),
    ],
)
def test_numbers_that_would_take_all_memory_break_the_job(workers: int, masters: int, policy: Any, broken: str) -> None:
    """An API server takes them."""
    roles = {"Worker": role(workers), "Master": role(masters)}
    found = reading(job(elasticPolicy=policy, roles=roles, policy={"suspend": True}))
    assert f"{broken}, got `{HUGE}`" == found.broken
    assert len(found.beside) <= 1


def test_as_many_as_there_may_be_is_a_bound_too() -> None:
    found = reading(job(elasticPolicy={"minReplicas": 1, "maxReplicas": HUGE}))
    assert (1, 10_000, "") == (found.min, found.max, found.broken)


def test_a_size_outside_of_the_bounds_is_taken_as_it_is() -> None:
    found = reading(job(elasticPolicy=ELASTIC, roles={"Worker": role(9)}))
    assert (9, "") == (found.size, found.broken)


BOUNDS = {"maar.dev/min-workers": "1", "maar.dev/max-workers": "4"}


@pytest.mark.parametrize(
    ("kind", "policy", "more", "keeps"),
    [
        ("PyTorchJob", "Never", {}, True),
        ("PyTorchJob", "OnFailure", {}, False),
        ("PyTorchJob", "", {}, False),
        ("PaddleJob", "Never", {}, True),
        ("MPIJob", "Never", {}, False),
        ("TFJob", "OnFailure", {}, True),
        ("TFJob", "Never", {"enableDynamicWorker": True}, False),
        ("XGBoostJob", "OnFailure", {}, True),
        ("XGBoostJob", "ExitCode", {}, False),
    ],
)
def test_a_job_that_its_operator_would_give_up_keeps_its_size_for_now(
    kind: str, policy: str, more: dict[str, Any], keeps: bool
) -> None:
    roles = {"Worker": {**role(2), "restartPolicy": policy}}
    counts = {"replicaStatuses": {"Worker": {"active": 1}}}
    runs = reading(job(kind, roles=roles, annotations=BOUNDS, status=counts, **more))
    assert ((2, 2) if keeps else (1, 4)) == (runs.min, runs.max)
    assert keeps == bool(runs.keeps)
    waits = reading(job(kind, roles=roles, annotations=BOUNDS, status=counts, policy={"suspend": True}, **more))
    assert (1, 4, "") == (waits.min, waits.max, waits.keeps)


@pytest.mark.parametrize(
    ("counted", "keeps"),
    [
        (None, False),
        ({"active": 2}, False),
        ({"active": 2, "failed": 1}, True),
        ({"active": 3}, True),
        ({}, True),
    ],
    ids=["no operator has looked yet", "all run", "one is leaving", "the size has just changed", "none runs yet"],
)
def test_a_job_that_may_not_restart_changes_its_size_once_all_its_workers_run(
    counted: dict[str, int] | None, keeps: bool
) -> None:
    roles = {"Worker": {**role(2), "restartPolicy": "Never"}}
    status = {} if counted is None else {"replicaStatuses": {"Worker": counted}}
    found = reading(job(roles=roles, annotations=BOUNDS, status=status))
    assert ((2, 2) if keeps else (1, 4)) == (found.min, found.max)
    assert keeps == ("`restartPolicy` is `Never`" in found.keeps)


@pytest.mark.parametrize(("replicas", "bounds"), [(0, (1, 4)), (9, (9, 9)), (20_000, (1, 4))])
def test_a_size_outside_of_the_bounds_that_cannot_shrink_is_kept(replicas: int, bounds: tuple[int, int]) -> None:
    roles = {"Worker": {**role(replicas), "restartPolicy": "Never"}}
    found = reading(job(elasticPolicy=ELASTIC, roles=roles, status={"replicaStatuses": {"Worker": {"active": 1}}}))
    assert (*bounds, "") == (found.min, found.max, found.broken)


@pytest.mark.parametrize("kind", ["PyTorchJob", "MPIJob", "TFJob"])
def test_a_job_that_comes_suspended_is_ours_and_rigid_without_bounds(kind: str) -> None:
    found = reading(job(kind, policy={"suspend": True}, roles={"Worker": role(3)}, status=conditions("Suspended")))
    assert (3, 3, 3, True, True) == (found.min, found.max, found.size, found.suspended, found.rigid)
    resumed = job(kind, roles={"Worker": role(3)}, annotations={"maar.dev/elastic": '{"running":true,"rigid":true}'})
    assert (3, 3, False, True) == (lambda r: (r.min, r.max, r.suspended, r.rigid))(reading(resumed))


def test_without_a_worker_the_only_role_is_what_runs() -> None:
    found = reading(job(policy={"suspend": True}, roles={"Master": role(1)}))
    assert ("master", 1, ()) == (found.role, found.size, found.beside)


def test_what_its_owner_suspended_stays_suspended() -> None:
    ran = {"conditions": [{"type": "Running", "status": "False"}, {"type": "Suspended", "status": "True"}]}
    assert read(job(elasticPolicy=ELASTIC, policy={"suspend": True}, status=ran), MAAR) is None
    by_us = {"maar.dev/elastic": '{"running":false}'}
    assert reading(job(elasticPolicy=ELASTIC, policy={"suspend": True}, status=ran, annotations=by_us)).suspended
    resumed = {"maar.dev/elastic": '{"running":true}'}
    assert read(job(elasticPolicy=ELASTIC, policy={"suspend": True}, annotations=resumed), MAAR) is None


@pytest.mark.parametrize("kind", ["PyTorchJob", "MPIJob", "TFJob"])
@pytest.mark.parametrize(("type", "ended"), [("Succeeded", True), ("Failed", True), ("Restarting", False)])
def test_only_what_the_operator_gives_up_on_is_an_end(kind: str, type: str, ended: bool) -> None:
    bounds = {"maar.dev/min-workers": "1", "maar.dev/max-workers": "4"}
    assert ended == (read(job(kind, annotations=bounds, status=conditions("Running", type)), MAAR) is None)


@pytest.mark.parametrize(
    ("status", "ended"),
    [
        (conditions("Failed", reason="MPIJobEvicted"), False),
        (conditions("Failed"), False),
        ({**conditions("Failed"), "completionTime": "2030-01-01T00:00:00Z"}, True),
        ({**conditions("Failed", reason="MPIJobEvicted"), "completionTime": "2030-01-01T00:00:00Z"}, False),
        (conditions("Succeeded"), True),
    ],
)
def test_the_mpi_operator_starts_evicted_jobs_again(status: dict[str, Any], ended: bool) -> None:
    bounds = {"maar.dev/min-workers": "1"}
    item = job("MPIJob", "v2beta1", annotations=bounds, status=status)
    assert item.kind is mpijob.KIND_V2
    assert ended == (read(item, MAAR) is None)


def voda(env: dict[str, str], **more: Any) -> Owner:
    said = [{"name": name, "value": value} for name, value in env.items()]
    launcher = role(1, gpu=0, container={"env": [*said, {"name": "SECRET", "valueFrom": {"secretKeyRef": {}}}]})
    worker = role(1, nodeSelector={"vodascheduler/accelerator": "v100"})
    return job("MPIJob", roles={"Launcher": launcher, "Worker": worker}, **more)


VODA = {
    **{"NP": "2", "MIN_NP": "1", "MAX_NP": "4", "EPOCHS": "20"},
    **{"JOB_NAME": "resnet", "JOB_PRIORITY": "1"},
}


def test_vodas_environment_is_understood() -> None:
    found = reading(voda(VODA))
    assert (1, 4, 1, 2) == (found.min, found.max, found.size, found.requested)
    assert (-1, "resnet", "v100", 20) == (found.priority, found.category, found.pool, found.epochs)
    assert 1 == len(found.beside)
    long = {"NUM_PROC": "2", "MIN_NUM_PROC": "1", "MAX_NUM_PROC": "4"}
    assert (1, 4, 2) == (lambda r: (r.min, r.max, r.requested))(reading(voda(long)))


def test_vodas_processes_are_workers_of_so_many_slots() -> None:
    found = reading(voda({"NP": "8", "MIN_NP": "3", "MAX_NP": "16"}, slotsPerWorker=4))
    assert (1, 4, 2) == (found.min, found.max, found.requested)


def test_an_environment_without_bounds_is_not_vodas() -> None:
    assert read(voda({"NP": "2", "JOB_PRIORITY": "x"}), MAAR) is None


def test_a_broken_environment_breaks_the_job() -> None:
    broken = reading(voda({**VODA, "MIN_NP": "one"})).broken
    assert "`MIN_NP` of the launcher: expected a whole number of at least 0, got `one`" == broken


def test_a_launcher_that_waits_for_workers_is_in_no_minimum() -> None:
    roles = {"Launcher": role(1), "Worker": role(2)}
    bounds = {"maar.dev/min-workers": "1"}
    late = job("MPIJob", "v2beta1", roles=roles, annotations=bounds, launcherCreationPolicy="WaitForWorkersReady")
    assert () == reading(late).beside
    assert 1 == len(reading(job("MPIJob", "v2beta1", roles=roles, annotations=bounds)).beside)


def test_what_maar_keeps_comes_back_and_what_is_broken_is_ignored(caplog: pytest.LogCaptureFixture) -> None:
    kept = {
        "maar.dev/elastic": '{"first_start": 5.0, "attained": 7.5, "requested": 3}',
        "maar.dev/holds": '{"n1": 2, "n0": 1, "n2": 0}',
        "maar.dev/restart-seconds": "45",
        "maar.dev/pool": "gpu",
        "maar.dev/category": "bert",
    }
    found = reading(job(elasticPolicy=ELASTIC, annotations=kept))
    assert (5.0, 7.5, 3) == (found.kept.past.first_start, found.kept.past.attained, found.requested)
    assert (("n0", 1), ("n1", 2)) == found.reserved
    assert (45.0, "gpu", "bert") == (found.restart, found.pool, found.category)
    assert not caplog.messages
    broken = {"maar.dev/elastic": "{", "maar.dev/holds": '["n1"]'}
    again = reading(job(elasticPolicy=ELASTIC, annotations=broken))
    assert (Kept(), (), "") == (again.kept, again.reserved, again.broken)
    assert 2 == len(caplog.messages)


@pytest.mark.parametrize("requested", [-3, 99_999_999])
def test_a_request_that_maar_never_kept_is_ignored(requested: int) -> None:
    forged = {"maar.dev/elastic": f'{{"requested": {requested}}}', "maar.dev/max-workers": "4"}
    found = reading(job(annotations=forged))
    assert (2, 4, 2, "") == (found.min, found.max, found.requested, found.broken)


@pytest.mark.parametrize("forged", ['"attained": -1', '"last_resize": 1e300', '"forgiven": 1e400', '"since": -5'])
def test_a_past_that_maar_never_kept_is_ignored(forged: str, caplog: pytest.LogCaptureFixture) -> None:
    annotations = {"maar.dev/elastic": f'{{"first_start": 5.0, {forged}}}'}
    assert Kept() == reading(job(elasticPolicy=ELASTIC, annotations=annotations)).kept
    assert "the annotation `maar.dev/elastic` is ignored: " in caplog.messages[0]


def test_queue_and_priority_of_a_job_without_pods() -> None:
    policy = {"schedulingPolicy": {"queue": "team", "priorityClass": "high"}}
    found = reading(job(elasticPolicy=ELASTIC, policy=policy))
    assert ("team", "high") == (found.queue, found.priority_class)
    worker = role(1, priorityClassName="low")
    noted = reading(
        job(
            elasticPolicy=ELASTIC,
            annotations={"scheduling.volcano.sh/queue-name": "other"},
            roles={"Worker": worker},
        )
    )
    assert ("other", "low") == (noted.queue, noted.priority_class)


def write(of: Owner, wanted: WantedState) -> list[Request]:
    assert of.kind.write is not None
    return of.kind.write(of.item, of.kind.resource, reading(of), wanted)


PATH = "/apis/kubeflow.org/v1/namespaces/ns/pytorchjobs/train"


def test_a_resize_is_a_patch_of_the_version_that_was_seen() -> None:
    item = job(elasticPolicy=ELASTIC)
    wanted = WantedState(4, False, Kept(attained=1.0, requested=2, running=True), {"maar.dev/holds": None})
    (request,) = write(item, wanted)
    notes = {"maar.dev/elastic": '{"attained":1.0,"requested":2,"running":true}', "maar.dev/holds": None}
    assert (PATH, "merge", False) == (request.path, request.patch, request.create)
    assert {
        "metadata": {"uid": "u", "resourceVersion": "7", "annotations": notes},
        "spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 4}}},
    } == request.body


@pytest.mark.parametrize(
    ("suspended", "wanted", "spec"),
    [
        (False, WantedState(2, True, Kept()), {"runPolicy": {"suspend": True}}),
        (
            True,
            WantedState(3, False, Kept()),
            {"mpiReplicaSpecs": {"Worker": {"replicas": 3}}, "runPolicy": {"suspend": False}},
        ),
        (True, WantedState(2, False, Kept()), {"runPolicy": {"suspend": False}}),
    ],
)
def test_suspending_and_resuming(suspended: bool, wanted: WantedState, spec: dict[str, Any]) -> None:
    item = job("MPIJob", "v2beta1", annotations={"maar.dev/min-workers": "1"}, policy={"suspend": suspended})
    (request,) = write(item, wanted)
    assert "/apis/kubeflow.org/v2beta1/namespaces/ns/mpijobs/train" == request.path
    assert isinstance(request.body, dict)
    assert spec == request.body["spec"]
