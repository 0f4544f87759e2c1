"""Code that plugins share and that is no plugin: shares and quotas of queues, node masks, neighbours of pods.

Each module computes one thing from a session and registers nothing. Imports `session` and the layers below, never a
plugin. Plugins import from here, and so do actions that must reckon as a plugin does.
"""
