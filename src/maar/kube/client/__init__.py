"""The API server as a client sees it.

`access` and `credentials` are who we are, `transport`, `pool` and `connection` carry requests, `api` knows what to ask,
`streams` decodes lists and watches, `informer` keeps one kind up to date, `discovery` finds the served kinds, and
`errors` has every failure. Imports `wire` only. `write` and all above `kube` import from here; `kinds`, `read` and
`picture` do no I/O and must not.
"""
