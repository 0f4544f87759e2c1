"""What controllers do: garbage collection, deletion of namespaces, disruption budgets, jobs.

The real server runs with kube-controller-manager, the embedded one with its parts.
"""

from typing import Any

from tests.api.conftest import Client, new_map, new_pod

BESIDE = "controllers"

Obj = dict[str, Any]


def owned(name: str, owner: Obj, **more: Any) -> Obj:
    about = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
    }
    return new_map(name, ownerReferences=[{**about, **more}])


def is_gone(obj: Obj) -> bool:
    return bool(obj["kind"] == "Status")


def test_dependents_go_after_their_owner(api: Client, maps: str) -> None:
    owner = api.post(maps, new_map("owner"))
    child = api.post(maps, owned("child", owner))
    api.post(maps, owned("grandchild", child))
    api.delete(f"{maps}/owner", {"propagationPolicy": "Background"})
    assert api.gone(f"{maps}/owner")
    api.until(f"{maps}/child", is_gone)
    api.until(f"{maps}/grandchild", is_gone)


def test_a_dependent_with_another_owner_stays(api: Client, maps: str) -> None:
    first, second = api.post(maps, new_map("first")), api.post(maps, new_map("second"))
    both = owned("both", first)
    both["metadata"]["ownerReferences"] += owned("", second)["metadata"]["ownerReferences"]
    api.post(maps, both)
    api.post(maps, owned("one", first))
    api.delete(f"{maps}/first", {"propagationPolicy": "Background"})
    api.until(f"{maps}/one", is_gone)
    assert not api.gone(f"{maps}/both")
    api.delete(f"{maps}/second", {"propagationPolicy": "Background"})
    api.until(f"{maps}/both", is_gone)


def test_an_owner_deleted_in_the_foreground_goes_last(api: Client, maps: str) -> None:
    owner = api.post(maps, new_map("owner"))
    child = owned("child", owner, blockOwnerDeletion=True)
    child["metadata"]["finalizers"] = ["example.com/hold"]
    api.post(maps, child)
    api.delete(f"{maps}/owner", {"propagationPolicy": "Foreground"})
    api.until(f"{maps}/child", lambda obj: obj["metadata"].get("deletionTimestamp"))
    assert not api.gone(f"{maps}/owner")
    api.patch(f"{maps}/child", {"metadata": {"finalizers": None}})
    api.until(f"{maps}/owner", is_gone)


def test_an_object_that_has_left_its_owner_does_not_hold_it_and_stays(api: Client, maps: str) -> None:
    owner = api.post(maps, new_map("owner"))
    api.post(maps, owned("child", owner, blockOwnerDeletion=True))
    api.patch(f"{maps}/child", {"metadata": {"ownerReferences": None}})
    api.delete(f"{maps}/owner", {"propagationPolicy": "Foreground"})
    api.until(f"{maps}/owner", is_gone)
    assert not api.gone(f"{maps}/child")
    assert "deletionTimestamp" not in api.get(f"{maps}/child")["metadata"]


def test_orphans_stay(api: Client, maps: str) -> None:
    owner = api.post(maps, new_map("owner"))
    api.post(maps, owned("child", owner))
    api.delete(f"{maps}/owner", {"propagationPolicy": "Orphan"})
    api.until(f"{maps}/owner", is_gone)
    assert "ownerReferences" not in api.get(f"{maps}/child")["metadata"]


def test_a_dependent_of_a_missing_owner_is_deleted(api: Client, maps: str) -> None:
    owner = api.post(maps, new_map("owner"))
    api.delete(f"{maps}/owner")
    api.post(maps, owned("late", owner))
    api.until(f"{maps}/late", is_gone)


def test_a_namespace_goes_with_all_that_is_in_it(api: Client, namespace: str, maps: str, pods: str) -> None:
    api.post(maps, new_map("a"))
    api.post(pods, new_pod("p"))
    api.delete(f"/api/v1/namespaces/{namespace}")
    api.until(f"/api/v1/namespaces/{namespace}", is_gone)
    assert api.gone(f"{maps}/a")


def test_budgets_are_counted(api: Client, namespace: str, pods: str) -> None:
    budgets = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    api.post(budgets, {"metadata": {"name": "b"}, "spec": spec})
    for name in ("a", "b"):
        api.post(pods, new_pod(name, labels={"app": "web"}, nodeName="n1"))
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        api.patch(f"{pods}/{name}/status", {"status": status})
    counted = api.until(f"{budgets}/b", lambda b: b.get("status", {}).get("currentHealthy") == 2)["status"]
    assert (1, 1, 2, 1) == tuple(
        counted[x] for x in ("disruptionsAllowed", "desiredHealthy", "expectedPods", "observedGeneration")
    )
    evict = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}
    api.post(f"{pods}/a/eviction", evict)
    assert 429 == api.ask("POST", f"{pods}/b/eviction", {**evict, "metadata": {"name": "b"}}).code


def new_job(name: str, **spec: Any) -> Obj:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    return {"metadata": {"name": name}, "spec": {"template": template, **spec}}


def of_job(api: Client, pods: str, name: str) -> list[Obj]:
    items: list[Obj] = api.get(pods, labelSelector=f"batch.kubernetes.io/job-name={name}")["items"]
    return [pod for pod in items if not pod["metadata"].get("deletionTimestamp")]


def test_a_job_creates_and_replaces_its_pods(api: Client, namespace: str, pods: str) -> None:
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    job = api.post(jobs, new_job("j", parallelism=3, completions=3))
    api.until(pods, lambda listed: len(listed["items"]) == 3)
    first, *_ = of_job(api, pods, "j")
    owner = first["metadata"]["ownerReferences"][0]
    assert ("Job", "j", job["metadata"]["uid"], True) == tuple(owner[x] for x in ("kind", "name", "uid", "controller"))
    name = first["metadata"]["name"]
    api.ask("DELETE", f"{pods}/{name}", {"gracePeriodSeconds": 0})
    others = api.until(pods, lambda listed: _living(listed, but=name) == 3)
    assert name not in [
        pod["metadata"]["name"] for pod in others["items"] if "deletionTimestamp" not in pod["metadata"]
    ]


def _living(listed: Obj, but: str) -> int:
    return sum("deletionTimestamp" not in p["metadata"] and p["metadata"]["name"] != but for p in listed["items"])


def test_a_job_is_complete_when_its_pods_are(api: Client, namespace: str, pods: str) -> None:
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    api.post(jobs, new_job("j", parallelism=2, completions=2))
    api.until(pods, lambda listed: len(listed["items"]) == 2)
    for pod in of_job(api, pods, "j"):
        api.post(
            f"{pods}/{pod['metadata']['name']}/binding",
            {"metadata": {"name": pod["metadata"]["name"]}, "target": {"kind": "Node", "name": "n1"}},
        )
        api.patch(f"{pods}/{pod['metadata']['name']}/status", {"status": {"phase": "Succeeded"}})
    done = api.until(f"{jobs}/j", lambda job: "Complete" in _conditions(job))
    assert 2 == done["status"]["succeeded"]
    assert 2 == len(api.get(pods)["items"])


def _conditions(job: Obj) -> list[str]:
    return [c["type"] for c in job.get("status", {}).get("conditions") or [] if c["status"] == "True"]


def test_a_suspended_job_has_no_pods(api: Client, namespace: str, pods: str) -> None:
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    api.post(jobs, new_job("j", parallelism=2, completions=2, suspend=True))
    api.patch(f"{jobs}/j", {"spec": {"suspend": False}})
    api.until(pods, lambda listed: len(listed["items"]) == 2)
    api.patch(f"{jobs}/j", {"spec": {"suspend": True}})
    api.until(pods, lambda listed: _living(listed, but="") == 0)


def test_an_indexed_job_numbers_its_pods(api: Client, namespace: str, pods: str) -> None:
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    api.post(jobs, new_job("j", parallelism=2, completions=2, completionMode="Indexed"))
    listed = api.until(pods, lambda found: len(found["items"]) == 2)
    index = "batch.kubernetes.io/job-completion-index"
    assert ["0", "1"] == sorted(pod["metadata"]["annotations"][index] for pod in listed["items"])
    assert all(pod["metadata"]["name"].startswith("j-") for pod in listed["items"])
