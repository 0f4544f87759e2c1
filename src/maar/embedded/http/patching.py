"""PATCH requests: read the object, change it and write it back in one step of the event loop."""

from __future__ import annotations

from typing import Any

from maar.embedded.http.patches import applied, json_patch, merge, strategic
from maar.embedded.http.routes import Target
from maar.embedded.objects.api import Api, How
from maar.embedded.objects.errors import ApiError, Obj, bad_request, conflict, not_found
from maar.embedded.objects.metadata import typed
from maar.embedded.objects.store import Item, decode
from maar.model.documents import DocumentError, documents

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = ("application/apply-patch+yaml", "application/apply-patch+cbor")


def decoded(body: bytes, content_type: str = "") -> Any:
    """The body of a request: JSON, or YAML if the content type says so."""
    try:
        return decode(body)
    except ValueError as error:
        if "yaml" not in content_type:
            raise bad_request(f"the object provided is unrecognized: {error}") from None
    try:
        return next(documents(body), None)
    except DocumentError as error:
        raise bad_request(f"error parsing YAML: {error}") from None


def without_nulls(value: Any) -> Any:
    """The value without null fields, which the server treats as missing."""
    if isinstance(value, dict):
        return {name: without_nulls(inner) for name, inner in value.items() if inner is not None}
    return [without_nulls(inner) for inner in value] if isinstance(value, list) else value


def patch(api: Api, target: Target, content_type: str, body: bytes, how: How, manager: str = "") -> tuple[Item, bool]:
    """The patched object, and whether the request created it."""
    kind, key = target.kind, (target.namespace, target.name)
    if content_type not in (JSON_PATCH, MERGE_PATCH, STRATEGIC, *APPLY) or (content_type == STRATEGIC and kind.custom):
        known = ", ".join((JSON_PATCH, MERGE_PATCH, *([] if kind.custom else [STRATEGIC]), APPLY[0]))
        message = f"the body of the request was in an unknown format - accepted media types include: {known}"
        raise ApiError(415, "UnsupportedMediaType", message)
    change = decoded(body, content_type)
    current = api.store.table(kind).items.get(key)
    if content_type in APPLY and not manager:
        raise bad_request(
            'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch'
        )
    if current is None:
        if content_type not in APPLY or target.part:
            raise not_found(kind.group, kind.plural, target.name)
        change.setdefault("metadata", {}).setdefault("name", target.name)
        made = api.create(kind, target.namespace, without_nulls(change), how)
        if not how.dry_run:
            api.applied[made.obj["metadata"]["uid"], manager] = decoded(body, content_type)
        return made, True
    old = current.copy()
    shown = {"kind": kind.kind, "apiVersion": kind.api_version, **(kind.from_store(old) if kind.from_store else old)}
    new = _patched(api, shown, content_type, change, by_name=not kind.custom, manager=manager)
    new = _checked(target, without_nulls(new), current)
    if kind.to_store:
        new = kind.to_store(new)
    written = api.replace(kind, key, current, new, how)
    if content_type in APPLY and not how.dry_run:
        api.applied[old["metadata"]["uid"], manager] = decoded(body, content_type)
    return written, False


def _patched(api: Api, obj: Obj, content_type: str, change: Any, *, by_name: bool, manager: str) -> Obj:
    if content_type == JSON_PATCH:
        return json_patch(obj, change)
    if not isinstance(change, dict):
        raise bad_request("error decoding patch: expected an object")
    if content_type in APPLY:
        before = api.applied.get((obj["metadata"]["uid"], manager), {})
        return applied(obj, change, before, by_name=by_name)
    result: Obj = merge(obj, change) if content_type == MERGE_PATCH else strategic(obj, change)
    return result


def _checked(target: Target, obj: Obj, current: Item) -> Obj:
    """Refuse a patch that changes the kind, name, uid or version of the object."""
    kind = target.kind
    sent = (obj.pop("kind", kind.kind), obj.pop("apiVersion", kind.api_version))
    if sent != (kind.kind, kind.api_version):
        raise bad_request(f"a patch cannot change the kind or the version: {sent[0]}, {sent[1]}")
    typed(obj)
    have, metadata = current.obj["metadata"], obj["metadata"]
    if metadata.get("name") != have["name"]:
        raise bad_request(
            f"the name of the object ({metadata.get('name')}) does not match the name on the URL ({have['name']})"
        )
    if metadata.get("uid") != have["uid"]:
        why = f"Precondition failed: UID in precondition: {metadata.get('uid')}, UID in object meta: {have['uid']}"
        raise conflict(kind.group, kind.plural, have["name"], why)
    if metadata.get("resourceVersion") not in (None, "", have["resourceVersion"]):
        raise conflict(kind.group, kind.plural, have["name"])
    return obj
