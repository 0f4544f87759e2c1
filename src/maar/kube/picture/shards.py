"""The shards of a cluster from its objects, for everybody who only looks."""

from __future__ import annotations

from maar.kube.kinds.cluster import SHARD_MAPS, SHARDS
from maar.kube.picture.picture import Picture
from maar.kube.read.shards import MAP_NAME, shard_map, wants_of
from maar.shards.sharing import Sharing


def sharing_of(picture: Picture) -> Sharing | None:
    """The shards; `None` if the cluster has no ShardMap; `BrokenMap` if it has one that cannot be used."""
    item = picture.objects.of(SHARD_MAPS).get(SHARD_MAPS.key("", MAP_NAME))
    if item is None:
        return None
    shards = sorted(picture.objects.of(SHARDS).items())
    return Sharing(shard_map(item), tuple(want for _, shard in shards for want in wants_of(shard)))
