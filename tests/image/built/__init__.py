"""Tests on an image that is really built, and on the programs that build it. Only `make test-image` collects them."""

WANTED = "MAAR_IMAGE_TESTS"
"""The variable of the environment with which pytest collects this folder."""
