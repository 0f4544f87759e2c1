"""A real cluster without containers, for tests and benchmarks. `cluster.RealCluster` starts it.

`parts` finds the binaries, `commands` has their flags, `processes` runs them, `api` sends plain requests, `clearing`
deletes the objects of tests, `training_operator` runs Kubeflow's operator. Tests and bench import it.
"""
