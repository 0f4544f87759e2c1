"""The simulator: any policy on any trace, on a virtual clock, by the code that decides live.

Traces come in (`trace` is what a trace is, `traces` reads and makes them), `pool` and `cluster` run one policy on one
trace, at two depths, and `result` is what a run gives; `report` draws it. No clock and no network: the same inputs give
the same output, to the byte.
"""
