"""Thin structs for storage: claims, volumes, their classes, and how many volumes a node can hold.

Fields are as in Kubernetes' core/v1 and storage/v1; see `maar.kube.wire.cluster` for the rules that all structs follow.
"""

from __future__ import annotations

from msgspec import field

from maar.kube.wire.base import Int, LabelSelector, Metadata, Object, OwnerReference, Quantities, Wire
from maar.kube.wire.pods import NodeSelector


class ClaimResources(Wire, frozen=True):
    """How much room a claim asks for."""

    requests: Quantities = field(default_factory=dict)


class ClaimSpec(Wire, frozen=True):
    """What a claim asks for, and what it got."""

    volume_name: str = ""
    storage_class_name: str | None = None
    """`None` means the default class, an empty text none at all."""
    access_modes: tuple[str, ...] = ()
    volume_mode: str = "Filesystem"
    resources: ClaimResources = ClaimResources()
    selector: LabelSelector | None = None
    """By the labels of volumes that are there already."""


class Phased(Wire, frozen=True):
    """A status of which only the phase matters."""

    phase: str = ""


class ClaimOwner(OwnerReference, frozen=True):
    """Whose claim it is; the UID tells a pod from its predecessor of the same name."""

    uid: str = ""


class ClaimMetadata(Metadata, frozen=True):
    """A claim's name, annotations and owners."""

    owner_references: tuple[ClaimOwner, ...] = ()


class PersistentVolumeClaim(Object, frozen=True):
    """A claim; the node that was selected for it is in an annotation."""

    metadata: ClaimMetadata
    spec: ClaimSpec = ClaimSpec()
    status: Phased = Phased()


class ClaimReference(Wire, frozen=True):
    """The claim that a volume belongs to."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class CsiSource(Wire, frozen=True):
    """The driver that serves a volume, and its name there: what a node's limit counts."""

    driver: str = ""
    volume_handle: str = ""


class VolumeNodeAffinity(Wire, frozen=True):
    """From which nodes a volume can be reached."""

    required: NodeSelector | None = None


class VolumeSpec(Wire, frozen=True):
    """A volume."""

    claim_ref: ClaimReference | None = None
    storage_class_name: str = ""
    capacity: Quantities = field(default_factory=dict)
    access_modes: tuple[str, ...] = ()
    volume_mode: str = "Filesystem"
    node_affinity: VolumeNodeAffinity = VolumeNodeAffinity()
    csi: CsiSource | None = None


class PersistentVolume(Object, frozen=True):
    """A volume."""

    spec: VolumeSpec = VolumeSpec()
    status: Phased = Phased()


class TopologyExpression(Wire, frozen=True):
    """Values of one node label."""

    key: str = ""
    values: tuple[str, ...] = ()


class TopologyTerm(Wire, frozen=True):
    """Labels that all must hold."""

    match_label_expressions: tuple[TopologyExpression, ...] = ()


class StorageClass(Object, frozen=True):
    """How volumes are made, and whether only once a node has been chosen."""

    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: tuple[TopologyTerm, ...] = ()


class DriverLimit(Wire, frozen=True):
    """How many volumes of a driver a node holds; `None`: no limit."""

    count: Int | None = None


class NodeDriver(Wire, frozen=True):
    """A driver on a node."""

    name: str = ""
    topology_keys: tuple[str, ...] = ()
    allocatable: DriverLimit = DriverLimit()


class CsiNodeSpec(Wire, frozen=True):
    """The drivers on a node."""

    drivers: tuple[NodeDriver, ...] = ()


class CsiNode(Object, frozen=True):
    """A node as the storage drivers see it; named like its node."""

    spec: CsiNodeSpec = CsiNodeSpec()
