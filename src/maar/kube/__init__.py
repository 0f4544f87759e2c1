"""The only door to Kubernetes. Knows `maar.model`; holds no policy.

client   credentials, connections, requests, errors, discovery, watches
wire     thin structs of Kubernetes objects, and how bytes and documents become structs
kinds    one file per kind that makes gangs or elastic jobs, and the table of kinds
read     objects to model: nodes, pods, queues, volumes, budgets, devices
picture  the live state, fed by watches or by files
write    executor, status, events, leases

`controller`, `web`, `demo` and `cli` import from here. Nothing here imports from them.
"""
