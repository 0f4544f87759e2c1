"""Object metadata: the checks on names, labels and owners, and the fields that only the server sets."""

from __future__ import annotations

import re
import secrets
import time
import uuid
from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from maar.embedded.objects.errors import Cause, Obj, bad_request, invalid, invalid_value, required
from maar.embedded.objects.kinds import Kind

ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""The letters that Kubernetes uses in generated names. Without vowels, they form no words."""

LONGEST = 253
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_SUBDOMAIN_RULE = (
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
    """The types that the server requires."""

    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: list[str] | None = None
    owner_references: list[_Owner] | None = None
    resource_version: str | None = None
    uid: str | None = None


CLOCK: ContextVar[Callable[[], float]] = ContextVar("clock", default=time.time)
"""Seconds since 1970 on this server. A program that lets time pass faster sets it before it starts the server."""


def now(later: float = 0.0) -> str:
    """The current time, or some seconds later, in the format of object timestamps."""
    return datetime.fromtimestamp(CLOCK.get()() + later, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def stamped(obj: Obj, kind: Kind) -> None:
    """Set the fields of a new object that only the server sets."""
    metadata = obj["metadata"]
    metadata["uid"] = str(uuid.uuid4())
    metadata["creationTimestamp"] = now()
    for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "selfLink"):
        metadata.pop(name, None)
    if kind.generation or kind.custom:
        metadata["generation"] = 1


def generated(prefix: str) -> str:
    return prefix[: 63 - 5] + "".join(secrets.choice(ALPHABET) for _ in range(5))


def typed(obj: Obj) -> None:
    """Refuse metadata with wrong types, as a real server does when it decodes."""
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
    """The errors in the metadata of an object."""
    metadata = obj["metadata"]
    name = metadata.get("name") or ""
    causes = []
    if not name:
        causes.append(required("metadata.name", "name or generateName is required"))
    elif kind.table != ("", "events") and (len(name) > LONGEST or not _SUBDOMAIN.fullmatch(name)):
        causes.append(invalid_value("metadata.name", name, _SUBDOMAIN_RULE))
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


def unmet(metadata: Obj, wanted: Obj) -> str:
    """The first precondition that an object does not meet, in the words of Kubernetes; empty if it meets all."""
    for name, words in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        if wanted.get(name) and wanted[name] != metadata[name]:
            have = f"{words} in object meta: {metadata[name]}"
            return f"Precondition failed: {words} in precondition: {wanted[name]}, {have}"
    return ""


def refuse(kind: Kind, name: str, causes: list[Cause]) -> None:
    """Raise an error if there are causes."""
    if causes:
        raise invalid(kind.group, kind.kind, name, causes)
