"""The simulator: any policy on any trace, on a virtual clock.

`trace` is what a trace is, `traces` reads and makes them. `pool` asks an algorithm on counted GPUs, `cluster` runs
`decide` on virtual nodes; `models` say how jobs progress. `result` is what a run gives, `report` draws it. No network,
and the same inputs give the same bytes. Imports the pure half; `cli` and tests import from here.
"""
