"""HTTP requests and responses: routes, discovery, lists, watches, tables, selectors, patches, and injected faults.

Imports `objects`. Only `server` imports this room, and programs that set `faults`.
"""
