"""Several schedulers on one cluster: who owns which node and queue, as plain data (docs/shards.md).

`slots` assigns names to slots and slots to shards, `map` is the ShardMap with its transitions, `proposals` says what
should belong to another shard. All of it is pure: the objects on the cluster are read and written by `maar.kube`.
"""
