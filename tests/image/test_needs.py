"""Where the image cannot be built, it says exactly what is missing; in CI that is a failure."""

import multiprocessing
import os
import subprocess
import sys
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from tools.image.needs import missing

ROOT = Path(__file__).parents[2]
SAID = (
    "not installed: buildah, mmdebstrap, runc, skopeo, unshare; "
    "on Debian and Ubuntu: apt-get install buildah mmdebstrap runc skopeo util-linux\n"
)


@pytest.mark.parametrize(("ci", "code", "word"), [("true", 1, "failed"), ("", 0, "skipped")])
def test_the_tests_say_which_programs_are_missing(ci: str, code: int, word: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.image"],
        cwd=ROOT,
        env={"PATH": "", "CI": ci},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (code, "", f"tests of the image: {word}: {SAID}") == (done.returncode, done.stdout, done.stderr)


def test_the_build_says_which_programs_are_missing() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.image", "build", "--base", "base.tar"],
        cwd=ROOT,
        env={"PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    said = "error: not installed: buildah; on Debian and Ubuntu: apt-get install buildah\n"
    assert (1, "", said) == (done.returncode, done.stdout, done.stderr)


def as_nobody(answers: Connection) -> None:
    os.setuid(65534)
    answers.send(missing())


def test_root_is_missing() -> None:
    if os.geteuid() != 0:
        said = missing()
    else:
        ours, theirs = multiprocessing.Pipe()
        process = multiprocessing.get_context("fork").Process(target=as_nobody, args=(theirs,))
        process.start()
        said = ours.recv()
        process.join()
    assert said is not None
    assert said.startswith("not root: ")
