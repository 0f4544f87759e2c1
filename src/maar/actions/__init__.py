"""Verbs, a file each: what a cycle does, in the configured order."""
