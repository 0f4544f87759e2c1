"""`maar`: the command line's entrance, and the one table of its commands."""

from __future__ import annotations

from importlib import import_module

import click

from maar import __version__

COMMANDS = {
    "plan": "maar.cli.plan",
    "allocate": "maar.cli.allocate",
    "config": "maar.cli.config",
    "run": "maar.cli.run",
    "demo": "maar.cli.demo",
    "history": "maar.cli.history",
    "trace": "maar.cli.trace",
    "simulate": "maar.cli.simulate",
}
"""Each command and its module, which is imported only when it is asked for: `maar plan` needs no network."""

WHOLE = 1000
"""Characters, more than any sentence has."""


class Commands(click.Group):
    """The commands of the table."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their names, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        """One of them; another name gets a suggestion."""
        if cmd_name not in COMMANDS:
            from maar.config.problems import unknown  # only here: `maar` alone starts at once

            raise click.UsageError(unknown("command", cmd_name, COMMANDS), ctx)
        command = getattr(import_module(COMMANDS[cmd_name]), cmd_name)
        assert isinstance(command, click.Command), f"no command: {cmd_name}"
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Each with its whole first sentence, which click would cut at the end of the line."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.get_short_help_str(limit=WHOLE)) for name, command in found])


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="maar", message="%(prog)s %(version)s")
def main() -> None:
    """Maar schedules deep-learning clusters: gangs, queues, and decisions that explain themselves."""


if __name__ == "__main__":
    main(prog_name="maar")
