"""Thin structs for what Kubernetes sends: the parts that every object has, and the cluster's own objects.

Only fields that a decision needs are here; all others are skipped while decoding. One struct serves JSON bytes
(`msgspec.json.decode`, from an API server) and parsed YAML (`msgspec.convert`, from manifests). Types are as strict as
the API server's: a label that YAML read as a number is an error here as it is there. Nothing is interpreted yet.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Quantity = str | int | float
Quantities = dict[str, Quantity]
Time = Annotated[datetime, Meta(tz=True)]
Int = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
"""Kubernetes' int32: what does not fit is refused at the door."""
Long = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Percentage = int | str
"""An IntOrString: `2` or `50%`."""


class Wire(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """The base of all: camelCase names, unknown fields ignored."""


class OwnerReference(Wire, frozen=True):
    """Who made an object."""

    kind: str
    name: str
    api_version: str = ""
    uid: str = ""
    controller: bool = False


class Metadata(Wire, frozen=True):
    """Name, labels, annotations and times; a namespace left out means `default`."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    owner_references: tuple[OwnerReference, ...] = ()
    resource_version: str = ""
    """Where a watch goes on, and what a write that must not overwrite another's states."""


class Object(Wire, frozen=True):
    """Anything with a name."""

    metadata: Metadata

    @property
    def name(self) -> str:
        """Its name."""
        return self.metadata.name

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return self.metadata.namespace or "default"

    @property
    def key(self) -> str:
        """`namespace/name`"""
        return f"{self.namespace}/{self.metadata.name}"


class Expression(Wire, frozen=True):
    """One line of a label selector or of a node affinity term."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: tuple[str, ...] = ()


class LabelSelector(Wire, frozen=True):
    """Labels that something must have; an empty one matches everything, a missing one nothing."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[Expression, ...] = ()
