"""Input files and options that several commands share. A file is a path, or `-` for standard input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import click
import msgspec

from maar.config.problems import ConfigError

S = TypeVar("S", bound=msgspec.Struct)

OUTPUT = click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Output format."
)

KUBECONFIG = click.option(
    "--kubeconfig", metavar="FILE", help="Kubeconfig. Default: KUBECONFIG, ~/.kube/config, or the pod's."
)
CONTEXT = click.option("--context", metavar="NAME", help="Context of the kubeconfig. Default: its current one.")
LENIENT = click.option(
    "--lenient",
    is_flag=True,
    help="Skip unknown keys, arguments, flags, plugins and actions of a configuration, and plugins that keep pods off "
    "nodes and that Maar lacks. Each is a warning that says what is lost, instead of an error.",
)


LOG_FORMAT = click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Format of log lines."
)
WIDE_OUTPUT = click.option(
    "-o", "--output", type=click.Choice(["text", "wide", "json"]), default="text", show_default=True,
    help="Output format.",
)  # fmt: skip


def filled(kind: type[S], given: Mapping[str, Any], **more: Any) -> S:
    """A struct from the options of a command that are named like its fields, and from `more`, which goes first."""
    return kind(**{name: given[name] for name in kind.__struct_fields__ if name in given} | more)


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
