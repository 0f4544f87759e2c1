"""`maar`: the entry point of the command line, and the table of its commands."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click

from maar import __version__
from maar.cli.support.exits import ended, leave, replace_missing_streams
from maar.cli.support.logs import tame_stray_records

COMMANDS = {
    "jobs": "maar.cli.jobs",
    "why": "maar.cli.why",
    "when": "maar.cli.when",
    "queues": "maar.cli.queues",
    "nodes": "maar.cli.nodes",
    "shards": "maar.cli.shards",
    "what-if": "maar.cli.what_if",
    "submit": "maar.cli.submit",
    "hold": "maar.cli.hold",
    "release": "maar.cli.hold",
    "cancel": "maar.cli.hold",
    "set": "maar.cli.hold",
    "plan": "maar.cli.plan",
    "allocate": "maar.cli.allocate",
    "config": "maar.cli.config",
    "run": "maar.cli.run",
    "web": "maar.cli.web",
    "demo": "maar.cli.demo",
    "history": "maar.cli.history",
    "trace": "maar.cli.trace",
    "simulate": "maar.cli.simulate",
}
"""The module of each command. Only the module of the command that runs is imported."""

ATTRIBUTES = {"what-if": "what_if", "set": "change"}
"""The names of commands in their modules, where Python does not allow their own."""

COMPLETING = "_MAAR_COMPLETE"
"""The variable by which a shell asks for completions."""
WHOLE = 1000
"""Characters: more than any first sentence has."""


class Commands(click.Group):
    """The commands of `COMMANDS`, in that order."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        """Import a command; an unknown name gets a suggestion."""
        if cmd_name not in COMMANDS:
            from maar.model.words import unknown  # imported late, so that `maar` starts fast

            raise click.UsageError(unknown("command", cmd_name, COMMANDS), ctx)
        command = getattr(import_module(COMMANDS[cmd_name]), ATTRIBUTES.get(cmd_name, cmd_name))
        assert isinstance(command, click.Command), f"no command: {cmd_name}"
        return command

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command; as a program it ends with one of the codes in `maar.cli.support.exits`, not with click's."""
        if not standalone_mode or COMPLETING in os.environ:
            return super().main(args, prog_name, complete_var, standalone_mode, **extra)
        replace_missing_streams()
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")  # for terminals that lack a character
        tame_stray_records()
        leave(ended(lambda: self._run(sys.argv[1:] if args is None else list(args), prog_name or "maar", extra)))

    def _run(self, args: list[str], prog_name: str, extra: dict[str, Any]) -> Any:
        with self.make_context(prog_name, args, **extra) as ctx:
            return self.invoke(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List each command with its whole first sentence, which click would truncate."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.get_short_help_str(limit=WHOLE)) for name, command in found])


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="maar", message="%(prog)s %(version)s")
def main() -> None:
    """Maar schedules deep-learning jobs on Kubernetes: gangs, queues, elastic jobs, and a reason for every wait."""


def plugin() -> None:
    """The entry point of `kubectl maar`."""
    main(prog_name="kubectl maar")


if __name__ == "__main__":
    main(prog_name="maar")
