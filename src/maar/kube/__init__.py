"""The only door to Kubernetes: objects come in here and become the model."""
