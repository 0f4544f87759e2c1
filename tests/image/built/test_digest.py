"""`make image-pin` writes the digest that a registry has for the base, or changes nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.image.oci import Image, layer, registry
from tools.image.digest import base_of, pin
from tools.image.targets import DOCKERFILE, Refused

REST = "# a comment\nARG BUILD_BASE=${BASE}\nFROM ${BASE} AS base\n"


@pytest.fixture
def base(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """The name of a base in a registry without TLS, as skopeo may use it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / ".config"))
    (tmp_path / ".config/containers").mkdir(parents=True)
    return "library/python:3.12-slim"


def dockerfile(folder: Path, address: str, base: str) -> Path:
    settings = f'[[registry]]\nlocation = "{address}"\ninsecure = true\n'
    (folder / ".config/containers/registries.conf").write_text(settings)
    (folder / "Dockerfile").write_text(f"ARG BASE={address}/{base}\n{REST}")
    return folder / "Dockerfile"


def test_the_digest_is_that_of_the_registry(base: str, tmp_path: Path) -> None:
    image = Image({}, layer({"etc/os-release": b""}))
    with registry(image) as address:
        file = dockerfile(tmp_path, address, base)
        pinned = f"{address}/{base}@{image.digest}"
        assert pinned == pin(file)
        assert f"ARG BASE={pinned}\n{REST}" == file.read_text()
    newer = Image({}, layer({"etc/os-release": b"newer"}))
    with registry(newer) as other:
        file = dockerfile(tmp_path, other, f"{base}@{image.digest}")
        assert f"{other}/{base}@{newer.digest}" == pin(file), "the tag has moved"


def test_without_the_base_nothing_changes(base: str, tmp_path: Path) -> None:
    with registry(Image({}, layer({}))) as address:
        file = dockerfile(tmp_path, address, "library/python:3.99-slim")
        before = file.read_text()
        with pytest.raises(Refused, match=r"cannot ask a registry for `.*:3.99-slim`.*\nDockerfile is unchanged"):
            pin(file)
        assert before == file.read_text()


def test_without_a_registry_nothing_changes(base: str, tmp_path: Path) -> None:
    with registry(Image({}, layer({}))) as address:
        pass  # it is gone
    file = dockerfile(tmp_path, address, base)
    before = file.read_text()
    with pytest.raises(Refused, match=r"connection refused\nDockerfile is unchanged"):
        pin(file)
    assert before == file.read_text()


def test_the_dockerfile_has_a_base_to_pin(tmp_path: Path) -> None:
    assert base_of(DOCKERFILE)["name"].startswith("python:3.")
    (tmp_path / "Dockerfile").write_text("FROM python\n")
    with pytest.raises(Refused, match=r"Dockerfile: no line `ARG BASE=NAME`"):
        base_of(tmp_path / "Dockerfile")


def test_without_skopeo_it_says_what_is_missing() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from tools.image.needs import missing; print(missing('skopeo'))"],
        cwd=DOCKERFILE.parents[1],
        env={"PATH": "", "PYTHONPATH": os.pathsep.join(["src", "."])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "not installed: skopeo; on Debian and Ubuntu: apt-get install skopeo\n" == done.stdout
