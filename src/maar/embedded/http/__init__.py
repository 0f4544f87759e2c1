"""Requests and answers: routes, discovery, lists, watches, tables, selectors, patches, and faults on demand.

Imports `objects`. Only `server` imports from here (and whoever sets `faults`).
"""
