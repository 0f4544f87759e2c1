"""Maar on a real node: the image and the chart, installed; gangs, preemption, training, upgrades with real processes.

`make test-node` runs them, in namespaces of their own (tests/support/node/walls). They are no part of `make test`.
"""
