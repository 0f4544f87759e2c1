"""The story of `maar demo`: a cluster in this process, the acts, and the score at the end.

box      the cluster, with `maar run` as a child process; manifests: the objects that it creates; page: `maar web`
story    the acts; breathing: the acts about elastic jobs; teller, picture: their output
score    a ledger of every write to pods; sizes: the same for elastic jobs

Imports `embedded`, `kube` and `config`. Only `cli` imports this package.
"""
