"""The loop: events in, cycles, plans out.

main         builds one `maar run` and runs it; scheduler: one running Maar
watching     watches to the picture; cache: assume, confirm, forget; loop: when to decide
outbox       plans to writes: binds, evictions, hand-overs of volumes, resizes, reports on users' objects
brakes, files that are read again, recordings, shadow mode, accounting for the history

Imports `decide`, `config`, `kube` and `history`. `web`, `demo` and `cli` import from here.
"""
