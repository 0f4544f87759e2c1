"""Plain data of a decision: resources, nodes, tasks, jobs, minimums, queues, the snapshot, the plan and its reasons.

Pure: no policy, no I/O, no Kubernetes objects. A table holds numpy columns with a row per node, task or job. This
package imports nothing from Maar. Every other layer may import it.
"""
