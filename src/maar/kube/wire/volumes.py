"""Thin structs for storage, with the fields of Kubernetes' core/v1 and storage/v1.

See `maar.kube.wire.base` for the rules that all structs follow.
"""

from __future__ import annotations

from msgspec import field

from maar.kube.wire.base import Int, LabelSelector, Object, Quantities, Quantity, Wire
from maar.kube.wire.pods import NodeSelector


class ClaimResources(Wire, frozen=True):
    requests: Quantities = field(default_factory=dict)


class ClaimSpec(Wire, frozen=True):
    volume_name: str = ""
    storage_class_name: str | None = None
    """`None` means the default class, an empty string no class."""
    access_modes: tuple[str, ...] = ()
    volume_mode: str = "Filesystem"
    resources: ClaimResources = ClaimResources()
    selector: LabelSelector | None = None
    """Selects existing volumes by their labels."""


class Phased(Wire, frozen=True):
    """A status of which only the phase is used."""

    phase: str = ""


class PersistentVolumeClaim(Object, frozen=True):
    """A claim; an annotation names the node that was selected for it."""

    spec: ClaimSpec = ClaimSpec()
    status: Phased = Phased()


class ClaimReference(Wire, frozen=True):
    """The claim of a volume."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class CsiSource(Wire, frozen=True):
    """The driver of a volume, and the volume's name in the driver; the limits of nodes count these names."""

    driver: str = ""


class VolumeNodeAffinity(Wire, frozen=True):
    """The nodes that can access a volume."""

    required: NodeSelector | None = None


class VolumeSpec(Wire, frozen=True):
    claim_ref: ClaimReference | None = None
    storage_class_name: str = ""
    capacity: Quantities = field(default_factory=dict)
    access_modes: tuple[str, ...] = ()
    volume_mode: str = "Filesystem"
    node_affinity: VolumeNodeAffinity = VolumeNodeAffinity()
    csi: CsiSource | None = None


class PersistentVolume(Object, frozen=True):
    spec: VolumeSpec = VolumeSpec()
    status: Phased = Phased()


class TopologyExpression(Wire, frozen=True):
    """Allowed values of one node label."""

    key: str = ""
    values: tuple[str, ...] = ()


class TopologyTerm(Wire, frozen=True):
    """Expressions on the labels of a node; all must match."""

    match_label_expressions: tuple[TopologyExpression, ...] = ()


class StorageClass(Object, frozen=True):
    """How volumes are provisioned, and whether Kubernetes waits until a node is selected."""

    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: tuple[TopologyTerm, ...] = ()


class CsiDriverSpec(Wire, frozen=True):
    storage_capacity: bool = False


class CsiDriver(Object, frozen=True):
    """A storage driver, and whether its free storage is stated in CSIStorageCapacity objects."""

    spec: CsiDriverSpec = CsiDriverSpec()


class CsiStorageCapacity(Object, frozen=True):
    """Storage of one class that nodes with some labels can get."""

    node_topology: LabelSelector | None = None
    storage_class_name: str = ""
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None


class DriverLimit(Wire, frozen=True):
    """How many volumes of a driver a node can have; `None` means no limit."""

    count: Int | None = None


class NodeDriver(Wire, frozen=True):
    name: str = ""
    allocatable: DriverLimit = DriverLimit()


class CsiNodeSpec(Wire, frozen=True):
    drivers: tuple[NodeDriver, ...] = ()


class CsiNode(Object, frozen=True):
    """The storage drivers of a node; has the name of the node."""

    spec: CsiNodeSpec = CsiNodeSpec()
