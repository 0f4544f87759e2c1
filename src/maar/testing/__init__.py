"""Builders and scenarios for tests of plugins; the simulator, the docs and Maar's own tests use them too."""
