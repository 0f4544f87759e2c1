"""API discovery: groups, versions, resources, and the small part of OpenAPI that kubectl needs."""

from __future__ import annotations

import re

from maar.embedded.objects.api import Api
from maar.embedded.objects.errors import Obj, no_such_path
from maar.embedded.objects.kinds import VERBS, Kind

OPEN_API_V2 = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"

VERSION: Obj = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.3-maar-embedded",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "2026-11-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "",
}
"""The Kubernetes version that the server simulates."""


def core_versions() -> Obj:
    """`/api`"""
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def groups(api: Api) -> Obj:
    """`/apis`"""
    names = dict.fromkeys(kind.group for kind in api.kinds.values() if kind.group)
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(api, name) for name in names]}


def group(api: Api, name: str) -> Obj:
    """`/apis/<group>`"""
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(api, name)}


def _group(api: Api, name: str) -> Obj:
    versions = sorted({kind.version for kind in api.kinds.values() if kind.group == name}, key=_newest_first)
    if not versions:
        raise no_such_path()
    named = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": named, "preferredVersion": named[0]}


def _newest_first(version: str) -> tuple[int, int, int, str]:
    """Sort key of versions: stable, then beta, then alpha, then other names; high numbers before low ones."""
    match = re.fullmatch(r"v(\d+)(?:(alpha|beta)(\d+))?", version)
    if match is None:
        return 3, 0, 0, version
    major, stage, minor = match.groups()
    return {None: 0, "beta": 1, "alpha": 2}[stage], -int(major), -int(minor or 0), version


def resources(api: Api, name: str, version: str) -> Obj:
    """`/api/v1`, `/apis/<group>/<version>`"""
    kinds = [kind for kind in api.kinds.values() if (kind.group, kind.version) == (name, version)]
    if not kinds:
        raise no_such_path()
    found = [line for kind in kinds for line in _resource(kind)]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": kinds[0].api_version,
        "resources": found,
    }


def _resource(kind: Kind) -> list[Obj]:
    main: Obj = {
        "name": kind.plural,
        "singularName": kind.singular or kind.kind.lower(),
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(VERBS),
    }
    if kind.short:
        main["shortNames"] = list(kind.short)
    if kind.categories:
        main["categories"] = list(kind.categories)
    lines = [main]
    for name, sub_group, version, sub_kind in kind.subresources():
        line: Obj = {"name": f"{kind.plural}/{name}", "singularName": "", "namespaced": kind.namespaced}
        line |= {
            "kind": sub_kind,
            "verbs": ["create"] if name in ("binding", "eviction", "token") else ["get", "patch", "update"],
        }
        if sub_group != kind.group:
            line |= {"group": sub_group, "version": version}
        lines.append(line)
    return lines


def open_api_index(api: Api) -> Obj:
    """`/openapi/v3`"""
    paths = dict.fromkeys(kind.path.lstrip("/") for kind in api.kinds.values())
    return {"paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}"} for path in paths}}


def open_api(api: Api, path: str) -> Obj:
    """`/openapi/v3/<path>`: every kind can be patched, and the server validates fields.

    kubectl needs no more than this before it applies a manifest.
    """
    kinds = [kind for kind in api.kinds.values() if kind.path == f"/{path}"]
    if not kinds:
        raise no_such_path()
    parameters = [
        {"name": name, "in": "query", "schema": {"type": "string"}}
        for name in ("dryRun", "fieldManager", "fieldValidation")
    ]
    paths: Obj = {}
    for kind in kinds:
        about = {"group": kind.group, "version": kind.version, "kind": kind.kind}
        where = f"{kind.path}/namespaces/{{namespace}}" if kind.namespaced else kind.path
        operation = {"parameters": parameters, "x-kubernetes-group-version-kind": about, "responses": {}}
        paths[f"{where}/{kind.plural}/{{name}}"] = {"patch": operation}
    info = {"title": "Maar embedded", "version": VERSION["gitVersion"]}
    return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": {}}}
