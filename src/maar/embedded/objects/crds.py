"""Turns custom resource definitions into the kinds that the server serves."""

from __future__ import annotations

from maar.embedded.objects.errors import Obj
from maar.embedded.objects.kinds import Column, Kind, Scale


def kinds_of(crd: Obj) -> list[Kind]:
    """The kinds of a definition: one for each served version, all in one table."""
    spec = crd["spec"]
    return [_kind(spec, version) for version in spec.get("versions") or [] if version.get("served")]


def _kind(spec: Obj, version: Obj) -> Kind:
    names, extras = spec["names"], version.get("subresources") or {}
    columns = tuple(
        Column(c["name"], c.get("type", "string"), c["jsonPath"], wide=c.get("priority", 0) > 0)
        for c in version.get("additionalPrinterColumns") or []
    )
    scale = extras.get("scale")
    return Kind(
        group=spec["group"],
        version=version["name"],
        plural=names["plural"],
        kind=names["kind"],
        namespaced=spec["scope"] == "Namespaced",
        short=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        status=extras.get("status") is not None,
        scale=Scale(_path(scale["specReplicasPath"]), _path(scale["statusReplicasPath"])) if scale else None,
        generation=True,
        unconditional=False,
        fields=tuple(f["jsonPath"].removeprefix(".") for f in version.get("selectableFields") or []),
        custom=True,
        schema=(version.get("schema") or {}).get("openAPIV3Schema") or {},
        columns=columns or (Column("Age", "date", ".metadata.creationTimestamp"),),
        list_kind=names.get("listKind") or "",
        singular=names.get("singular") or "",
    )


def _path(text: str) -> tuple[str, ...]:
    return tuple(text.strip(".").split("."))
