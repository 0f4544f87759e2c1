"""Kubernetes' own tests of scheduling, with kube-scheduler and with Maar on the same simulated nodes: `__main__`.

It is no part of `make test`. Only the tests of the comparison (`test_outcomes`) are.
"""
