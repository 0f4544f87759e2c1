"""Thin structs for ProvisioningRequests of Cluster Autoscaler.

See `maar.kube.wire.base` for the rules that all structs follow.
"""

from __future__ import annotations

from maar.kube.wire.base import Object, Time, Wire


class StatusCondition(Wire, frozen=True):
    type: str
    status: str = "Unknown"
    message: str = ""
    last_transition_time: Time | None = None


class ProvisioningSpec(Wire, frozen=True):
    provisioning_class_name: str = ""


class ProvisioningStatus(Wire, frozen=True):
    conditions: tuple[StatusCondition, ...] = ()


class ProvisioningRequest(Object, frozen=True):
    """A request to an autoscaler for room for a whole gang."""

    spec: ProvisioningSpec = ProvisioningSpec()
    status: ProvisioningStatus = ProvisioningStatus()
