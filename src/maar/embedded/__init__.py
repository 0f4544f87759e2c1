"""A cluster in this process: an API server on a socket, pretend kubelets and controllers, and faults on demand."""
