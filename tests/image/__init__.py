"""The image: pins, bill of materials and checks; `built/` has tests on an image that is really built.

`make test` runs this folder without `built/`. `make test-image` (`python -m tests.image`) builds the image first.
"""
