"""Configuration files: reading, checking, suggestions.

`config` has the plain data that a session is built from; `file` reads it from text. Imports `model` only; `session`,
the registry and everything above import from here.
"""
