"""The simulator: any policy on any trace, on a virtual clock.

`trace` defines a trace and `traces` reads and writes traces. `pool` asks an algorithm about counted GPUs, `cluster`
runs `decide` on virtual nodes, and `models` say how jobs progress; `papers` reproduces published results. `result`
holds the outcome of a run and `report` draws it. Uses no network; equal inputs give equal bytes. Imports the pure half;
`cli` and tests import it.
"""
