"""Devices: per-node counts of needs beyond plain resources. Today it only finds what Maar does not account for.

A share of a GPU must fit on one card, so it is more than a number on the node. Counting it as a plain resource would
bind pods that the device plugin then refuses. Such pods, and pods with resource claims, wait with a reason. What can be
read and allocated for claims already is in `maar.kube.read.claims` and `maar.model.devices`; nothing asks it yet.
"""

from __future__ import annotations

from functools import lru_cache

from maar.kube.read.requests import Requests
from maar.kube.wire.pods import Pod

SHARED_RESOURCES = frozenset(
    {
        "volcano.sh/gpu-memory",
        "volcano.sh/gpu-number",
        "volcano.sh/vgpu-cores",
        "volcano.sh/vgpu-memory",
        "volcano.sh/vgpu-memory-percentage",
        "volcano.sh/vgpu-number",
        "nvidia.com/gpucores",
        "nvidia.com/gpumem",
        "nvidia.com/gpumem-percentage",
        "aliyun.com/gpu-core.percentage",
        "aliyun.com/gpu-mem",
        "tencent.com/vcuda-core",
        "tencent.com/vcuda-memory",
        "4paradigm.com/vgpu",
    }
)
"""Volcano's and HAMi's virtual GPUs, and the GPU shares of Alibaba, Tencent and 4paradigm."""

SHARED_ANNOTATIONS = (
    "gpu-fraction",
    "gpu-memory",
    "nvidia.com/use-gputype",
    "nvidia.com/nouse-gputype",
    "nvidia.com/use-gpuuuid",
)
"""KAI's fractions of a GPU, and HAMi's choice of a card."""


def unaccounted(pod: Pod, requests: Requests) -> str:
    """The needs of a pod that Maar does not account for, as a message; usually empty."""
    if pod.spec.resource_claims:
        names = ", ".join(claim.name for claim in pod.spec.resource_claims)
        return f"needs resource claims that Maar does not account for: {names}"
    if names := _shared(requests):
        return f"needs a share of a device, which Maar does not account for: {names}"
    if pod.metadata.annotations:
        for key in SHARED_ANNOTATIONS:
            if key in pod.metadata.annotations:
                return f"needs a share of a device, which Maar does not account for: annotation `{key}`"
    return ""


def _shared(requests: Requests) -> str:
    """The shared resources among requests; most pods request few resources, and the same ones."""
    return (_found_shared if len(requests) <= FEW else _found_shared.__wrapped__)(requests)


FEW = 16
"""Resources that a pod requests, for its requests to be kept; tuned by hand. A pod can name tens of thousands."""


@lru_cache(maxsize=4096)
def _found_shared(requests: Requests) -> str:
    return ", ".join(name for name, _ in requests if name in SHARED_RESOURCES)
