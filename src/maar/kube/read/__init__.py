"""Objects to model, one kind of object per module: nodes, pods, queues, volumes, budgets, devices.

Free functions and small tables without I/O. Imports `wire` and `kinds`; `picture` imports from here.
"""
