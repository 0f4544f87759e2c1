"""The verbs: how HTTP requests, simulated kubelets and controllers read and change the store.

Every verb runs in one step of the event loop, so a request takes effect completely or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from maar.embedded.objects import schemas
from maar.embedded.objects.crds import kinds_of
from maar.embedded.objects.deletion import Deleted, delete, ready_to_go
from maar.embedded.objects.errors import (
    ApiError,
    Obj,
    already_exists,
    bad_request,
    conflict,
    forbidden,
    invalid_value,
    no_such_path,
    not_allowed,
    not_found,
)
from maar.embedded.objects.kinds import BUILT_IN, CRDS, NAMESPACES, PRIORITY_CLASSES, Kind
from maar.embedded.objects.metadata import checked, generated, refuse, stamped, typed, unmet
from maar.embedded.objects.pods import SYSTEM_PRIORITIES
from maar.embedded.objects.rules import NONE, RULES
from maar.embedded.objects.store import Item, Key, Store, with_version

Change = Callable[[Obj], Obj | None]
"""Takes a copy of an object that it may change, and returns the object to write, or `None` for no write."""

NAMESPACES_AT_START = ("default", "kube-node-lease", "kube-public", "kube-system")
SERVER_SET = ("uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds")


class How(NamedTuple):
    """How a write is asked for."""

    part: str = ""
    """The subresource; empty: the object."""
    dry_run: bool = False
    strict: bool = False
    """Refuse fields that the schema does not know."""


PLAIN = How()


class Api:
    """All kinds that are served, over one store."""

    def __init__(self, history: int) -> None:
        self.store = Store(history)
        self.kinds: dict[tuple[str, str, str], Kind] = {}
        """Kinds by group, version and plural."""
        self.applied: dict[tuple[str, str], Obj] = {}
        """What each manager applied, by the uid of the object and the manager."""
        for kind in BUILT_IN:
            self._serve(kind)
        for name in NAMESPACES_AT_START:
            self.create(NAMESPACES, "", {"metadata": {"name": name}})
        for name, value in SYSTEM_PRIORITIES.items():
            self.create(PRIORITY_CLASSES, "", {"metadata": {"name": name}, "value": value})

    def _serve(self, kind: Kind) -> None:
        self.kinds[kind.group, kind.version, kind.plural] = kind
        self.store.table(kind)

    def kind(self, group: str, version: str, plural: str) -> Kind:
        kind = self.kinds.get((group, version, plural))
        if kind is None:
            raise no_such_path()
        return kind

    def kind_of(self, table: tuple[str, str]) -> Kind | None:
        """The kind that this process uses to write the objects of a table."""
        return next((kind for kind in self.kinds.values() if kind.table == table), None)

    def get(self, kind: Kind, namespace: str, name: str) -> Item:
        item = self.store.table(kind).items.get((namespace, name))
        if item is None:
            raise not_found(kind.group, kind.plural, name)
        return item

    def create(self, kind: Kind, namespace: str, obj: Obj, how: How = PLAIN) -> Item:
        """Store a new object. `strict` refuses fields that the schema of a custom kind does not have."""
        obj = self._incoming(kind, namespace, obj)
        metadata = obj["metadata"]
        if metadata.get("resourceVersion"):
            raise ApiError(500, "InternalError", "resourceVersion should not be set on objects to be created")
        if kind.namespaced:
            self._need_namespace(kind, namespace, metadata.get("name") or "")
        table = self.store.table(kind)
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = generated(metadata["generateName"])
            while (namespace, metadata["name"]) in table.items:
                metadata["name"] = generated(metadata["generateName"])
        name = metadata.get("name") or ""
        refuse(kind, name, checked(obj, kind))
        stamped(obj, kind)
        self._fill(kind, obj, strict=how.strict)
        rules = RULES.get(kind.table, NONE)
        if rules.new:
            rules.new(self, obj)
        if rules.check:
            refuse(kind, name, rules.check(obj))
        if (namespace, name) in table.items:
            raise already_exists(kind.group, kind.plural, name)
        if how.dry_run:
            return Item(obj, self.store.version)
        item = self.store.write(kind, (namespace, name), obj)
        self._after_write(kind, obj)
        return item

    def update(self, kind: Kind, namespace: str, name: str, obj: Obj, how: How = PLAIN) -> Item:
        """Replace an object, or the part of it that a subresource covers."""
        obj = self._incoming(kind, namespace, obj)
        metadata = obj["metadata"]
        if (metadata.get("name") or name) != name:
            raise bad_request(
                f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})"
            )
        current = self.store.table(kind).items.get((namespace, name))
        if current is None:
            if kind.create_on_update and not how.part and not metadata.get("resourceVersion"):
                metadata["name"] = name
                return self.create(kind, namespace, obj, how)
            raise not_found(kind.group, kind.plural, name)
        version = metadata.get("resourceVersion")
        if not version and not kind.unconditional:
            refuse(kind, name, [invalid_value("metadata.resourceVersion", 0, "must be specified for an update")])
        self._same(kind, current, metadata)
        return self.replace(kind, (namespace, name), current, obj, how)

    def change(self, kind: Kind, namespace: str, name: str, change: Change, *, part: str = "") -> Item:
        """Change an object with a function, as the controllers in this process do."""
        current = self.get(kind, namespace, name)
        wanted = change(current.copy())
        if wanted is None:
            return current
        return self.replace(kind, (namespace, name), current, wanted, How(part))

    def replace(self, kind: Kind, key: Key, current: Item, obj: Obj, how: How = PLAIN) -> Item:
        """Write the next state of an object, and keep the fields that only the server sets."""
        old, part = current.obj, how.part
        new = self._kept(kind, obj, current, part)
        rules = RULES.get(kind.table, NONE)
        if not part and rules.changed:
            rules.changed(new, old)
        self._fill(kind, new, strict=how.strict)
        refuse(kind, key[1], checked(new, kind))
        if not part:
            if rules.check:
                refuse(kind, key[1], rules.check(new))
            if rules.check_change:
                refuse(kind, key[1], rules.check_change(new, old))
        if self._counts(kind, new) != self._counts(kind, old) and old["metadata"].get("generation"):
            new["metadata"]["generation"] = old["metadata"]["generation"] + 1
        self._check_finalizers(kind, new, old)
        if new == old:
            return current
        if how.dry_run:
            return Item(new, current.version)
        if ready_to_go(kind, new):
            gone = self.remove(kind, key)
            return Item(with_version(new, gone.version), gone.version)
        item = self.store.write(kind, key, new)
        self._after_write(kind, new)
        return item

    def delete(
        self, kind: Kind, namespace: str, name: str, options: Obj | None = None, *, dry_run: bool = False
    ) -> Deleted:
        """Delete an object as far as its grace period and finalizers allow now."""
        return delete(self, kind, (namespace, name), options or {}, dry_run=dry_run)

    def remove(self, kind: Kind, key: Key) -> Item:
        """Remove an object from the store. A CRD takes its kinds and their objects with it."""
        if kind is CRDS:
            for custom in kinds_of(self.store.table(CRDS).items[key].obj):
                self.kinds.pop((custom.group, custom.version, custom.plural), None)
                self.store.drop_table(custom)
        return self.store.remove(kind, key)

    def objects(self, kind: Kind) -> Iterable[Item]:
        return tuple(self.store.table(kind).items.values())

    def _incoming(self, kind: Kind, namespace: str, obj: Any) -> Obj:
        """A client's object in the form in which it is stored."""
        if not isinstance(obj, dict):
            raise bad_request("the object provided is unrecognized: expected a JSON object")
        sent = (obj.pop("apiVersion", None) or kind.api_version, obj.pop("kind", None) or kind.kind)
        if sent != (kind.api_version, kind.kind):
            raise bad_request(
                f'{sent[1]} in version "{sent[0]}" cannot be handled as a {kind.kind} in version "{kind.api_version}"'
            )
        typed(obj)
        metadata = obj["metadata"]
        if (metadata.get("namespace") or namespace) != namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        metadata.pop("namespace", None)
        if namespace:
            metadata["namespace"] = namespace
        return kind.to_store(obj) if kind.to_store else obj

    def _need_namespace(self, kind: Kind, namespace: str, name: str) -> None:
        found = self.store.table(NAMESPACES).items.get(("", namespace))
        if found is None:
            raise not_found("", "namespaces", namespace)
        if found.obj["metadata"].get("deletionTimestamp"):
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            cause = {"reason": "NamespaceTerminating", "message": f"namespace {namespace} is being terminated"}
            raise forbidden(kind.group, kind.plural, name, why, [cause | {"field": "metadata.namespace"}])

    def _same(self, kind: Kind, current: Item, metadata: Obj) -> None:
        """Refuse an update that names another uid or another resourceVersion than the stored object has."""
        have = current.obj["metadata"]
        if why := unmet(have, {"uid": metadata.get("uid")}):
            raise conflict(kind.group, kind.plural, have["name"], why)
        if metadata.get("resourceVersion") and metadata["resourceVersion"] != have["resourceVersion"]:
            raise conflict(kind.group, kind.plural, have["name"])

    def _kept(self, kind: Kind, obj: Obj, current: Item, part: str) -> Obj:
        """The new object, with the fields of the old one that this write must not change."""
        old = current.copy() if kind.custom and part else current.obj
        if part == "status":
            new = {**old, "status": obj.get("status") or {}}
            if not kind.custom:
                new["metadata"] = {**obj["metadata"], "finalizers": old["metadata"].get("finalizers")}
                new["metadata"]["ownerReferences"] = old["metadata"].get("ownerReferences")
        elif part == "finalize":
            new = {**old, "spec": obj.get("spec") or {}}
        else:
            new = dict(obj)
            if kind.status:
                new.pop("status", None)
                if "status" in old:
                    new["status"] = old["status"]
        metadata = {name: value for name, value in new["metadata"].items() if value not in (None, [], {})}
        for name in SERVER_SET:
            metadata.pop(name, None)
            if name in old["metadata"]:
                metadata[name] = old["metadata"][name]
        for name in ("name", "resourceVersion"):
            metadata[name] = old["metadata"][name]
        new["metadata"] = metadata
        return new

    def _fill(self, kind: Kind, obj: Obj, *, strict: bool) -> None:
        """Prune, default and check a custom object by its schema."""
        if not kind.custom:
            return
        if kind.status and obj["metadata"].get("generation") == 1 and "resourceVersion" not in obj["metadata"]:
            obj.pop("status", None)
        unknown = schemas.prune(obj, kind.schema)
        if unknown and strict:
            named = ", ".join(f'unknown field "{path}"' for path in unknown)
            raise bad_request(f"strict decoding error: {named}")
        schemas.fill(obj, kind.schema)
        refuse(kind, obj["metadata"]["name"], schemas.check(obj, kind.schema))

    def _counts(self, kind: Kind, obj: Obj) -> Any:
        """The part of an object whose changes increase its generation."""
        if not kind.custom:
            return obj.get("spec")
        return {
            name: value for name, value in obj.items() if name != "metadata" and not (name == "status" and kind.status)
        }

    def _check_finalizers(self, kind: Kind, new: Obj, old: Obj) -> None:
        if not old["metadata"].get("deletionTimestamp"):
            return
        before = old["metadata"].get("finalizers") or []
        added = [name for name in new["metadata"].get("finalizers") or [] if name not in before]
        if added:
            why = f"no new finalizers can be added if the object is being deleted, found new finalizers {added}"
            refuse(kind, new["metadata"]["name"], [not_allowed("metadata.finalizers", why)])

    def _after_write(self, kind: Kind, obj: Obj) -> None:
        if kind is CRDS:
            group, plural = obj["spec"]["group"], obj["spec"]["names"]["plural"]
            for known in [k for k in self.kinds if k[0] == group and k[2] == plural]:
                del self.kinds[known]
            for custom in kinds_of(obj):
                self._serve(custom)
