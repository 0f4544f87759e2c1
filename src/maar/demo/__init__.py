"""The story that `maar demo` tells: a cluster in this process, its acts, and the score at the end.

Imports `embedded`, `kube` and `controller`; only `cli` imports from here.
"""
