"""From plans to writes: binds, volumes, evictions, resizes, requests for nodes, what the next cycle must find.

`outbox` is the front; the other modules are its parts. Imports `snapshots`, `reporting` and `settings`.
"""
