"""Policies, one file per plugin: actions ask, plugins answer through hooks.

A file has `NAME`, a frozen struct of arguments, free functions that decide, and a small class that registers them at
the hooks of a session. A plugin lives for one session and keeps no other state. Plugins do not import each other;
shared code is in `support`, and `volcano` has the plugins that few clusters use. Plugins import `session` and the
layers below; only the registry imports plugins.
"""
