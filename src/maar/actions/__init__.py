"""Verbs, one file per action: what a cycle does, in the configured order.

A file has `NAME`, a frozen struct of arguments and a class with `execute(session)`. An action changes the session
inside statements that commit or roll back; it asks plugins through hooks and knows none by name. Imports `session`,
`plugins.support` and the layers below; only the registry imports actions.
"""
