"""A Kubernetes cluster in this process, for the demo and for tests. `server.EmbeddedServer` is its entry point.

`objects` holds the state, `http` answers requests, `parts` simulate kubelets and controllers. `demo`, tests and users'
programs import it. It imports selectors and requests of `kube`, and no policy.
"""
