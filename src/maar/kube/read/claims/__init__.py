"""Dynamic resource allocation: slices, classes and claims to the model, and the expressions that choose devices.

`slices` and `claims` read objects; `expressions` evaluates CEL through a library that is an optional dependency, and
is the only module that imports it; `selecting` asks it once for each distinct device. The session, the picture and the
writers do not know these modules yet: pods with claims wait, as `maar.kube.read.devices` says.
"""
