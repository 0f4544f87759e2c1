"""Storage to model: claims, volumes, where a volume can be reached from, and what that means for pods.

Free functions and small tables without I/O. `state` has what the objects of storage say now.
"""
