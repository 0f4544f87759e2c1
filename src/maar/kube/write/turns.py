"""Fair turns: what several tenants wait for, taken from one tenant after the other.

A tenant is a namespace. However much one of them wants, another one waits for one turn of each, not for all of it.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

T = TypeVar("T")


class TenantTurns(Generic[T]):
    """Items by tenant, each item once; those of one tenant stay in order."""

    def __init__(self) -> None:
        # Not `dict`: finding its first entry takes the longer, the more entries before it were removed.
        self._items: OrderedDict[str, OrderedDict[T, None]] = OrderedDict()
        """The tenant whose turn it is comes first."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def put(self, tenant: str, item: T) -> None:
        """Add an item, unless it waits already."""
        items = self._items.setdefault(tenant, OrderedDict())
        self._count += item not in items
        items.setdefault(item)

    def take(self) -> T:
        """Remove the next item; its tenant has the next turn after all others."""
        tenant, items = next(iter(self._items.items()))
        item, _ = items.popitem(last=False)
        self._items.move_to_end(tenant)
        self._removed(tenant)
        return item

    def discard(self, tenant: str, item: T) -> None:
        items = self._items.get(tenant)
        if items is not None and item in items:
            del items[item]
            self._removed(tenant)

    def drop_from_largest(self) -> T:
        """Remove the last item of the tenant that has most."""
        tenant = max(self._items, key=lambda tenant: len(self._items[tenant]))
        item, _ = self._items[tenant].popitem()
        self._removed(tenant)
        return item

    def _removed(self, tenant: str) -> None:
        """An item was removed: a tenant without others has no turn."""
        self._count -= 1
        if not self._items[tenant]:
            del self._items[tenant]


def tenant_of(path: str) -> str:
    """The namespace of the object at a path; empty if it has none."""
    return path.partition("/namespaces/")[2].partition("/")[0]
