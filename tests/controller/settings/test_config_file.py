"""The configuration file while running: a valid file is used, an invalid one is refused with its path."""

from __future__ import annotations

import logging
import os
import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.confs import ALLOCATE, PREEMPT

from maar.config.file import ConfigError
from maar.controller.settings.brake_file import BrakeFile, read_brakes
from maar.controller.settings.brakes import Brakes, BrakeSettings
from maar.controller.settings.config_file import ConfigFile, WatchedFile
from maar.files import LARGEST


def test_a_changed_file_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "maar.yaml"
    path.write_text(ALLOCATE)
    config = ConfigFile(path)
    calls: list[str] = []
    config.on_changed.append(lambda: calls.append("changed"))
    config.look()
    assert [] == calls
    path.write_text(PREEMPT)
    config.look()
    assert ["changed"] == calls
    assert config.config.has_action("preempt")


def test_a_mounted_configmap_changes_by_its_link(tmp_path: Path) -> None:
    for name, text in (("one", ALLOCATE), ("two", PREEMPT)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "maar.yaml").write_text(text)
    (tmp_path / "..data").symlink_to("one")
    (tmp_path / "maar.yaml").symlink_to("..data/maar.yaml")
    config = ConfigFile(tmp_path / "maar.yaml")
    (tmp_path / "..tmp").symlink_to("two")
    (tmp_path / "..tmp").rename(tmp_path / "..data")
    config.look()
    assert config.config.has_action("preempt")


def test_an_invalid_file_is_refused_and_the_previous_one_stays(tmp_path: Path) -> None:
    path = tmp_path / "maar.yaml"
    path.write_text(ALLOCATE)
    config = ConfigFile(path)
    refused: list[list[str]] = []
    config.on_refused.append(refused.append)
    before = config.config
    path.write_text(ALLOCATE.replace("gang", "gnag"))
    config.look()
    config.look()
    assert 1 == len(refused)
    assert refused[0][0].startswith(f"{path}: tiers[0].plugins[1]")
    assert "did you mean `gang`?" in refused[0][0]
    assert before is config.config
    path.unlink()
    config.look()
    assert before is config.config
    path.write_text(PREEMPT)
    config.look()
    assert [] == config.problems
    assert config.config.has_action("preempt")


def test_a_binary_file_is_refused_too(tmp_path: Path) -> None:
    path = tmp_path / "maar.yaml"
    path.write_text(ALLOCATE)
    config, before = ConfigFile(path), ConfigFile(path).text
    path.write_bytes(b"actions: \xff")
    config.look()
    problem = f"{path}: not UTF-8: invalid start byte at byte 9"
    assert ([problem], before) == (config.problems, config.text)
    with pytest.raises(ConfigError) as refused:
        ConfigFile(path)
    assert [problem] == refused.value.problems
    path.write_text(PREEMPT)
    config.look()
    assert ([], PREEMPT) == (config.problems, config.text)


@pytest.mark.parametrize("how", ["gone", "no text"])
def test_a_restored_file_clears_the_problem_and_a_second_loss_is_reported_again(tmp_path: Path, how: str) -> None:
    path = tmp_path / "maar.yaml"
    path.write_text(ALLOCATE)
    config, refused = ConfigFile(path), list[list[str]]()
    config.on_refused.append(refused.append)
    for times in (1, 2):
        path.unlink()
        if how == "no text":
            path.write_bytes(b"\xff")
        config.look()
        assert times == len(refused)
        path.write_text(ALLOCATE)
        config.look()
        assert [] == config.problems


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "pauzed: true",
            "pauzed: unknown brake `pauzed`; did you mean `paused`? known: paused, perMinute, queuesOff, ",
        ),
        ("paused: true\npaused: false", "line 2, column 1: `paused` is given twice"),
        ("perMinute: -1", "perMinute: "),
        ("resizesPerMinute: -1", "resizesPerMinute: "),
        ("perMinute: often", "perMinute: expected a whole number, got `often`"),
        ("queuesOff: production", "queuesOff: expected a list, got `production`"),
        ("- paused", "document: expected a mapping, got a list"),
    ],
)
def test_problems_of_brakes_are_reported_with_their_place(text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_brakes(text.encode(), "brakes.yaml")
    assert str(refused.value).startswith(f"brakes.yaml: {problem}")


def test_invalid_brakes_are_refused_and_the_previous_ones_stay(tmp_path: Path) -> None:
    path, brakes = tmp_path / "brakes.yaml", Brakes()
    file, calls = BrakeFile(path, brakes), list[BrakeSettings]()
    file.on_changed.append(lambda: calls.append(brakes.settings))
    file.look()
    assert ([], BrakeSettings()) == (calls, brakes.settings), "no file, no brakes"
    path.write_text("paused: true")
    file.look()
    for bad in (b"paused: maybe", b"pause: true", b"[", b"paused: \xff", b"paused: 2030-02-31", b"paused: !!int often"):
        path.write_bytes(bad)
        file.look()
        assert file.problems[0].startswith(f"{path}: ")
        assert brakes.settings.paused
    path.unlink()
    path.mkdir()
    file.look()
    assert [f"{path}: Is a directory"] == file.problems
    path.rmdir()
    file.look()
    assert ([BrakeSettings(paused=True), BrakeSettings()], []) == (calls, file.problems)


class Fragile(WatchedFile[None]):
    """A file whose reader has a bug."""

    def _parsed(self, data: bytes, source: str) -> None:
        if data == b"fatal":
            raise ZeroDivisionError("a bug")

    def _use(self, content: None) -> None:
        pass


def test_a_bug_while_a_file_is_read_refuses_it_and_stops_nothing(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("fine")
    file = Fragile(path, "file", logging.getLogger("test"))
    path.write_text("fatal")
    file.look()
    assert [f"{path}: cannot be read because of a bug: ZeroDivisionError: a bug"] == file.problems
    path.write_text("fine again")
    file.look()
    assert [] == file.problems


def test_a_lenient_file_stays_lenient_when_it_changes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "maar.yaml"
    path.write_text(ALLOCATE)
    config = ConfigFile(path, lenient=True)
    assert [] == caplog.records
    path.write_text("logLevel: 3\n" + PREEMPT)
    config.look()
    assert ([], True) == (config.problems, config.config.has_action("preempt"))
    assert [f"{path}: unknown key `logLevel` is skipped: Maar decides without it"] == [
        record.getMessage() for record in caplog.records if record.levelno == logging.WARNING
    ]


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


def _huge(path: Path) -> None:
    path.write_bytes(b"# " + b"x" * 10_000_000)


NO_FILES = [
    (_fifo, "expected a regular file, got a FIFO"),
    (_device, "expected a regular file, got a device"),
    (_socket, "expected a regular file, got a socket"),
    (Path.mkdir, "Is a directory"),
    (_huge, "too large: expected at most 1,048,576 bytes, got 10,000,002"),
]


@pytest.mark.parametrize(("make", "why"), NO_FILES)
def test_what_is_no_file_of_usual_size_is_refused(
    tmp_path: Path, make: Callable[[Path], None], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also a file that another one replaces while Maar runs."""
    monkeypatch.chdir(tmp_path)  # addresses of sockets are short
    path, other = Path("maar.yaml"), Path("other")
    path.write_text(ALLOCATE)
    config, brakes = ConfigFile(path), BrakeFile(path.with_name("brakes.yaml"), Brakes())
    make(other)
    path.unlink()
    other.rename(path)
    path.with_name("brakes.yaml").symlink_to(path)
    config.look()
    brakes.look()
    assert ([f"maar.yaml: {why}"], ALLOCATE) == (config.problems, config.text)
    assert [f"brakes.yaml: {why}"] == brakes.problems
    for start in (lambda: ConfigFile(path), lambda: BrakeFile(path, Brakes())):
        with pytest.raises(OSError, match=re.escape(why)):
            start()


def test_the_largest_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "maar.yaml"
    path.write_text(ALLOCATE + "#" * (LARGEST - len(ALLOCATE)))
    assert LARGEST == len(ConfigFile(path).text or "")


@pytest.mark.parametrize("text", ["&a [*a]", "a: &a {a: *a}"])
def test_a_value_that_is_a_part_of_itself_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "maar.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match="not valid YAML: a value is a part of itself"):
        ConfigFile(path)


def test_many_problems_are_logged_as_few(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "maar.yaml"
    path.write_text(ALLOCATE)
    config = ConfigFile(path)
    path.write_text(ALLOCATE + "".join(f"key{i}: 1\n" for i in range(1000)))
    config.look()
    assert (21, f"{path}: 980 more problems") == (len(config.problems), config.problems[-1])
    assert 21 == len(caplog.records)
