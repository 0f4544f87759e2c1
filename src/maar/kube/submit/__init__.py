"""The training service as a library: check, complete and create jobs of any kind; hold, change and cancel them.

`manifests` and `changes` are pure: documents in, documents or patches out. `service` sends them with the client that it
is given, so that the rights and the audit of the cluster are those of the caller. The commands and the HTTP API use it.
"""
