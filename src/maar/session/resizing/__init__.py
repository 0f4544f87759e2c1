"""Sizes of elastic jobs: pools, shares, holds, workers, and the sizes that go into the plan.

Imports `model`, `elastic` and the session; the actions and `decide` import from here.
"""
