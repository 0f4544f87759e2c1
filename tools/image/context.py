"""What the build copies in: wheels, checked by hash, and the script that installs them."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from hatchling.builders.wheel import WheelBuilder
from tools.image.inside.assemble import platforms
from tools.image.pins import Pin, choose, environment, read
from tools.image.targets import ROOT, Refused, Target

import maar

POSTGRES = ("psycopg", "psycopg-binary")
"""The driver of the extra `postgres`: users have it only if they ask for it, the image always."""
INSTALLER = "pip"
INSIDE = Path(__file__).parent / "inside"


def gather(target: Target, python: str, epoch: int) -> Path:
    """Download the wheels for this Python and processor, build Maar's own; returns the folder of the build context."""
    variables = environment(python, target.machine)
    users = list(read((ROOT / "requirements.txt").read_text(), variables))
    developers = {pin.name: pin for pin in read((ROOT / "requirements-dev.txt").read_text(), variables)}
    dependencies = users + choose(POSTGRES, developers)
    shutil.rmtree(target.context, ignore_errors=True)
    wheels = target.context / "wheels"
    wheels.mkdir(parents=True)
    shutil.copytree(INSIDE, target.context / INSIDE.name, ignore=shutil.ignore_patterns("__pycache__"))
    given = {"version": maar.__version__, "machine": target.machine, "epoch": epoch}
    (target.context / "given.json").write_text(json.dumps(given))
    write(target.context / "dependencies.txt", dependencies)
    download(target, python, target.context / "dependencies.txt")
    write(target.context / "installer.txt", choose([INSTALLER], developers))
    download(target, python, target.context / "installer.txt")
    write(target.context / "maar.txt", [own_wheel(wheels)])
    return target.context


def write(file: Path, pins: Iterable[Pin]) -> None:
    file.write_text("".join(f"{pin}\n" for pin in pins))


def download(target: Target, python: str, requirements: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--require-hashes", "--only-binary=:all:", "--implementation=cp", "--python-version", python]
    command += [f"--platform={each}" for each in platforms(target.machine)]
    command += ["--requirement", str(requirements), "--dest", str(requirements.parent / "wheels")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Refused(f"cannot download the wheels of {requirements.name}: {done.stderr.strip()[-2000:]}")


def own_wheel(folder: Path) -> Pin:
    """Build Maar's wheel into a folder."""
    (made,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    digest = hashlib.sha256(Path(made).read_bytes()).hexdigest()
    return Pin("maar", maar.__version__, (f"sha256:{digest}",))
