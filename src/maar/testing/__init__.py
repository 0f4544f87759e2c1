"""Builders and scenarios for tests of plugins, yours and Maar's own. They need no package beyond Maar's dependencies.

Only tests and benchmarks import from here.
"""
