"""Devices for claims (dynamic resource allocation): what drivers publish, what pods claim, and what is allocated.

`device` and `pools` are what a node can use of ResourceSlices; `claim` is what pods ask for and get; `ledger` is what
is taken; `allocator` finds devices on one node exactly as Kubernetes' allocator does. Plain data and arithmetic: which
devices an expression matches is computed outside (`maar.kube.read.claims`) and comes in as `Selected`. Knows only
`model.selectors`; every layer above may import it.

There: pools with generations, incomplete and invalid ones; attributes, capacities, counters that partitions share,
taints; exact counts and all devices, alternatives, constraints, tolerations, admin access, requests for capacity with
its policies, binding conditions; the bound on the search. Every answer is that of Kubernetes 1.37, to the step.

Not there: a counter of the session, so pods with claims still wait, as `maar.kube.read.devices` says; the snapshot, the
picture and the writers do not know these modules. Nor which pods share a claim, what a queue is charged, what waits for
binding conditions to become true, claims of PodGroups, and partitions with compatibility groups (alpha in 1.37).
"""
