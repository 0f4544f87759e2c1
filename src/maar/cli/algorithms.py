"""The elastic algorithms in help texts: all that are registered, with what each does."""

from __future__ import annotations

import click


class WithAlgorithms(click.Command):
    """A command whose help ends with the list of algorithms."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        # Imported late: `maar --help` needs the sentence of each command only.
        from maar.cli.config import meaning
        from maar.registry import catalog

        with formatter.section("Algorithms"):
            formatter.write_dl([(name, meaning(made)) for name, made in sorted(catalog().algorithms.items())])
