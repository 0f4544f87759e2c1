"""How commands end: the exit code, one message, and no traceback, whatever is wrong outside."""

import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from maar.cli.main import COMMANDS, main
from maar.cli.support.exits import BadInput, CannotRun, Exit, Problem, ended

MAAR = [sys.executable, "-m", "maar.cli.main"]
DOCS = Path(__file__).parents[2] / "docs"
JOB = "name,submit,duration,workers\n" + "".join(f"j{i},{i},100,1\n" for i in range(200))
NODES = "apiVersion: v1\nkind: Node\nmetadata: {name: n}\n"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Inputs, good and bad."""
    (tmp_path / "trace.csv").write_text(JOB)
    (tmp_path / "nodes.yaml").write_text(NODES)
    (tmp_path / "empty").write_text("")
    (tmp_path / "latin1").write_bytes(b"# na\xefve\nname: x\n")
    (tmp_path / "bytes").write_bytes(bytes(range(256)) * 50)
    (tmp_path / "folder").mkdir()
    return tmp_path


READING = {
    "plan": ("plan",),
    "plan --config": ("plan", "nodes.yaml", "--config"),
    "allocate": ("allocate", "--algorithm", "afs-l", "--gpus", "4"),
    "config check": ("config", "check"),
    "trace describe": ("trace", "describe"),
    "trace convert": ("trace", "convert"),
    "simulate": ("simulate",),
    "simulate --config": ("simulate", "trace.csv", "--config"),
    "simulate --faults": ("simulate", "trace.csv", "--faults"),
    "history": ("history", "--history"),
    "run --config": ("run", "--kubeconfig", "none", "--config"),
    "run --brakes": ("run", "--kubeconfig", "none", "--brakes"),
}
"""Every way to name an input file: the file comes last."""
FINE = {("plan", "folder"), ("plan", "empty"), ("plan --config", "empty"), ("config check", "empty")}
FINE |= {("simulate --config", "empty"), ("history", "empty"), ("history", "missing")}
CANNOT = {("history", name) for name in ("latin1", "bytes", "folder")}
CANNOT |= {("run --config", "empty"), ("run --brakes", "empty"), ("run --brakes", "missing")}
"""A history is a database, not an input file. Without settings `maar run` goes on to the cluster."""


@pytest.mark.parametrize("command", READING)
@pytest.mark.parametrize("file", ["missing", "folder", "empty", "latin1", "bytes"])
def test_an_input_that_cannot_be_read_is_one_line_and_code_2(
    command: str, file: str, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    done = CliRunner().invoke(main, [*READING[command], file])
    assert "Traceback" not in done.stderr
    if (command, file) in FINE - {("plan", "folder")}:
        assert (Exit.OK, "") == (done.exit_code, "" if done.exit_code == 0 else done.stderr)
        return
    expected = Exit.CANNOT if (command, file) in CANNOT else Exit.USAGE
    assert (expected, "") == (done.exit_code, done.stdout), done.stderr
    assert file in done.stderr or expected is Exit.CANNOT


@pytest.mark.parametrize("command", [*COMMANDS, "config check", "trace generate", "trace describe", "trace convert"])
def test_wrong_usage_is_code_2_and_help_is_code_0(command: str) -> None:
    wrong = CliRunner().invoke(main, [*command.split(), "--no-such-option"])
    assert (Exit.USAGE, "") == (wrong.exit_code, wrong.stdout)
    assert "No such option" in wrong.stderr
    assert Exit.OK == CliRunner().invoke(main, [*command.split(), "--help"]).exit_code


def test_an_unknown_command_is_code_2() -> None:
    done = CliRunner().invoke(main, ["pln"])
    assert (Exit.USAGE, True) == (done.exit_code, "did you mean `plan`?" in done.stderr)


def raises(error: BaseException) -> int:
    def command() -> None:
        raise error

    return int(ended(command))


def test_every_end_has_one_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == ended(lambda: None)
    ends = [
        (Problem("a"), 1, "a\n"),
        (BadInput("a", "b\x1b"), 2, "a\nb\\x1b\n"),
        (CannotRun("a"), 3, "a\n"),
        (OSError(28, "No space left on device"), 3, "No space left on device\n"),
        (PermissionError(13, "Permission denied", "f"), 3, "f: Permission denied\n"),
        (MemoryError(), 3, "out of memory\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (BrokenPipeError(32, "Broken pipe"), 141, ""),
        (SystemExit(5), 5, ""),
    ]
    for error, code, said in ends:
        assert (code, said) == (raises(error), capsys.readouterr().err)
    assert Exit.BUG == raises(ZeroDivisionError("x\x1b[31m\ny"))
    shown = capsys.readouterr().err
    assert "Traceback" in shown
    assert "\x1b" not in shown


def test_the_documentation_has_the_same_table() -> None:
    rows = re.findall(r"(?m)^\| (\d+) \| (.+?) \|$", (DOCS / "commands.md").read_text())
    assert [(str(code.value), code.meaning) for code in Exit] == rows


def test_only_one_module_prints_and_only_one_exits() -> None:
    """All output passes the escaping of `output`, all ends pass `exits`; `demo` prints with rich by itself."""
    for file in (Path(main.callback.__code__.co_filename).parent).glob("*.py"):  # type: ignore[union-attr]
        text = file.read_text()
        if file.name != "output.py":
            assert "click.echo" not in text, file.name
            assert not re.search(r"\bprint\(", text.replace("console.print(", "").replace("out.print(", "")), file.name
        if file.name != "exits.py":
            assert "sys.exit" not in text, file.name


WRITING = {
    "plan": ("plan", "nodes.yaml"),
    "demo": ("demo", "--for", "1"),
    "trace generate": ("trace", "generate", "--jobs", "5000"),
    "simulate": ("simulate", "trace.csv", "--processes", "1", "--policy", "fifo"),
    "version": ("--version",),
}


@pytest.mark.parametrize("command", WRITING)
def test_a_full_device_is_code_3(command: str, files: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*MAAR, *WRITING[command]], cwd=files, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    lines = [line for line in done.stderr.splitlines() if not line.startswith("warning: ")]
    assert (Exit.CANNOT, ["No space left on device"]) == (done.returncode, lines)


@pytest.mark.parametrize("command", ["plan", "demo", "trace generate", "version"])
def test_a_reader_that_goes_away_is_code_141_and_silence(command: str, files: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [*MAAR, *WRITING[command]], cwd=files, stdout=write, stderr=subprocess.PIPE, text=True, check=False
        )
    finally:
        os.close(write)
    lines = [line for line in done.stderr.splitlines() if not line.startswith("warning: ")]
    assert (Exit.PIPE, []) == (done.returncode, lines)


@pytest.mark.parametrize("command", ["plan", "demo", "trace generate", "version"])
def test_a_missing_output_is_code_3(command: str, files: Path) -> None:
    line = f"{shlex.join([*MAAR, *WRITING[command]])} <&- >&-"
    done = subprocess.run(["sh", "-c", line], cwd=files, stderr=subprocess.PIPE, text=True, check=False)
    lines = [line for line in done.stderr.splitlines() if not line.startswith("warning: ")]
    assert (Exit.CANNOT, ["Bad file descriptor"]) == (done.returncode, lines)


def test_a_missing_place_for_errors_changes_no_code(files: Path) -> None:
    for words, code in ((("plan", "missing"), Exit.USAGE), (("--version",), Exit.OK)):
        line = f"{shlex.join([*MAAR, *words])} 2>&-"
        done = subprocess.run(["sh", "-c", line], cwd=files, stdout=subprocess.PIPE, check=False)
        assert code == done.returncode


@pytest.mark.parametrize("option", ["--jobs", "--report"])
def test_an_output_file_that_cannot_be_written_is_named(
    option: str, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    done = CliRunner().invoke(main, [*WRITING["simulate"], option, "/dev/full"])
    assert (Exit.CANNOT, "") == (done.exit_code, done.stdout)
    assert done.stderr.startswith("/dev/full: cannot be written: ")


@pytest.mark.parametrize(
    "words",
    [
        ("demo", "--for", "nan"),
        ("demo", "--for", "-1"),
        ("demo", "--for", "20x"),
        ("demo", "--speed", "nan"),
        ("demo", "--speed", "inf"),
        ("simulate", "trace.csv", "--nodes", "99999999999999"),
        ("simulate", "trace.csv", "--gpus-per-node", "99999999999999"),
    ],
)
def test_numbers_that_cannot_be_meant_are_wrong_usage(
    words: tuple[str, ...], files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    assert Exit.USAGE == CliRunner().invoke(main, words).exit_code


def test_a_kubeconfig_of_bytes_is_no_bug(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(files)
    for name in ("bytes", "latin1", "folder", "empty"):
        done = CliRunner().invoke(main, ["run", "--kubeconfig", name])
        assert (Exit.CANNOT, 1) == (done.exit_code, done.stderr.count("\n")), done.stderr
        assert name in done.stderr


def test_a_full_device_for_errors_too(files: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([*MAAR, "plan", "missing"], cwd=files, stdout=full, stderr=full, check=False)
    assert Exit.CANNOT == done.returncode


@pytest.mark.parametrize("processes", ["1", "2"])
def test_ctrl_c_in_simulate_ends_all_its_processes_with_one_line(processes: str, tmp_path: Path) -> None:
    """Ctrl-C goes to the whole process group, as from a terminal, after the progress bars have appeared."""
    trace = tmp_path / "long.csv"
    done = CliRunner().invoke(main, ["trace", "generate", "--jobs", "20000", "-O", str(trace)])
    assert 0 == done.exit_code
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*MAAR, "simulate", str(trace), "--policy", "fifo,srtf", "--depth", "cluster", "--processes", processes],
        stdout=subprocess.PIPE, stderr=theirs, process_group=0,
    )  # fmt: skip
    os.close(theirs)
    try:
        seen = b""
        while b"/20000" not in seen:
            seen += os.read(ours, 65536)
        os.killpg(process.pid, signal.SIGINT)
        deadline = time.monotonic() + 30
        with_end = b""
        while time.monotonic() < deadline:
            try:
                part = os.read(ours, 65536)
            except OSError:  # all writers are gone
                break
            with_end += part
        assert Exit.INTERRUPTED == process.wait(30)
    finally:
        process.kill()
        os.close(ours)
        process.communicate()
    assert b"interrupted" in with_end
    assert b"Traceback" not in seen + with_end
    with pytest.raises(ProcessLookupError):  # no process of the group is left
        os.killpg(process.pid, 0)
