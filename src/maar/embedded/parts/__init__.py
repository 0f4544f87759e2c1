"""Simulated kubelets, controllers and operators, one module each.

A part has `open(api)` and `close()`. It watches the store and calls the verbs of `objects`, the only room that it
imports. Programs that start an `EmbeddedServer` choose its parts from here.
"""
