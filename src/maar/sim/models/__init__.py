"""Models: how jobs progress, what a change costs, and how counted GPUs map to nodes.

A model is between the pool (`maar.sim.pool`), which handles events, and the policy, which is a shipped algorithm. The
model keeps the columns that the algorithm reads, and computes the ends of jobs from its answer. It must not choose the
sizes of jobs: the algorithm does. `table` lists all models; those that reproduce papers are in `maar.sim.papers`.
"""
