"""The story that `maar demo` tells: a cluster in this process, its acts, and the score at the end.

box      the cluster, with `maar run` as a child process; manifests: the objects it creates
story    the acts; breathing: the acts of elastic jobs; teller, picture: how they are told
score    a ledger of every write to pods; sizes: the same for elastic jobs

Imports `embedded`, `kube` and `config`. Only `cli` imports from here.
"""
