"""The programs of a real node: their command lines, and the files that they read.

Every function takes the folder of its binary (`home`) and the folder of the cluster (`folder`).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml
from tests.support.node.walls import ADDRESS
from tools.node import CNI

Command = list[str | Path]

NODE = "gpu-1"
PODS = "10.78.0.0/24"
PAUSE = "localhost/pause:1"


def containerd_socket(folder: Path) -> Path:
    return folder / "containerd.sock"


def containerd(folder: Path) -> Command:
    """containerd with its own folders, the network plugins of the system, and no images but ours."""
    (folder / "cni").mkdir(exist_ok=True)
    (folder / "cni" / "10-maar.conflist").write_text(json.dumps(_network()))
    config = folder / "containerd.toml"
    config.write_text(f"""\
version = 2
root = "{folder / "containerd"}"
state = "{folder / "containerd-state"}"

[grpc]
address = "{containerd_socket(folder)}"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE}"
restrict_oom_score_adj = true    # machines without the right to lower OOM scores run pods too
disable_apparmor = true

[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "overlayfs"

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{CNI}"
conf_dir = "{folder / "cni"}"
""")
    return ["containerd", "--config", config]


def kubelet(home: Path, folder: Path, *, kubeconfig: Path) -> Command:
    config = _write(
        folder / "kubelet.yaml",
        {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": "127.0.0.1",
            "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "containerRuntimeEndpoint": f"unix://{containerd_socket(folder)}",
            "podLogsDir": str(logs(folder)),
            "resolvConf": "",
            # Version 1 of cgroups works. Containers have limits, but pods and classes of pods have no cgroups.
            "failCgroupV1": False,
            "cgroupDriver": "cgroupfs",
            "cgroupsPerQOS": False,
            "enforceNodeAllocatable": ["none"],
            "failSwapOn": False,
            "localStorageCapacityIsolation": False,
            "makeIPTablesUtilChains": False,
            # A full disk of the machine is not what the tests are about.
            "evictionHard": dict.fromkeys(("memory.available", "nodefs.available", "imagefs.available"), "0%"),
            "imageGCHighThresholdPercent": 100,
            "nodeStatusUpdateFrequency": "2s",
            "syncFrequency": "10s",
        },
    )
    return [
        home / "kubelet",
        f"--config={config}",
        f"--kubeconfig={kubeconfig}",
        f"--hostname-override={NODE}",
        f"--node-ip={ADDRESS}",
        f"--root-dir={folder / 'kubelet'}",
        f"--cert-dir={folder / 'kubelet-certs'}",
    ]


def logs(folder: Path) -> Path:
    """The folder of the logs of containers."""
    return folder / "pod-logs"


def kube_proxy(home: Path, folder: Path, *, kubeconfig: Path) -> Command:
    config = _write(
        folder / "kube-proxy.yaml",
        {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "bindAddress": ADDRESS,
            "clientConnection": {"kubeconfig": str(kubeconfig)},
            "clusterCIDR": PODS,
            "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
            "healthzBindAddress": "127.0.0.1:10256",
            "hostnameOverride": NODE,
            "metricsBindAddress": "127.0.0.1:10249",
            "mode": "iptables",
        },
    )
    return [home / "kube-proxy", f"--config={config}"]


def _network() -> dict[str, Any]:
    """A bridge for all pods, on which the node is the gateway."""
    bridge = {
        "type": "bridge",
        "bridge": "pods0",
        "isDefaultGateway": True,
        "hairpinMode": True,
        "ipam": {"type": "host-local", "ranges": [[{"subnet": PODS}]]},
    }
    return {"cniVersion": "1.0.0", "name": "maar", "plugins": [bridge]}


def _write(path: Path, content: object) -> Path:
    path.write_text(yaml.safe_dump(content))
    return path
