"""The software bill of materials of the image, in CycloneDX 1.6: Python distributions, Debian packages, and Python.

It reads what is installed in the files of the image, not what was asked for. It uses only the standard library, because
it runs in the build stage of deploy/Dockerfile.
"""

import hashlib
import json
import platform
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from email.message import Message
from email.parser import Parser
from importlib.metadata import distributions
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import NAMESPACE_URL, uuid5

Component = dict[str, Any]


def document(base: Path, libraries: list[Path], wheels: Path, version: str, epoch: int) -> dict[str, Any]:
    """The bill of an image with the files of `base` and the distributions in `libraries`."""
    found = [*python_distributions(libraries, wheels), *debian_packages(base)]
    if not any(re.fullmatch(r"python3\.\d+-minimal", each["name"]) for each in found):
        found.append(interpreter())
    found.sort(key=lambda each: str(each["purl"]))
    root = {"type": "container", "name": "maar", "version": version, "bom-ref": f"maar@{version}"}
    made: dict[str, Any] = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": root,
        },
        "components": found,
        "dependencies": [{"ref": root["bom-ref"], "dependsOn": [each["bom-ref"] for each in found]}],
    }
    return made | {"serialNumber": f"urn:uuid:{uuid5(NAMESPACE_URL, json.dumps(made, sort_keys=True))}"}


def component(kind: str, name: str, version: str, purl: str, **more: object) -> Component:
    return {"type": kind, "bom-ref": purl, "name": name, "version": version, "purl": purl, **more}


def normal(name: str) -> str:
    """The name of a distribution as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def python_distributions(libraries: list[Path], wheels: Path) -> Iterator[Component]:
    """What pip installed, with the hash of the wheel that it comes from."""
    files = {normal(file.name.partition("-")[0]): file for file in wheels.glob("*.whl")}
    for each in distributions(path=[str(folder) for folder in libraries]):
        name, version = normal(each.metadata["Name"]), each.version
        hashes = [{"alg": "SHA-256", "content": hashlib.sha256(files[name].read_bytes()).hexdigest()}]
        purl = f"pkg:pypi/{name}@{quote(version)}"
        yield component("library", name, version, purl, hashes=hashes, licenses=licences(each.metadata))


def licences(metadata: Any) -> list[dict[str, Any]]:
    """What a distribution says of its licence: an SPDX expression, or a name in words."""
    if expression := metadata.get("License-Expression"):
        return [{"expression": expression}]
    if (named := (metadata.get("License") or "").strip()) and "\n" not in named:
        return [{"license": {"name": named}}]
    classifiers = (each.split(" :: ") for each in metadata.get_all("Classifier") or [])
    return [{"license": {"name": parts[-1]}} for parts in classifiers if parts[0] == "License"]


def debian_packages(base: Path) -> Iterator[Component]:
    """What dpkg knows, in one file or, as in images without dpkg, in a file for each package."""
    folder = base / "var/lib/dpkg"
    files = [folder / "status", *sorted((folder / "status.d").glob("*"))]
    release = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', read(base / "etc/os-release"), re.MULTILINE))
    system = f"{release.get('ID', 'debian')}-{release.get('VERSION_ID', 'unknown')}"
    for paragraph in "\n\n".join(map(read, files)).split("\n\n"):
        fields: Message = Parser().parsestr(paragraph.strip())
        if "Package" not in fields or not fields.get("Status", "installed").endswith("installed"):
            continue
        name, version, arch = fields["Package"], fields["Version"], fields["Architecture"]
        purl = f"pkg:deb/{release.get('ID', 'debian')}/{quote(name)}@{quote(version, safe='')}"
        purl += f"?arch={arch}&distro={system}"
        yield component("library", name, version, purl, supplier={"name": fields.get("Maintainer", "unknown")})


def read(file: Path) -> str:
    return file.read_text() if file.is_file() else ""


def interpreter() -> Component:
    """The Python of bases that compile it themselves; it is in no package."""
    version = platform.python_version()
    licence = [{"license": {"id": "PSF-2.0"}}]
    return component("application", "python", version, f"pkg:generic/python@{version}", licenses=licence)
