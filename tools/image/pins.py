"""Which pinned requirements go into the image, for one Python and processor.

pip checks the markers of requirements (`; python_version < "3.12"`) against the Python that runs it, also when it
downloads for another one. So the markers are decided here, and what pip gets has none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HASH = re.compile(r"--hash=(sha256:[0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class Pin:
    """A requirement with one version and the hashes of its files."""

    name: str
    version: str
    hashes: tuple[str, ...]

    def __str__(self) -> str:
        return " \\\n    ".join([f"{self.name}=={self.version}", *(f"--hash={each}" for each in self.hashes)])


def environment(python: str, machine: str) -> Mapping[str, str]:
    """The variables of markers, for a CPython on Linux; `python` is a full version."""
    return {
        "implementation_name": "cpython",
        "implementation_version": python,
        "os_name": "posix",
        "platform_machine": machine,
        "platform_python_implementation": "CPython",
        "platform_system": "Linux",
        "python_full_version": python,
        "python_version": ".".join(python.split(".")[:2]),
        "sys_platform": "linux",
    }


def read(text: str, variables: Mapping[str, str]) -> Iterator[Pin]:
    """The pins of a requirements file whose markers hold."""
    without_comments = re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE)
    for line in without_comments.replace("\\\n", " ").splitlines():
        if not line.strip():
            continue
        requirement = Requirement(line.partition(" --hash")[0].strip())
        (specifier,) = requirement.specifier
        if specifier.operator != "==":
            raise ValueError(f"not pinned: {requirement}")
        if requirement.marker is None or requirement.marker.evaluate(dict(variables)):
            yield Pin(canonicalize_name(requirement.name), specifier.version, tuple(HASH.findall(line)))


def choose(names: Iterable[str], pins: Mapping[str, Pin]) -> list[Pin]:
    """The pins with these names; a name without a pin is an error."""
    missing = sorted(set(names) - pins.keys())
    if missing:
        raise ValueError(f"not pinned in requirements-dev.txt: {', '.join(missing)}; run `make lock`")
    return [pins[name] for name in names]
