"""`maar`: the command line's entrance, and the one table of its commands."""

from __future__ import annotations

import click

from maar import __version__
from maar.cli.config import config
from maar.cli.plan import plan

COMMANDS = (plan, config)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="maar", message="%(prog)s %(version)s")
def main() -> None:
    """Maar schedules deep-learning clusters: gangs, queues, and decisions that explain themselves."""


for _command in COMMANDS:
    main.add_command(_command)
