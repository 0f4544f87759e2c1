"""Thin structs of Kubernetes objects, and how bytes, documents and annotations are decoded.

Nothing is interpreted here. Imports nothing else of `kube`; every other room of `kube` imports from here.
"""
