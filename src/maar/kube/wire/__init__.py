"""Thin structs of Kubernetes objects, and the decoding of bytes, documents and annotations.

Nothing is interpreted here. Imports nothing else of `kube`; all other packages of `kube` import from here.
"""
