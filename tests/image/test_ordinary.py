"""The Dockerfile for `docker build .`: its context has what the wheel is made of, and it runs as the released image."""

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tools.image.targets import DOCKERFILE, ROOT

TEXT = (ROOT / "Dockerfile").read_text()
SETTINGS = ("USER", "EXPOSE", "ENTRYPOINT", "CMD")


def settings(text: str) -> dict[str, str]:
    """How the last stage runs."""
    last = text.rpartition("\nFROM ")[2]
    return {name: found[1] for name in SETTINGS if (found := re.search(rf"^{name} (.*)$", last, re.MULTILINE))}


def variables(text: str) -> dict[str, str]:
    """The environment of the last stage."""
    (found,) = re.findall(r"^ENV ((?:.*\\\n)*.*)$", text.rpartition("\nFROM ")[2], re.MULTILINE)
    return dict(re.findall(r"(\w+)=(\S+)", found))


def context(folder: Path) -> Path:
    """What `.dockerignore` leaves."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert ["*", "**/__pycache__"] == [rule for rule in rules if not rule.startswith("!")]
    for name in (rule[1:] for rule in rules if rule.startswith("!")):
        copied = folder / name
        copied.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copied, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, copied)
    return folder


def wheel(checkout: Path, into: Path) -> set[str]:
    """The names in the wheel of these sources."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(into)]
    subprocess.run(command, cwd=checkout, check=True, capture_output=True)
    (made,) = into.glob("*.whl")
    return {name for name in zipfile.ZipFile(made).namelist() if "__pycache__" not in name}


@pytest.mark.slow
def test_the_context_has_all_that_the_wheel_is_made_of(tmp_path: Path) -> None:
    assert wheel(ROOT, tmp_path / "all") == wheel(context(tmp_path / "context"), tmp_path / "some")


def test_it_runs_as_the_released_image_does() -> None:
    released = DOCKERFILE.read_text()
    assert 4 == len(settings(TEXT))
    assert settings(released) == settings(TEXT)
    # a virtual environment needs no search path
    assert {name: value for name, value in variables(released).items() if name != "PYTHONPATH"} == variables(TEXT)


def test_all_downloads_are_checked_by_hash() -> None:
    installs = [line for line in TEXT.replace("\\\n", " ").split("&&") if " install " in line]
    assert 4 == len(installs)
    assert [] == [line for line in installs if "--require-hashes" not in line and "--no-index --no-deps" not in line]


def test_its_installer_is_the_pinned_one() -> None:
    (program,) = re.findall(r"awk '(.*)' requirements-dev.txt", TEXT)
    file = ROOT / "requirements-dev.txt"
    chosen = subprocess.run(["awk", program, file], capture_output=True, text=True, check=True).stdout
    assert re.fullmatch(r"pip==\S+ \\\n(    --hash=sha256:[0-9a-f]{64}( \\)?\n)+(    #.*\n)*", chosen), chosen
