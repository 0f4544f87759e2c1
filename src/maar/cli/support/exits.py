"""The exit codes of all commands, and how every command ends: with one of them, one message, and no traceback.

`Commands.main` runs each command inside `ended`. A command itself only raises: `Problem` and `CannotRun`, click's own
exceptions, or what the other layers raise about input and clusters (`_refusal`). Nothing else in `maar.cli` exits.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
import traceback
from collections.abc import Callable
from enum import IntEnum
from typing import IO, Any, NoReturn

import click

from maar.cli.support.output import tell


class Exit(IntEnum):
    """The exit codes. `docs/commands.md` has the table for users; a test compares the two."""

    OK = 0, "the command did what it should"
    PROBLEM = 1, "it did, and found a problem: an invalid configuration, a plan that differs from its recording"
    USAGE = 2, "wrong usage, or input that cannot be read: an option, a file, a document"
    CANNOT = 3, "something outside refused: the cluster, the database, a port, a full or missing output device"
    BUG = 70, "a bug in Maar, with a traceback on standard error"
    INTERRUPTED = 130, "interrupted by Ctrl-C (128 + SIGINT)"
    PIPE = 141, "the reader of the output went away, as `head` does (128 + SIGPIPE)"

    meaning: str

    def __new__(cls, code: int, meaning: str) -> Exit:
        made = int.__new__(cls, code)
        made._value_ = code
        made.meaning = meaning
        return made


class Ended(click.ClickException):
    """A command ends with its `exit_code`; the messages, a line each, go to standard error."""

    def __init__(self, *messages: str) -> None:
        super().__init__("\n".join(messages))
        self.messages = messages

    def show(self, file: IO[Any] | None = None) -> None:
        for message in self.messages:
            tell(message)


class Problem(Ended):
    """The command worked, and what it found is a problem."""

    exit_code = Exit.PROBLEM


class BadInput(Ended):
    """A file or standard input cannot be used."""

    exit_code = Exit.USAGE


class CannotRun(Ended):
    """The cluster, the database or an output file refuses."""

    exit_code = Exit.CANNOT


def ended(command: Callable[[], Any]) -> Exit | int:
    """Run a command to its end: its exit code. All output has been written, or is given up."""
    try:
        code = command()
        sys.stdout.flush()
        return code if isinstance(code, int) else Exit.OK
    except BaseException as error:  # noqa: BLE001 whatever ends the program has an exit code
        return _code_of(error)


def _code_of(error: BaseException) -> Exit | int:
    try:
        code = _told(error)
        sys.stdout.flush()
        return code
    except OSError:
        _give_up_output()
        return Exit.PIPE if isinstance(error, OSError) and error.errno == errno.EPIPE else Exit.CANNOT


def _told(error: BaseException) -> Exit | int:
    """Say what ended a command."""
    match error:
        case Ended():
            error.show()
            return error.exit_code
        case click.exceptions.Exit():
            return error.exit_code
        case SystemExit():
            return error.code if isinstance(error.code, int) else Exit.OK if error.code is None else Exit.BUG
        case click.ClickException():
            shown = io.StringIO()
            error.show(shown)
            for line in shown.getvalue().rstrip("\n").split("\n"):
                tell(line)
            return Exit.USAGE
        case KeyboardInterrupt() | click.Abort():
            tell("interrupted")
            return Exit.INTERRUPTED
        case OSError(errno=errno.EPIPE):
            _give_up_output()
            return Exit.PIPE
        case OSError():
            _give_up_output()
            where = f"{os.fsdecode(error.filename)}: " if error.filename is not None else ""
            tell(f"{where}{error.strerror or error}")
            return Exit.CANNOT
        case MemoryError():
            tell("out of memory")
            return Exit.CANNOT
        case _ if (refusal := _refusal(error)) is not None:
            refusal.show()
            return refusal.exit_code
        case _:
            for line in traceback.format_exception(error):
                for part in line.rstrip("\n").split("\n"):
                    tell(part)
            return Exit.BUG


def _refusal(error: BaseException) -> Ended | None:
    """What an error of another layer means for the caller of a command; `None` if it should not have come here."""
    # Imported late: only a command that fails needs the names.
    from maar.config.problems import ConfigError
    from maar.history.errors import BadAddress
    from maar.kube.client.errors import AccessError, ApiError
    from maar.kube.wire.errors import ManifestError
    from maar.sim.faults import FaultError
    from maar.sim.traces.problems import TraceError

    match error:
        case ConfigError():
            return BadInput(*error.problems)
        case TraceError():
            return BadInput(*error.lines)
        case ManifestError() | FaultError() | BadAddress():
            return BadInput(str(error))
        case AccessError() | ApiError():
            return CannotRun(str(error))
    return None


def _give_up_output() -> None:
    """Send what is left to be written nowhere: Python would try again when it exits, and print a traceback."""
    with contextlib.suppress(OSError, ValueError):  # standard output is no file, as in tests, or is closed
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def replace_missing_streams() -> None:
    """Open what the caller closed (`>&-`): else the next file that is opened would become the output.

    Writing to a missing standard output is an error as for every program; messages to a missing standard error are not.
    """
    for number, how in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, how)  # becomes the lowest free number, which is this one
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115


def leave(code: Exit | int) -> NoReturn:
    sys.exit(int(code))
