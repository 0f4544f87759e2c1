"""Gangs of Jobs and JobSets some of whose pods have succeeded, and may be deleted: nobody creates those again."""

from __future__ import annotations

import pytest
from tests.support.new_kinds import Json, job_set, job_set_pods, pod, replicated, template, thing
from tests.support.objects import decoded, from_scratch

from maar.kube.picture.picture import Picture

MAAR = frozenset({"maar"})
NOW = 1000.0


def minimum_of(*items: Json) -> int:
    (job,) = from_scratch(items, MAAR, NOW).jobs
    return job.min_member


def taken(picture: Picture) -> int:
    return picture.cluster(picture.take(NOW).around).jobs[0].min_member


def gang_job(parallelism: int, completions: int, succeeded: int) -> Json:
    spec = {"parallelism": parallelism, "completions": completions, "template": template(restartPolicy="Never")}
    made = thing("batch/v1", "Job", "train", spec, annotations={"maar.dev/gang": "true"})
    return {**made, "status": {"succeeded": succeeded}}


def with_phase(item: Json, phase: str) -> Json:
    return {**item, "spec": {**item["spec"], "nodeName": "n1"}, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("parallelism", "completions", "succeeded", "there", "minimum"),
    [
        (4, 4, 0, 0, 4),
        (4, 4, 3, 3, 4),  # three and one more
        (4, 4, 3, 0, 1),  # they are deleted, and nobody creates them again
        (4, 4, 2, 1, 3),
        (4, 4, 0, 1, 4),  # the Job has not counted it yet
        (4, 100, 50, 50, 4),
        (4, 100, 98, 0, 2),
    ],
)
def test_a_job_does_not_wait_for_pods_that_have_succeeded_and_are_deleted(
    parallelism: int, completions: int, succeeded: int, there: int, minimum: int
) -> None:
    made = gang_job(parallelism, completions, succeeded)
    pods = [with_phase(pod(f"train-{i}", made, {}), "Succeeded") for i in range(there)]
    assert minimum == minimum_of(made, pod("train-x", made, {}), *pods)


@pytest.mark.parametrize("first", ["the Job counts it", "it is deleted"])
def test_a_succeeded_pod_that_is_deleted_changes_its_gang_at_once(first: str) -> None:
    """Watches of Jobs and of pods are not ordered."""
    picture, made = Picture(MAAR, settling=None), gang_job(2, 2, 0)
    ended = with_phase(pod("train-a", made, {}), "Succeeded")
    for item in (made, ended, pod("train-b", made, {})):
        picture.put(*decoded(item))
    assert 2 == taken(picture)
    if first == "it is deleted":
        picture.drop(decoded(ended)[0], "default/train-a")
        assert 2 == taken(picture)
    picture.put(*decoded(gang_job(2, 2, 1)))
    if first == "the Job counts it":
        assert 2 == taken(picture)
        picture.drop(decoded(ended)[0], "default/train-a")
    assert 1 == taken(picture)


def test_a_job_set_does_not_wait_for_the_deleted_pods_of_jobs_that_have_completed() -> None:
    status = {"replicatedJobsStatus": [{"name": "workers", "succeeded": 1}]}
    made = job_set(replicated("workers", 2, 3), status=status)
    every = list(job_set_pods(made, "workers"))
    first = [item for item in every if item["metadata"]["name"].startswith("set-workers-0")]
    second = [item for item in every if item not in first]
    done = [with_phase(item, "Succeeded") if item["kind"] == "Pod" else item for item in first]
    assert (6, 3) == (minimum_of(made, *done, *second), minimum_of(made, *second))
