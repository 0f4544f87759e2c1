"""The bill of materials lists what is in the files of the image: distributions, packages and Python."""

import hashlib
import platform
from pathlib import Path
from typing import Any

import pytest
from tools.image.inside.sbom import document

EPOCH = 1_800_000_000
STATUS = """Package: libc6
Status: install ok installed
Maintainer: Someone <someone@example.org>
Architecture: amd64
Version: 2.36-9+deb12u10

Package: removed
Status: deinstall ok config-files
Architecture: amd64
Version: 1
"""
RELEASE = 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nID=debian\nVERSION_ID="12"\n'


def distribution(library: Path, name: str, version: str, *fields: str) -> None:
    folder = library / f"{name}-{version}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text("\n".join([f"Name: {name}", f"Version: {version}", *fields, "", "Text"]))


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """The files of an image with two distributions and a package."""
    for folder in ("base/etc", "base/var/lib/dpkg", "wheels"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "base/etc/os-release").write_text(RELEASE)
    (tmp_path / "base/var/lib/dpkg/status").write_text(STATUS)
    distribution(tmp_path / "library", "Some_Thing", "1.0", "License-Expression: MIT AND BSD-3-Clause")
    distribution(tmp_path / "own", "maar", "0.1.0", "Classifier: License :: OSI Approved :: Apache Software License")
    (tmp_path / "wheels/some_thing-1.0-py3-none-any.whl").write_bytes(b"wheel")
    (tmp_path / "wheels/maar-0.1.0-py3-none-any.whl").write_bytes(b"another")
    return tmp_path


def bill(files: Path) -> dict[str, Any]:
    return document(files / "base", [files / "library", files / "own"], files / "wheels", "0.1.0", EPOCH)


def component(files: Path, name: str) -> dict[str, Any]:
    (found,) = [each for each in bill(files)["components"] if name == each["name"]]
    return dict(found)


def test_it_lists_what_is_installed(files: Path) -> None:
    python = platform.python_version()
    assert [
        "pkg:deb/debian/libc6@2.36-9%2Bdeb12u10?arch=amd64&distro=debian-12",
        f"pkg:generic/python@{python}",
        "pkg:pypi/maar@0.1.0",
        "pkg:pypi/some-thing@1.0",
    ] == [each["purl"] for each in bill(files)["components"]]


def test_a_distribution_has_its_licence_and_the_hash_of_its_wheel(files: Path) -> None:
    some = component(files, "some-thing")
    assert [{"alg": "SHA-256", "content": hashlib.sha256(b"wheel").hexdigest()}] == some["hashes"]
    assert [{"expression": "MIT AND BSD-3-Clause"}] == some["licenses"]
    assert [{"license": {"name": "Apache Software License"}}] == component(files, "maar")["licenses"]


def test_packages_without_dpkg_are_found(files: Path) -> None:
    (files / "base/var/lib/dpkg/status").unlink()
    (files / "base/var/lib/dpkg/status.d").mkdir()
    (files / "base/var/lib/dpkg/status.d/zlib1g").write_text("Package: zlib1g\nVersion: 1:1.2\nArchitecture: arm64\n")
    assert "pkg:deb/debian/zlib1g@1%3A1.2?arch=arm64&distro=debian-12" == component(files, "zlib1g")["purl"]


def test_a_python_from_a_package_is_listed_once(files: Path) -> None:
    (files / "base/var/lib/dpkg/status").write_text(STATUS.replace("libc6", "python3.11-minimal"))
    names = [each["name"] for each in bill(files)["components"]]
    assert ["python3.11-minimal", "maar", "some-thing"] == names


def test_the_same_files_make_the_same_bill(files: Path) -> None:
    first = bill(files)
    assert first == bill(files)
    assert "2027-01-15T08:00:00Z" == first["metadata"]["timestamp"]
    distribution(files / "library", "more", "2")
    (files / "wheels/more-2-py3-none-any.whl").write_bytes(b"more")
    assert first["serialNumber"] != bill(files)["serialNumber"]


def test_every_component_has_a_name_of_its_own(files: Path) -> None:
    made = bill(files)
    references = [each["bom-ref"] for each in made["components"]]
    assert len(references) == len(set(references))
    assert [{"ref": "maar@0.1.0", "dependsOn": references}] == made["dependencies"]
