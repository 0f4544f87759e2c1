"""The client of the API server.

`access` and `credentials` hold the identity. `transport`, `pool` and `connection` send requests. `api` builds them,
`streams` decodes lists and watches, `informer` keeps one kind up to date, `discovery` finds the served kinds, `errors`
defines every failure. `write` and the layers above `kube` import from here; `kinds`, `read` and `picture` must not.
"""
