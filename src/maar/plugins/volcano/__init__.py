"""Plugins that Maar has for Volcano's configurations, and that few clusters use.

They follow the rules of all plugins, and a configuration names them like all others. `hours` belongs to `tdm` and
`buckets` to `task_topology`. Only the registry imports these plugins.
"""
