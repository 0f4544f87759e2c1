"""The loop of a running Maar: events in, cycles, plans out.

main         builds the parts of one `maar run` and runs them; shadow: the same for shadow mode
observer     watches, decides and publishes, and cannot write; scheduler: an observer, and what acts on its decisions
watching     from watches to the picture; loop: when to decide; take_over: before the first decision
settings/    what the operator sets: options, files read again while running, brakes
snapshots/   the input of each cycle: the cache (assume, confirm, forget), objects set aside
reporting/   what users read on their own objects, and how often it is written
writing/     from plans to writes: binds, evictions, volumes, resizes, requests for nodes
history/     accounts of jobs for the history, and knowledge from it
The rest: the process around all this, the clock, recordings, other schedulers.

Imports `decide`, `config`, `kube` and `history`. `web`, `demo` and `cli` import this package.
"""
