"""A real cluster without containers, for tests and benchmarks: `cluster.RealCluster` starts it.

`parts` finds the binaries, `commands` has their flags, `processes` runs them, `api` sends plain requests, `clearing`
deletes what tests leave behind, `training_operator` runs Kubeflow's operator beside it. Imported by tests and bench.
"""
