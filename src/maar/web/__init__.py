"""What Maar serves over HTTP: health, metrics, and the measurements that trainings report.

Handlers read what the controller holds and change nothing in the cluster. Imports `controller`, `history` and the
layers below; `cli` and `demo` import from here.
"""
