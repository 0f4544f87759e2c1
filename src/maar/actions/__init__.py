"""Actions, one per file: what a cycle does, in the configured order.

A file has `NAME`, a frozen struct of arguments and a class with `execute(session)`. An action changes the session
inside statements that commit or roll back. It asks plugins only through hooks, never by name. Actions import `session`,
`plugins.support` and the layers below; only the registry imports actions.
"""
