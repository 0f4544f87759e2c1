"""Input files and options that several commands share. A file is a path, or `-` for standard input."""

from __future__ import annotations

import click

from maar.config.problems import ConfigError

OUTPUT = click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Output format."
)


LENIENT = click.option(
    "--lenient",
    is_flag=True,
    help="Skip unknown keys, arguments, flags, plugins and actions of a configuration, and plugins that keep pods off "
    "nodes and that Maar lacks. Each is a warning that says what is lost, instead of an error.",
)


def source_of(file: str) -> str:
    """The name of a file in messages."""
    return "standard input" if file == "-" else file


def read_text(file: str) -> str:
    """The content of a file; a `ConfigError` if it cannot be read."""
    try:
        with click.open_file(file, "rb") as stream:
            return str(stream.read().decode())
    except FileNotFoundError:
        raise ConfigError([f"{source_of(file)}: no such file"]) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([f"{source_of(file)}: cannot be read: {error}"]) from None
