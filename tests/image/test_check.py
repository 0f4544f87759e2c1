"""An archive with an image that must not be published is refused, with all reasons."""

import json
from pathlib import Path

import pytest
from tests.image.oci import Image, layer
from tools.image.archive import Archive
from tools.image.check import LABELS, MOST_BYTES, faults
from tools.image.targets import Refused

import maar

BILL = {"usr/share/sbom/maar.cdx.json": b'{"components": []}'}
GOOD = {
    "User": "65532:65532",
    "Labels": {f"org.opencontainers.image.{name}": maar.__version__ for name in LABELS},
}


def faults_of(folder: Path, files: dict[str, bytes], config: object = None, **modes: int) -> list[str]:
    image = Image({**GOOD, **(config if isinstance(config, dict) else {})}, layer(files, modes))
    return faults(Archive(image.write(folder / "image.tar")))[0]


def test_a_good_image_has_no_faults(tmp_path: Path) -> None:
    files = {**BILL, "opt/maar/bin/maar": b"", "usr/bin/python3.11": b"", "usr/bin/tar": b"", "bin/dash": b""}
    assert [] == faults_of(tmp_path, files)


@pytest.mark.parametrize(
    "path",
    [
        "usr/bin/gcc",
        "usr/bin/x86_64-linux-gnu-gcc-12",
        "usr/bin/cc",
        "usr/local/bin/pip3.12",
        "usr/bin/ld.bfd",
        "usr/local/lib/python3.12/site-packages/pip",
        "opt/dependencies/setuptools",
    ],
)
def test_what_compiles_or_installs_is_found(path: str, tmp_path: Path) -> None:
    (fault,) = faults_of(tmp_path, {**BILL, path: b""})
    assert fault.endswith(f": /{path}")


@pytest.mark.parametrize("user", ["", "root", "0:0", "65532", "maar", "65532:0"])
def test_the_user_is_a_number_and_not_root(user: str, tmp_path: Path) -> None:
    assert [f"the user is not two numbers other than 0: `{user}`"] == faults_of(tmp_path, BILL, {"User": user})


def test_every_label_is_wanted(tmp_path: Path) -> None:
    found = faults_of(tmp_path, BILL, {"Labels": {}})
    wanted = [f"no label org.opencontainers.image.{name}" for name in LABELS]
    assert [*wanted, f"the label of the version is not {maar.__version__}"] == found


def test_files_that_anyone_may_write_are_found(tmp_path: Path) -> None:
    assert ["anyone may write to /data"] == faults_of(tmp_path, {**BILL, "data": b""}, data=0o666)


def test_the_bill_of_materials_is_wanted(tmp_path: Path) -> None:
    assert ["no bill of materials: /usr/share/sbom/maar.cdx.json"] == faults_of(tmp_path, {"etc/passwd": b""})


def test_the_size_is_that_of_the_compressed_layers(tmp_path: Path) -> None:
    image = Image(GOOD, layer(BILL), layer({"more": b"x" * 1000}))
    archive = Archive(image.write(tmp_path / "image.tar"))
    assert sum(len(blob) for blob in image.blobs.values() if blob.startswith(b"\x1f\x8b")) == archive.size
    assert image.digest == archive.digest


def test_a_large_image_is_refused(tmp_path: Path) -> None:
    """The manifest says how large a layer is; a real one of this size would slow down the tests."""
    image = Image(GOOD, layer(BILL))
    manifest = json.loads(image.manifest)
    manifest["layers"][0]["size"] = MOST_BYTES + 1_000_000
    archive = Archive(image.write(tmp_path / "image.tar"))
    archive._layers = manifest["layers"]
    assert ["too large: 201.0 MB compressed, at most 200 MB"] == faults(archive)[0]


@pytest.mark.parametrize("content", [b"", b"no tar file"])
def test_another_file_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "image.tar").write_bytes(content)
    with pytest.raises(Refused, match=r"image.tar: not an OCI archive with one image"):
        Archive(tmp_path / "image.tar")
