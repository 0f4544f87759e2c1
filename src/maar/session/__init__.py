"""One cycle: its view of the cluster, its statements, and how the votes of plugins combine."""
