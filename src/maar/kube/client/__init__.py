"""The API server as a client sees it: credentials, connections, requests, errors, discovery and watches.

Imports `wire`. `write` and everything above `kube` import from here; `kinds`, `read` and `picture` do no I/O and must
not.
"""
