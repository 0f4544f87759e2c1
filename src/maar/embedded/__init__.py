"""A Kubernetes cluster in this process, for the demo and for tests: `server.EmbeddedServer` puts its rooms together.

`objects` holds the state, `http` answers requests, `parts` play kubelets and controllers. Imported by `demo`, by
tests and by users' programs; imports selectors and requests of `kube`, and no policy.
"""
