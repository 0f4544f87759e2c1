"""Sizes of elastic jobs: `pools`, what queues may have of them (`shares`), the sizes of a pool (`pool_sizes`), room for
workers to come (`holds`), moves (`migrating`), and the `changes` that go into the plan.

Imports `elastic`, the session and `eviction.making_room`; actions, plugins, `decide` and metrics import from here.
"""
