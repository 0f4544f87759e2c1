"""The container image: a base from Debian's packages, wheels with hashes, the build with buildah, and its checks.

`python -m tools.image --help` lists the commands; the Makefile calls them. `inside/` runs in the build stage of
deploy/Dockerfile and uses only the standard library; the rest runs outside.
"""
