"""The scale subresource: the number of replicas, in the same form for every kind that has one."""

from __future__ import annotations

from typing import Any

from maar.embedded.http.patches import json_patch, merge
from maar.embedded.http.patching import JSON_PATCH, decoded
from maar.embedded.http.routes import Target
from maar.embedded.http.selectors import value_at
from maar.embedded.objects.api import Api, How
from maar.embedded.objects.errors import Obj, bad_request, conflict
from maar.embedded.objects.store import Item


def scale_of(api: Api, target: Target) -> Obj:
    return _scale(api.get(target.kind, target.namespace, target.name), target)


def _scale(item: Item, target: Target) -> Obj:
    paths = target.kind.scale
    assert paths is not None, "routes offer a scale only for kinds that have one"
    metadata = item.obj["metadata"]
    kept = {
        k: metadata[k] for k in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp") if k in metadata
    }
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": kept,
        "spec": {"replicas": value_at(item.obj, paths.wanted) or 0},
        "status": {"replicas": value_at(item.obj, paths.current) or 0},
    }


def set_scale(api: Api, target: Target, body: bytes, content_type: str, *, dry_run: bool = False) -> Obj:
    """Replace or patch the Scale of an object, and return the new one."""
    change = decoded(body, content_type)
    item = api.get(target.kind, target.namespace, target.name)
    scale = _scale(item, target)
    have = scale["metadata"]["resourceVersion"]
    if content_type == JSON_PATCH:
        scale = json_patch(scale, change)
    else:
        scale = merge(scale, change)
    replicas = (scale.get("spec") or {}).get("replicas")
    if not isinstance(replicas, int) or replicas < 0:
        raise bad_request("spec.replicas: must be greater than or equal to 0")
    if (scale.get("metadata") or {}).get("resourceVersion") not in (None, "", have):
        raise conflict(target.kind.group, target.kind.plural, target.name)
    paths = target.kind.scale
    assert paths is not None, "checked by _scale"
    place: dict[str, Any] = (obj := item.copy())
    for name in paths.wanted[:-1]:
        place = place.setdefault(name, {})
    place[paths.wanted[-1]] = replicas
    key = (target.namespace, target.name)
    return _scale(api.replace(target.kind, key, item, obj, How(dry_run=dry_run)), target)
