"""The live state of the cluster, fed by watches (`maar run`) or by files (`maar plan`).

`picture.Picture` is the front; the other modules are its parts. Imports `wire`, `kinds` and `read`, and does no I/O,
except `manifests`, which reads files. `controller` and `cli` import from here.
"""
