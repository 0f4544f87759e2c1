"""The status of a pod at each stage of its life. Simulated kubelets apply these functions to a copy of the pod."""

from __future__ import annotations

import zlib

from maar.embedded.objects.errors import Obj
from maar.embedded.objects.metadata import now
from maar.embedded.objects.pods import set_condition

RESULT = "maar.dev/pretend-result"
"""`Failed` for a pod that ends with an error."""

FINISHED = ("Succeeded", "Failed")


def stays(pod: Obj, taint: str) -> bool:
    """Whether a pod tolerates a taint of its node without a time limit."""
    return any(
        toleration.get("key", "") in ("", taint)
        and toleration.get("effect", "") in ("", "NoExecute")
        and toleration.get("tolerationSeconds") is None
        for toleration in pod["spec"].get("tolerations") or []
    )


def _address(name: str) -> str:
    number = zlib.crc32(name.encode())
    return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


def running(pod: Obj) -> None:
    status, metadata, spec = pod["status"], pod["metadata"], pod["spec"]
    time = now()
    address = _address(metadata["uid"])
    status |= {"phase": "Running", "startTime": time, "hostIP": _address(spec["nodeName"]), "podIP": address}
    status["podIPs"] = [{"ip": address}]
    for condition in ("Initialized", "ContainersReady", "Ready"):
        set_condition(status, condition, "True")
    state = {"running": {"startedAt": time}}
    status["containerStatuses"] = [_container(container, state, ready=True) for container in spec["containers"]]


def _container(container: Obj, state: Obj, *, ready: bool) -> Obj:
    about = {"name": container["name"], "image": container["image"], "imageID": "", "restartCount": 0}
    return {**about, "ready": ready, "started": ready, "state": state}


def finished(pod: Obj) -> None:
    """The pod has ended, with success unless annotated otherwise."""
    failed = (pod["metadata"].get("annotations") or {}).get(RESULT) == "Failed"
    status = pod["status"]
    status["phase"] = "Failed" if failed else "Succeeded"
    for condition in ("ContainersReady", "Ready"):
        set_condition(status, condition, "False", "PodFailed" if failed else "PodCompleted")
    ended = {"exitCode": int(failed), "reason": "Error" if failed else "Completed", "finishedAt": now()}
    ended["startedAt"] = status.get("startTime")
    status["containerStatuses"] = [
        _container(container, {"terminated": ended}, ready=False) for container in pod["spec"]["containers"]
    ]


def rejected(pod: Obj, reason: str, message: str) -> None:
    """The kubelet did not admit the pod."""
    pod["status"] |= {"phase": "Failed", "reason": reason, "message": f"Pod was rejected: {message}"}


def unreachable(pod: Obj) -> None:
    """The node of the pod does not respond."""
    set_condition(pod["status"], "Ready", "False", "NodeNotReady")


def doomed(pod: Obj) -> None:
    """The pod is about to be deleted because of a taint of its node."""
    why = "Taint manager: deleting due to NoExecute taint"
    set_condition(pod["status"], "DisruptionTarget", "True", "DeletionByTaintManager", why)
