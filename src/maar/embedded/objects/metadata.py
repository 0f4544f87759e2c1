"""What every object has: names, times, versions, owners; what is checked of them and what only the server sets."""

from __future__ import annotations

import re
import secrets
import uuid
from datetime import UTC, datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from maar.embedded.objects.errors import Cause, Obj, bad_request, invalid, invalid_value, required
from maar.embedded.objects.kinds import Kind

ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""Kubernetes' own letters for made-up names: no vowels, so no words."""

LONGEST = 253
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_SUBDOMAIN_SAYS = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character"
)
_LABEL = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


class _Owner(msgspec.Struct, rename="camel"):
    api_version: Annotated[str, Meta(min_length=1)]
    kind: Annotated[str, Meta(min_length=1)]
    name: Annotated[str, Meta(min_length=1)]
    uid: Annotated[str, Meta(min_length=1)]
    controller: bool | None = None


class _Metadata(msgspec.Struct, rename="camel"):
    """The types that the server insists on."""

    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: list[str] | None = None
    owner_references: list[_Owner] | None = None
    resource_version: str | None = None
    uid: str | None = None


def now() -> str:
    """The time as objects carry it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def stamped(obj: Obj, kind: Kind) -> None:
    """Set what only the server sets on a new object."""
    metadata = obj["metadata"]
    metadata["uid"] = str(uuid.uuid4())
    metadata["creationTimestamp"] = now()
    for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "selfLink"):
        metadata.pop(name, None)
    if kind.generation or kind.custom:
        metadata["generation"] = 1


def made_up(prefix: str) -> str:
    """A name from `generateName`."""
    return prefix[: 63 - 5] + "".join(secrets.choice(ALPHABET) for _ in range(5))


def typed(obj: Obj) -> None:
    """Refuse metadata of the wrong types, as decoding does."""
    metadata = obj.setdefault("metadata", {})
    if not isinstance(metadata, dict):
        raise bad_request("metadata: expected an object")
    try:
        msgspec.convert(metadata, _Metadata)
    except msgspec.ValidationError as error:
        raise bad_request(f"metadata cannot be decoded: {error}") from None
    for name in ("managedFields", "selfLink"):
        metadata.pop(name, None)
    for name in ("labels", "annotations", "finalizers", "ownerReferences"):
        if not metadata.get(name, True):
            del metadata[name]


def checked(obj: Obj, kind: Kind) -> list[Cause]:
    """What is wrong with an object's metadata."""
    metadata = obj["metadata"]
    name = metadata.get("name") or ""
    causes = []
    if not name:
        causes.append(required("metadata.name", "name or generateName is required"))
    elif kind.table != ("", "events") and (len(name) > LONGEST or not _SUBDOMAIN.fullmatch(name)):
        causes.append(invalid_value("metadata.name", name, _SUBDOMAIN_SAYS))
    for key, value in (metadata.get("labels") or {}).items():
        if value and not _LABEL.fullmatch(value):
            causes.append(
                invalid_value(
                    "metadata.labels",
                    value,
                    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.'",
                )
            )
        if not _LABEL.fullmatch(key.rpartition("/")[2]):
            causes.append(invalid_value("metadata.labels", key, "name part must consist of alphanumeric characters"))
    return causes


def refuse(kind: Kind, name: str, causes: list[Cause]) -> None:
    """Raise if anything is wrong."""
    if causes:
        raise invalid(kind.group, kind.kind, name, causes)
