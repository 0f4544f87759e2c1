"""Patch formats: merge patch, JSON patch, strategic merge patch, and apply.

Strategic merge and apply must know which lists merge by key. A real server reads this from its types. Here a table of
list names and their keys replaces the types. It covers the lists of pods, nodes and similar kinds.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import jsonpatch

from maar.embedded.objects.errors import ApiError, Obj, bad_request, invalid

MERGE_KEYS: dict[str, tuple[str, ...]] = {
    "conditions": ("type",),
    "containers": ("name",),
    "initContainers": ("name",),
    "ephemeralContainers": ("name",),
    "volumes": ("name",),
    "env": ("name",),
    "imagePullSecrets": ("name",),
    "schedulingGates": ("name",),
    "resourceClaims": ("name",),
    "secrets": ("name",),
    "ports": ("containerPort", "port"),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "ownerReferences": ("uid",),
    "addresses": ("type",),
    "hostAliases": ("ip",),
    "podIPs": ("ip",),
    "topologySpreadConstraints": ("topologyKey",),
}
"""Lists that merge item by item, with the fields that can identify an item."""

MERGED_VALUES = ("finalizers",)
"""Lists of plain values that merge."""

ORDER, DELETE_VALUES, RETAIN = "$setElementOrder/", "$deleteFromPrimitiveList/", "$retainKeys"


def merge(target: Any, patch: Any) -> Any:
    """Apply a JSON merge patch (RFC 7386): maps merge, null removes a field, other values replace."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge(result.get(name), value)
    return result


class _Replace(jsonpatch.ReplaceOperation):
    """Also sets a missing field. The RFC forbids this, but real servers do it."""

    def apply(self, obj: Any) -> Any:
        place, name = self.pointer.to_last(obj)
        if isinstance(place, dict):
            place.setdefault(name, None)
        return super().apply(obj)


class _Patch(jsonpatch.JsonPatch):
    operations = MappingProxyType({**jsonpatch.JsonPatch.operations, "replace": _Replace})


def json_patch(document: Obj, operations: Any) -> Obj:
    """Apply a JSON patch (RFC 6902). May change the document that the caller passes."""
    if not isinstance(operations, list) or not all(isinstance(operation, dict) for operation in operations):
        raise bad_request("error decoding patch: expected a list of operations")
    result: Any = document
    for operation in operations:
        try:
            result = _Patch([operation]).apply(result, in_place=True)
        except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as error:
            where = operation.get("from", operation.get("path"))
            raise _unprocessable(f"{operation.get('op')} operation does not apply: {where}: {_why(error)}") from None
    if not isinstance(result, dict):
        raise _unprocessable("the result is not an object")
    return result


def _why(error: Exception) -> str:
    """The message of the library, except where it prints a whole object or only a key."""
    if isinstance(error, jsonpatch.JsonPatchTestFailed):
        return "the value differs"
    missing = isinstance(error, (jsonpatch.JsonPatchPathNotFound, jsonpatch.JsonPointerException))
    return "no such path" if missing else str(error)


def _unprocessable(why: str) -> ApiError:
    refusal = invalid("", "", "", [])
    refusal.message = f"the server rejected our request due to an error in our request: {why}"
    refusal.details = {}
    return refusal


def strategic(target: Any, patch: Any) -> Any:
    """Apply a strategic merge patch: a merge patch in which lists with keys merge item by item."""
    if not isinstance(patch, dict):
        return patch
    if patch.get("$patch") == "replace":
        return {name: value for name, value in patch.items() if name != "$patch"}
    result = dict(target) if isinstance(target, dict) else {}
    if RETAIN in patch:
        result = {name: value for name, value in result.items() if name in patch[RETAIN]}
    for name, value in patch.items():
        if name in ("$patch", RETAIN) or name.startswith(ORDER):
            continue
        if name.startswith(DELETE_VALUES):
            field = name.removeprefix(DELETE_VALUES)
            result[field] = [x for x in result.get(field) or [] if x not in value]
        elif value is None:
            result.pop(name, None)
        elif isinstance(value, list):
            result[name] = _merged_list(name, result.get(name) or [], value)
        elif isinstance(value, dict) and value.get("$patch") == "delete":
            result.pop(name, None)
        else:
            result[name] = strategic(result.get(name), value)
    return result


def _merged_list(name: str, old: list[Any], new: list[Any]) -> list[Any]:
    if name in MERGED_VALUES:
        return [*old, *(value for value in new if value not in old)]
    key = _merge_key(name, [*new, *old])
    if not key:
        return [strategic(None, value) for value in new]
    if any(isinstance(item, dict) and item.get("$patch") == "replace" for item in new):
        return [item for item in new if "$patch" not in item]
    result = list(old)
    for item in new:
        at = next((i for i, x in enumerate(result) if x.get(key) == item.get(key)), None)
        if item.get("$patch") == "delete":
            if at is not None:
                del result[at]
        elif at is None:
            result.append(strategic(None, item))
        else:
            result[at] = strategic(result[at], item)
    return result


def _merge_key(name: str, items: list[Any]) -> str:
    """The field that identifies the items of a list; empty if the list is replaced as a whole."""
    if not items or not all(isinstance(item, dict) for item in items):
        return ""
    named = [item for item in items if item.get("$patch") != "replace"]
    return next((key for key in MERGE_KEYS.get(name, ()) if all(key in item for item in named)), "")


def applied(target: Obj, wanted: Obj, before: Obj, *, by_name: bool) -> Obj:
    """Server-side apply: set what the manager wants now, remove what it wanted before and wants no longer.

    `by_name`: lists with keys merge (built-in kinds) instead of being replaced (custom kinds).
    """
    kept = _without(target, before, wanted)
    result: Obj = strategic(kept, wanted) if by_name else merge(kept, wanted)
    return result


def _without(target: Any, before: Any, wanted: Any) -> Any:
    """The target without the fields that are in `before` but not in `wanted`."""
    if not isinstance(target, dict) or not isinstance(before, dict):
        return target
    result = dict(target)
    for name, value in before.items():
        inner = wanted.get(name) if isinstance(wanted, dict) else None
        if inner is None:
            if isinstance(value, dict):
                result[name] = _without(result.get(name), value, {})
            else:
                result.pop(name, None)
        elif isinstance(value, dict):
            result[name] = _without(result.get(name), value, inner)
    return {name: value for name, value in result.items() if value is not None}
