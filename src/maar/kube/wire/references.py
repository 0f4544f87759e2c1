"""How Kubernetes names one object in another: in an event, for example."""

from __future__ import annotations

from typing import NamedTuple

from maar.kube.wire.api_resources import PODS, Resource
from maar.kube.wire.base import Object


class Reference(NamedTuple):
    """One object, as events and owners name it."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""

    @classmethod
    def to(cls, resource: Resource[Object], item: Object) -> Reference:
        namespace = item.namespace if resource.namespaced else ""
        return cls(resource.api_version, resource.kind, namespace, item.name, item.metadata.uid)

    def document(self) -> dict[str, str]:
        fields = zip(("apiVersion", "kind", "namespace", "name", "uid"), self, strict=True)
        return {key: value for key, value in fields if value}


def pod_reference(key: str, uid: str) -> Reference:
    namespace, _, name = key.partition("/")
    return Reference(PODS.api_version, PODS.kind, namespace, name, uid)
