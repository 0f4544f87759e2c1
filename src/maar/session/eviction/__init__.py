"""Making room by eviction: victims, openings, and what an eviction costs.

Imports `model` and the session; actions import from here.
"""
