"""The loop of a running Maar: events in, cycles, plans out.

main         builds the parts of one `maar run` and runs them; scheduler: one running Maar
watching     from watches to the picture; cache: assume, confirm, forget; loop: when to decide
outbox       from plans to writes: binds, evictions, volumes, resizes, reports on users' objects
The rest: brakes, watched files, recordings, shadow mode, accounting for the history.

Imports `decide`, `config`, `kube` and `history`. `web`, `demo` and `cli` import this package.
"""
