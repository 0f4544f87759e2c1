"""One of several schedulers that share a cluster: what it holds, what moves, and what it wants (docs/shards.md).

`front` is for the loop and the composition root; the other modules are its parts.
"""
