"""kubectl with the embedded server: get, describe, apply, delete, and other common commands.

`make test` builds a kubectl and sets MAAR_REAL, so a missing binary is a failure. Else the installed one is used.
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.real.parts import available, folders

from maar.embedded.parts.jobs import Jobs
from maar.embedded.parts.kubelets import Kubelets
from maar.embedded.server import EmbeddedServer

CRDS = Path(__file__).parents[2] / "deploy" / "crds"
Kubectl = Callable[..., str]

pytestmark = pytest.mark.real

POD = """
apiVersion: v1
kind: Pod
metadata: {name: p1, labels: {app: web}}
spec:
  nodeName: n1
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: "train:1", resources: {requests: {cpu: "1"}}}
"""
NODE = """
apiVersion: v1
kind: Node
metadata: {name: n1}
status:
  capacity: {cpu: "8", memory: 32Gi, pods: "110", nvidia.com/gpu: "8"}
"""
GROUP = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: g1}
spec: {minMember: 2}
"""


@pytest.fixture(scope="module")
def binary() -> str:
    """The kubectl that `make real` built, else the installed one."""
    built = available("kubectl")
    if built:
        return str(folders()["kubectl"] / "kubectl")
    if (mine := shutil.which("kubectl")) and not os.environ.get("MAAR_REAL"):
        return mine
    (pytest.fail if os.environ.get("MAAR_REAL") else pytest.skip)(built.why_not)


@pytest.fixture
def kubectl(binary: str, tmp_path: Path) -> Iterator[Kubectl]:
    """Run kubectl with a server of its own. `stdin` is the file that `-f -` reads."""
    server = EmbeddedServer(parts=[Kubelets(start=0.0, stop=0.0), Jobs()]).start()
    config = server.kubeconfig(tmp_path / "kubeconfig")
    environment = {**os.environ, "KUBECONFIG": str(config), "HOME": str(tmp_path)}

    def run(*arguments: str, stdin: str = "", fails: bool = False) -> str:
        command = [binary, *arguments]
        done = subprocess.run(command, input=stdin, env=environment, text=True, capture_output=True, timeout=60)
        assert fails == (done.returncode != 0), done.stderr
        return done.stderr if fails else done.stdout

    yield run
    server.stop()


def test_get(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=f"{NODE}---{POD}")
    kubectl("wait", "--for=condition=Ready", "pod/p1", "--timeout=20s")
    lines = kubectl("get", "pods", "-o", "wide").splitlines()
    assert ["NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "NODE"] == lines[0].split()[:7]
    assert ["p1", "1/1", "Running", "0"] == lines[1].split()[:4]
    assert "n1" == lines[1].split()[6]
    assert ["n1", "Ready", "<none>"] == kubectl("get", "nodes", "--no-headers").split()[:3]
    assert "pod/p1\n" == kubectl("get", "po", "-l", "app=web", "-o", "name")
    assert "Running" == kubectl("get", "pod", "p1", "-o", "jsonpath={.status.phase}")
    assert "default" in kubectl("get", "ns", "-o", "yaml")
    assert "NotFound" in kubectl("get", "pod", "missing", fails=True)
    assert "default" in kubectl("get", "pods", "-A", "--no-headers").split()[0]


def test_describe(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=f"{NODE}---{POD}")
    kubectl("wait", "--for=condition=Ready", "pod/p1", "--timeout=20s")
    uid = kubectl("get", "pod", "p1", "-o", "jsonpath={.metadata.uid}")
    event = f"""
apiVersion: v1
kind: Event
metadata: {{name: p1.1, namespace: default}}
involvedObject: {{apiVersion: v1, kind: Pod, name: p1, namespace: default, uid: {uid}}}
reason: Scheduled
message: it fits
type: Normal
source: {{component: maar}}
"""
    kubectl("apply", "-f", "-", stdin=event)
    header, row = kubectl("get", "events").splitlines()
    assert "LAST SEEN TYPE REASON OBJECT MESSAGE" == " ".join(header.split())
    assert "Normal Scheduled pod/p1 it fits" == " ".join(row.split()[1:])
    pod = kubectl("describe", "pod", "p1")
    assert "n1/" in pod
    assert "it fits" in pod
    node = kubectl("describe", "node", "n1")
    assert "Non-terminated Pods:          (1 in total)" in node
    assert "cpu                1 (12%)" in node


def test_apply(kubectl: Kubectl) -> None:
    assert "pod/p1 created\n" == kubectl("apply", "-f", "-", stdin=POD)
    assert "pod/p1 unchanged\n" == kubectl("apply", "-f", "-", stdin=POD)
    changed = POD.replace("app: web", "tier: front")
    assert "pod/p1 configured\n" == kubectl("apply", "-f", "-", stdin=changed)
    assert '{"tier":"front"}' == kubectl("get", "pod", "p1", "-o", "jsonpath={.metadata.labels}")
    other = POD.replace("name: p1", "name: p2")
    assert "pod/p2 serverside-applied\n" == kubectl("apply", "--server-side", "-f", "-", stdin=other)
    assert "pod/p2 serverside-applied\n" == kubectl("apply", "--server-side", "-f", "-", stdin=other)
    refused = kubectl("apply", "-f", "-", stdin=POD.replace("nodeName: n1", "nodeName: n2"), fails=True)
    assert "pod updates may not change fields" in refused


def test_our_custom_resources(kubectl: Kubectl) -> None:
    assert "ensure CRDs are installed first" in kubectl("apply", "-f", "-", stdin=GROUP, fails=True)
    kubectl("apply", "-f", str(CRDS))
    kubectl("wait", "--for=condition=Established", "crd/podgroups.scheduling.volcano.sh", "--timeout=20s")
    assert "podgroup.scheduling.volcano.sh/g1 created\n" == kubectl("apply", "-f", "-", stdin=GROUP)
    header, row = kubectl("get", "podgroups.scheduling.volcano.sh").splitlines()
    assert ["NAME", "STATUS", "MINMEMBER", "RUNNINGS", "AGE"] == header.split()
    assert ["g1", "2"] == row.split()[:2]
    assert "g1" in kubectl("get", "pg")
    assert "unknown field" in kubectl("apply", "-f", "-", stdin=GROUP.replace("minMember", "minMembers"), fails=True)
    assert "Min Member:  2" in kubectl("describe", "pg", "g1")


def test_delete(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=f"{NODE}---{POD}")
    kubectl("wait", "--for=condition=Ready", "pod/p1", "--timeout=20s")
    assert kubectl("delete", "pod", "p1").startswith('pod "p1" deleted')  # kubectl waits until the pod is gone
    assert "NotFound" in kubectl("get", "pod", "p1", fails=True)
    assert kubectl("delete", "-f", "-", stdin=NODE).startswith('node "n1" deleted')


def test_a_job_and_its_pods(kubectl: Kubectl) -> None:
    job = """
apiVersion: batch/v1
kind: Job
metadata: {name: j1}
spec:
  parallelism: 2
  completions: 2
  template:
    metadata:
      annotations: {maar.dev/pretend-runtime: "0"}
    spec:
      restartPolicy: Never
      nodeName: n1
      containers: [{name: main, image: "train:1"}]
"""
    kubectl("apply", "-f", "-", stdin=f"{NODE}---{job}")
    kubectl("wait", "--for=condition=Complete", "job/j1", "--timeout=20s")
    assert ["j1", "Complete", "2/2"] == kubectl("get", "jobs", "--no-headers").split()[:3]
    kubectl("delete", "job", "j1")
    kubectl("wait", "--for=delete", "pod", "-l", "job-name=j1", "--timeout=20s")


def test_other_common_commands(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=f"{NODE}---{POD}")
    kubectl("label", "node", "n1", "zone=a")
    kubectl("taint", "node", "n1", "team=x:NoSchedule")
    kubectl("cordon", "n1")
    assert "Ready,SchedulingDisabled" in kubectl("get", "nodes")
    kubectl("wait", "--for=condition=Ready", "pod/p1", "--timeout=20s")
    assert "drained" in kubectl("drain", "n1", "--force", "--timeout=20s")
    kubectl("patch", "node", "n1", "-p", '{"spec":{"unschedulable":null}}')
    assert "SchedulingDisabled" not in kubectl("get", "nodes")
    assert "v1.36" in kubectl("version")
    assert "podgroups" in kubectl("api-resources")
    assert "protobuf, which the embedded server does not read" in kubectl("create", "namespace", "team", fails=True)
    assert "protobuf, which the embedded server does not read" in kubectl("auth", "can-i", "get", "pods", fails=True)
