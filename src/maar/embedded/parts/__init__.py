"""What works in a cluster beside its API server: simulated kubelets, controllers and operators, a module each.

A part has `open(api)` and `close()`, watches the store and calls the verbs of `objects`, the only room it imports.
Programs that start an `EmbeddedServer` choose its parts from here.
"""
