"""The cluster as people ask about it: plain data about the whole, queues, nodes, jobs and decisions, for one viewer.

Pure functions from a snapshot and a plan to structs with camelCase JSON names. `sight` decides what a viewer may know:
jobs of other namespaces are only amounts. The HTTP API and the commands import it; no module below does.
"""
