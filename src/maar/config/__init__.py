"""Configuration files: reading, checking, suggestions.

`config` has the plain data from which a session is built; `file` reads it from text. This package imports only `model`;
`session`, the registry and every layer above may import it.
"""
