"""Simulated kubelets: pods start, end, stop and are rejected; nodes die and come back."""

import asyncio

from tests.embedded.conftest import cluster, names

from maar.embedded.objects.errors import Obj
from maar.embedded.objects.kinds import PODS
from maar.embedded.parts.jobs import Jobs
from maar.embedded.parts.kubelets import Kubelets


def quick() -> Kubelets:
    return Kubelets(start=0.0, stop=0.0, evict_after=0.0)


def test_a_bound_pod_runs() -> None:
    async def main() -> None:
        async with cluster(quick()) as c:
            await c.add_node("n1")
            await c.add_pod("a")
            assert 201 == await c.bind("a", "n1")
            await c.until(lambda: c.phase("a") == "Running")
            pod = c.pod("a")
            assert pod is not None
            conditions = {x["type"]: x["status"] for x in pod["status"]["conditions"]}
            assert {
                "PodScheduled": "True",
                "Initialized": "True",
                "ContainersReady": "True",
                "Ready": "True",
            } == conditions
            assert pod["status"]["podIP"]
            assert [True] == [s["ready"] for s in pod["status"]["containerStatuses"]]

    asyncio.run(main())


def test_pods_end_as_they_are_annotated() -> None:
    async def main() -> None:
        async with cluster(quick()) as c:
            await c.add_node("n1")
            await c.add_pod("well", "n1", pretend_runtime="0")
            await c.add_pod("badly", "n1", pretend_runtime="0", pretend_result="Failed")
            await c.add_pod("never", "n1", pretend_runtime="no number")
            await c.until(lambda: c.phase("well") == "Succeeded" and c.phase("badly") == "Failed")
            await c.until(lambda: c.phase("never") == "Running")
            code, _ = await c.ask("DELETE", f"{c.pods}/well")
            assert (200, "gone") == (code, c.phase("well"))

    asyncio.run(main())


def test_a_pod_that_has_ended_does_not_start() -> None:
    def ended(pod: Obj) -> Obj:
        pod["status"]["phase"] = "Succeeded"
        return pod

    async def main() -> None:
        kubelets = Kubelets(start=0.2)
        clock = asyncio.get_running_loop().time
        async with cluster(kubelets) as c:
            await c.add_node("n1")
            await c.add_pod("a", "n1")
            await c.until(lambda: kubelets.pods)
            (timer,) = (pod.timer for pod in kubelets.pods.values())
            assert timer is not None
            while clock() <= timer.when():
                pass  # block the loop until the start is due, before the kubelet sees the pod again
            c.server.api.change(PODS, "default", "a", ended, part="status")
            await c.until(lambda: not kubelets.pods)
            assert "Succeeded" == c.phase("a")

    asyncio.run(main())


def test_a_deleted_pod_goes_after_its_grace() -> None:
    async def main() -> None:
        async with cluster(quick()) as c:
            await c.add_node("n1")
            await c.add_pod("quick", "n1")
            await c.add_pod("slow", "n1", pretend_stop="1000")
            await c.until(lambda: c.phase("quick") == c.phase("slow") == "Running")
            await c.ask("DELETE", f"{c.pods}/slow")
            await c.ask("DELETE", f"{c.pods}/quick")
            await c.until(lambda: c.phase("quick") == "gone")
            slow = c.pod("slow")
            assert slow is not None
            assert 30 == slow["metadata"]["deletionGracePeriodSeconds"]

    asyncio.run(main())


def test_a_pod_that_does_not_fit_is_rejected() -> None:
    async def main() -> None:
        async with cluster(quick()) as c:
            await c.add_node("n1", cpu="2")
            await c.add_pod("first", "n1", cpu="1500m")
            await c.until(lambda: c.phase("first") == "Running")
            await c.add_pod("second", "n1", cpu="600m")
            await c.until(lambda: c.phase("second") == "Failed")
            second = c.pod("second")
            assert second is not None
            assert "OutOfcpu" == second["status"]["reason"]
            assert second["status"]["message"].endswith("requested: 600, used: 1500, capacity: 2000")
            await c.ask("DELETE", f"{c.pods}/first")
            await c.until(lambda: c.phase("first") == "gone")
            await c.add_pod("third", "n1", cpu="2")
            await c.until(lambda: c.phase("third") == "Running")

    asyncio.run(main())


def test_room_counts_from_the_binding_not_from_the_start() -> None:
    async def main() -> None:
        async with cluster(Kubelets(start=1000.0)) as c:
            await c.add_node("n1", cpu="2")
            await c.add_pod("first", "n1", cpu="2")
            await c.add_pod("second", "n1", cpu="1")
            await c.until(lambda: c.phase("second") == "Failed")
            assert "Pending" == c.phase("first")

    asyncio.run(main())


def test_a_dead_node_loses_its_pods_and_a_job_replaces_them() -> None:
    async def main() -> None:
        kubelets = quick()
        async with cluster(kubelets, Jobs()) as c:
            await c.add_node("n1")
            await c.add_node("n2")
            await c.add_job("j", 2)
            await c.until(lambda: len(c.all_pods()) == 2)
            first = names(c.all_pods())
            for name in first:
                await c.bind(name, "n1")
            await c.until(lambda: {"Running"} == {c.phase(name) for name in first})
            kubelets.kill("n1")
            ready = next(x for x in c.node("n1")["status"]["conditions"] if x["type"] == "Ready")
            assert "Unknown" == ready["status"]
            assert {"NoSchedule", "NoExecute"} == {t["effect"] for t in c.node("n1")["spec"]["taints"]}
            await c.until(lambda: len(c.all_pods()) == 4)
            # No kubelet removes the old pods, so they stay in Terminating.
            old = [pod for pod in c.all_pods() if pod["metadata"]["name"] in first]
            assert all(pod["metadata"]["deletionTimestamp"] for pod in old)
            for name in sorted(set(names(c.all_pods())) - set(first)):
                await c.bind(name, "n2")
            await c.until(lambda: 2 == c.job("j")["status"].get("ready"))
            kubelets.revive("n1")
            await c.until(lambda: len(c.all_pods()) == 2)
            assert "taints" not in c.node("n1")["spec"]
            assert {"n2"} == {pod["spec"]["nodeName"] for pod in c.all_pods()}

    asyncio.run(main())


def test_pods_of_a_dead_node_can_be_forgotten() -> None:
    async def main() -> None:
        kubelets = Kubelets(start=0.0, evict_after=0.0, forget_after=0.0)
        async with cluster(kubelets) as c:
            await c.add_node("n1")
            await c.add_pod("a", "n1")
            await c.until(lambda: c.phase("a") == "Running")
            kubelets.kill("n1")
            await c.until(lambda: c.phase("a") == "gone")

    asyncio.run(main())


def test_a_pod_that_tolerates_a_dead_node_stays() -> None:
    async def main() -> None:
        kubelets = quick()
        async with cluster(kubelets) as c:
            await c.add_node("n1")
            await c.add_pod("goes", "n1")
            stays = {"containers": [{"name": "c", "image": "i"}], "nodeName": "n1"}
            stays["tolerations"] = [{"operator": "Exists"}]
            await c.ask("POST", c.pods, {"metadata": {"name": "stays"}, "spec": stays})
            await c.until(lambda: c.phase("goes") == c.phase("stays") == "Running")
            kubelets.kill("n1")
            await c.until(lambda: (c.pod("goes") or {})["metadata"].get("deletionTimestamp"))
            assert "deletionTimestamp" not in (c.pod("stays") or {})["metadata"]

    asyncio.run(main())


def test_pods_of_a_node_that_is_deleted_go() -> None:
    async def main() -> None:
        async with cluster(quick()) as c:
            await c.add_node("n1")
            await c.add_pod("a", "n1")
            await c.until(lambda: c.phase("a") == "Running")
            await c.ask("DELETE", "/api/v1/nodes/n1")
            await c.until(lambda: c.phase("a") == "gone")

    asyncio.run(main())


def test_kubelets_take_what_was_there_before_them() -> None:
    async def main() -> None:
        async with cluster() as c:
            await c.add_pod("a", "n1")
            await c.add_node("n1")
            kubelets = quick()
            c.server.add(kubelets)
            await c.until(lambda: c.phase("a") == "Running")
            assert {"n1"} == set(kubelets.rooms)

    asyncio.run(main())


def test_a_job_ends_when_its_pods_fail_too_often() -> None:
    async def main() -> None:
        async with cluster(quick(), Jobs()) as c:
            await c.add_node("n1")
            annotations = {"maar.dev/pretend-runtime": "0", "maar.dev/pretend-result": "Failed"}
            pod = {"restartPolicy": "Never", "nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}
            spec = {"backoffLimit": 2, "template": {"metadata": {"annotations": annotations}, "spec": pod}}
            await c.ask("POST", "/apis/batch/v1/namespaces/default/jobs", {"metadata": {"name": "j"}, "spec": spec})
            await c.until(lambda: c.job("j")["status"].get("conditions"))
            assert "Failed" == c.job("j")["status"]["conditions"][0]["type"]
            assert 3 == c.job("j")["status"]["failed"]

    asyncio.run(main())
