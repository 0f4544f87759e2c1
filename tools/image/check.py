"""What an image must satisfy, read from its archive. Nothing of it runs here: tools.image.container runs it."""

from __future__ import annotations

import json
import re
from pathlib import PurePosixPath
from typing import Any

from tools.image.archive import Archive
from tools.image.inside.assemble import SBOM, TOOLS

import maar

MOST_BYTES = 200_000_000
"""The compressed size that the project allows."""
COMPILERS = re.compile(
    r"(\w+-linux-gnu-)?(cc|c\+\+|gcc|g\+\+|cpp|clang(\+\+)?|tcc|ld|ld\.\w+|as|make|rustc|cargo|go)(-[\d.]+)?"
)
INSTALLERS = re.compile(r"pip[\d.]*|easy_install[\d.-]*|uv|conda|poetry")
LABELS = ("title", "description", "licenses", "version", "source", "revision", "base.name")


def faults(archive: Archive) -> tuple[list[str], dict[str, Any]]:
    """What is wrong with an image, each in a line, and its bill of materials."""
    found = settings(archive)
    if archive.size > MOST_BYTES:
        found.append(f"too large: {archive.size / 1e6:.1f} MB compressed, at most {MOST_BYTES / 1e6:.0f} MB")
    bill: dict[str, Any] = {}
    for files, member in archive.members():
        path = PurePosixPath("/", member.name)
        found += forbidden(path)
        if member.isfile() and member.mode & 0o002:
            found.append(f"anyone may write to {path}")
        if path == PurePosixPath("/", SBOM):
            content = files.extractfile(member)
            assert content is not None
            bill = json.load(content)
    if not bill:
        found.append(f"no bill of materials: /{SBOM}")
    return found, bill


def forbidden(path: PurePosixPath) -> list[str]:
    """Programs that compile or install, and the modules of the latter."""
    if path.parent.name in ("bin", "sbin") and path.parts[1] != "opt":
        if COMPILERS.fullmatch(path.name):
            return [f"a compiler: {path}"]
        if INSTALLERS.fullmatch(path.name):
            return [f"an installer: {path}"]
    if path.parent.name in ("site-packages", "dist-packages", "dependencies", "maar") and path.name in TOOLS:
        return [f"an installer: {path}"]
    return []


def settings(archive: Archive) -> list[str]:
    """What is wrong with the user and the labels."""
    found = []
    user = archive.settings.get("User", "")
    if not re.fullmatch(r"[1-9]\d*:[1-9]\d*", user):
        found.append(f"the user is not two numbers other than 0: `{user}`")
    labels = archive.settings.get("Labels", {})
    for name in LABELS:
        if not labels.get(f"org.opencontainers.image.{name}"):
            found.append(f"no label org.opencontainers.image.{name}")
    if maar.__version__ != labels.get("org.opencontainers.image.version"):
        found.append(f"the label of the version is not {maar.__version__}")
    return found
