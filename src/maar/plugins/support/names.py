"""The name of the plugin whose parts are modules of this folder: what they refuse, it refuses."""

PREDICATES = "predicates"
