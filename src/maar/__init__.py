"""Maar: one Kubernetes scheduler for deep-learning clusters."""

__version__ = "0.1.0"
