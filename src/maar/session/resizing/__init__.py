"""Sizes of elastic jobs: `pools`, limits (`shares`), the sizes of a pool (`pool_sizes`), room for future workers
(`restoring`), moves (`migrating`, `packing`), and the `changes` that go into the plan.

Imports `elastic`, the session and `eviction.making_room`; actions, plugins, `decide` and metrics import it.
"""
