"""Writes to the API server: the executor and its work, resizes, events, leases.

Imports `client`, `wire` and `kinds`. `controller` imports from here.
"""
