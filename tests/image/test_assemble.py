"""The build stage removes what installs packages, and the Dockerfile runs nothing else."""

import re
import subprocess
import sys
from pathlib import Path

from tools.image.inside.assemble import compile_modules, remove_tools
from tools.image.targets import DOCKERFILE


def tree(folder: Path, *files: str) -> None:
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text("x = 1\n")


def listed(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_installers_are_removed_from_the_base(tmp_path: Path) -> None:
    kept = {"usr/local/lib/python3.12/os.py", "usr/local/bin/python3", "usr/lib/python3/dist-packages/pipeline.py"}
    library = "usr/local/lib/python3.12"
    tree(
        tmp_path,
        *kept,
        f"{library}/ensurepip/__init__.py",
        f"{library}/site-packages/pip/__init__.py",
        f"{library}/site-packages/pip-26.0.dist-info/METADATA",
        f"{library}/site-packages/setuptools/__init__.py",
        f"{library}/site-packages/wheel/__init__.py",
        "usr/local/bin/pip",
        "usr/local/bin/pip3.12",
        "usr/lib/python3/dist-packages/pip/__init__.py",
    )
    remove_tools(tmp_path, [tmp_path / "usr/lib/python3/dist-packages", tmp_path / library])
    assert kept == listed(tmp_path)


def test_bytecode_is_used_whatever_the_time_of_its_source(tmp_path: Path) -> None:
    tree(tmp_path, "lib/module.py", "lib/tests/test_module.py")
    compile_modules(tmp_path / "lib", tmp_path)
    version = f"cpython-{sys.version_info.major}{sys.version_info.minor}"
    compiled = f"lib/__pycache__/module.{version}.pyc"
    assert {compiled, "lib/module.py", "lib/tests/test_module.py"} == listed(tmp_path)
    (tmp_path / "lib/module.py").write_text("x = 'changed, and later'\n")
    done = subprocess.run(
        [sys.executable, "-c", "import module; print(module.x)"],
        env={"PYTHONPATH": str(tmp_path / "lib")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "1\n" == done.stdout
    assert str(tmp_path).encode() not in (tmp_path / compiled).read_bytes(), "tracebacks name the path in the image"


def test_the_dockerfile_runs_one_program_and_nothing_in_the_final_stage() -> None:
    text = DOCKERFILE.read_text()
    assert ['RUN ["python3", "-m", "inside.assemble"]'] == re.findall(r"^RUN .*$", text, re.MULTILINE)
    *_, final = re.split(r"^FROM ", text, flags=re.MULTILINE)
    assert final.startswith("scratch\n")
    assert "RUN" not in final
    assert "USER 65532:65532\n" in final
    assert [] == re.findall(r"^ADD .*$", text, re.MULTILINE), "ADD may download"
