"""Writes to the API server: the executor and its work, resizes, statuses, events, leases.

Imports `client`, `wire` and `kinds`. `controller` imports from here.
"""
