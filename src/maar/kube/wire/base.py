"""Thin structs for the parts that all Kubernetes objects share.

Structs have only the fields that a decision needs; decoding skips all others. The same struct decodes JSON bytes
(`msgspec.json.decode`, from an API server) and parsed YAML (`msgspec.convert`, from manifests). Types are as strict as
in the API server: a label that YAML parses as a number is an error. Nothing is interpreted here.
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
"""Kubernetes' int32; decoding rejects larger numbers."""
Long = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Percentage = int | str
"""An IntOrString: `2` or `50%`."""


class Wire(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """The base of all structs: camelCase names, unknown fields ignored."""


class OwnerReference(Wire, frozen=True):
    kind: str
    name: str
    api_version: str = ""
    uid: str = ""
    """Distinguishes an owner from an earlier one of the same name."""
    controller: bool = False


class Metadata(Wire, frozen=True):
    """The metadata of an object; an empty namespace means `default`."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    owner_references: tuple[OwnerReference, ...] = ()
    generation: Long = 0
    """1 when the object is created; every change of its spec adds 1."""
    resource_version: str = ""
    """A watch continues from it; a write states it so that it does not overwrite a newer version."""


class Object(Wire, frozen=True):
    """An object with a name."""

    metadata: Metadata

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def namespace(self) -> str:
        return self.metadata.namespace or "default"

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.metadata.name}"


class Expression(Wire, frozen=True):
    """One expression of a label selector or of a node affinity term."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: tuple[str, ...] = ()


class LabelSelector(Wire, frozen=True):
    """A label selector; an empty selector matches everything, a missing one nothing."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[Expression, ...] = ()
