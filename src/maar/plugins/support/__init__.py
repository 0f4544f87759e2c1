"""Code that plugins share: shares and quotas of queues, node masks, neighbours of pods.

Each module computes one thing from a session and registers nothing. It imports `session` and the layers below, never a
plugin. Plugins import it, and so do actions that must compute as a plugin does.
"""
