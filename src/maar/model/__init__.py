"""The nouns of a decision, as plain data: resources, nodes, tasks, jobs, queues, the snapshot, the plan, its reasons.

Pure: no policy, no I/O, no Kubernetes objects. Tables hold numpy columns, a row per node, task or job. Imports nothing
of Maar; every other layer may import from here.
"""
