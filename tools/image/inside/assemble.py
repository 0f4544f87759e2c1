"""Runs in the build stage of deploy/Dockerfile: completes /image, the files of the final stage.

/in has the wheels and what pip checks them against. It runs on the processor of the builder, also when the image is for
another one: it only unpacks and compiles, and bytecode is the same on all processors. It uses no network and only the
standard library.
"""

import compileall
import json
import py_compile
import re
import shutil
import subprocess
import sys
from pathlib import Path

from . import sbom

IN = Path("/in")
IMAGE = Path("/image")
"""The files of the final stage, in a folder for each of its layers."""
SBOM = "usr/share/sbom/maar.cdx.json"
TOOLS = ("pip", "setuptools", "wheel", "ensurepip")
"""What installs packages. The final stage has none of it."""
TESTS = re.compile(r"/(tests?|idlelib|lib2to3)/")
"""Modules of libraries that Maar never imports."""
LIBRARIES = ("usr/lib/python3/dist-packages", "usr/lib/{python}", "usr/local/lib/{python}")
GLIBC = (17, 36)
"""The oldest and the newest minor version of glibc 2 whose wheels are installed; Debian bookworm has 2.36."""


def platforms(machine: str) -> list[str]:
    """The tags of wheels that run on this processor, the best first."""
    newest = range(GLIBC[1], GLIBC[0] - 1, -1)
    return [*(f"manylinux_2_{minor}_{machine}" for minor in newest), f"manylinux2014_{machine}", f"linux_{machine}"]


def pip(machine: str, requirements: str, layer: str) -> None:
    """Install pinned wheels into `opt/LAYER` of a layer."""
    (program,) = (IN / "wheels").glob("pip-*.whl")
    target = IMAGE / layer / "opt" / layer
    command = [sys.executable, f"{program}/pip", "install", "--quiet", "--isolated", "--no-index", "--no-compile"]
    command += ["--no-deps", "--only-binary=:all:", "--require-hashes", "--no-cache-dir", "--root-user-action=ignore"]
    command += [f"--find-links={IN / 'wheels'}", f"--requirement={IN / requirements}", f"--target={target}"]
    command += [f"--platform={each}" for each in platforms(machine)]
    subprocess.run(command, check=True)
    compile_modules(target, IMAGE / layer)


def compile_modules(folder: Path, layer: Path) -> None:
    """Write bytecode, which a read-only file system cannot get later; bases come without it.

    Times of files do not survive the copy to the final stage, so the bytecode is never checked against its source.
    """
    compileall.compile_dir(
        folder,
        quiet=1,
        rx=TESTS,
        stripdir=layer,
        prependdir="/",
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )


def remove_tools(base: Path, libraries: list[Path]) -> None:
    """Remove pip and its kind from the base."""
    for folder in [*libraries, *(each / "site-packages" for each in libraries)]:
        for tool in TOOLS:
            shutil.rmtree(folder / tool, ignore_errors=True)
            for information in folder.glob(f"{tool}-*.dist-info"):
                shutil.rmtree(information)
    for folder in (base / "usr/bin", base / "usr/local/bin"):
        for program in folder.glob("pip*"):
            program.unlink()


def main() -> None:
    given, base = json.loads((IN / "given.json").read_text()), IMAGE / "base"
    python = f"python3.{sys.version_info.minor}"
    libraries = [base / each.format(python=python) for each in LIBRARIES]
    if not any((each / "os.py").is_file() for each in libraries):
        sys.exit(f"the bases of the stages differ: the final stage has no {python}")
    remove_tools(base, libraries)
    for each in libraries[1:]:
        compile_modules(each, base)
    (base / "tmp").mkdir(exist_ok=True)
    (base / "tmp").chmod(0o1777)
    pip(given["machine"], "dependencies.txt", "dependencies")
    pip(given["machine"], "maar.txt", "maar")
    installed = [IMAGE / each / "opt" / each for each in ("dependencies", "maar")]
    bill = sbom.document(base, installed, IN / "wheels", given["version"], given["epoch"])
    file = IMAGE / "maar" / SBOM
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(bill, indent=1))


if __name__ == "__main__":
    main()
