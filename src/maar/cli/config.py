"""`maar config`: checks a configuration file and prints the default one.

`maar.config.file` reads the file; this module has only the command line.
"""

from __future__ import annotations

import inspect

import click
import msgspec
from rich import box
from rich.table import Table

from maar.cli.support.exits import Problem
from maar.cli.support.inputs import LENIENT, read_text, source_of
from maar.cli.support.output import escaped, say
from maar.cli.support.printing import lines, printed
from maar.config.config import ActionOption, Config, Explained, PluginOption, Registration
from maar.config.file import PROFILES, ConfigError, profile_text, read_config
from maar.config.gangs import unstated_reclaim
from maar.registry import catalog

WIDTH = 160
"""Table width without a terminal. Tuned by hand."""


@click.group()
def config() -> None:
    """Check a configuration file, or print the default one."""


@config.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@LENIENT
def check(file: str, lenient: bool) -> None:
    """Check FILE (- for standard input): print the actions and plugins that it configures, or all its errors.

    FILE is a configuration of Maar or of Volcano's scheduler, or a ConfigMap that contains one. Exit codes: 0 if FILE
    is valid, 1 if it is invalid, 2 if it cannot be read.
    """
    source = source_of(file)
    text = read_text(file)
    try:
        loaded = read_config(text, source, catalog(), lenient)
    except ConfigError as error:
        raise Problem(*error.problems, *([] if lenient else _way_out(text, source))) from None
    _print_config(source, loaded.config)
    if loaded.config.pod_events:
        say("pod-events: each bound pod gets an event, besides the event of its gang")
    for warning in loaded.warnings:
        say(escaped(f"warning: {warning}"))
    if note := unstated_reclaim(loaded.config):
        say(escaped(f"note: {source}: {note}"))
    for option in (*loaded.config.actions, *(plugin for tier in loaded.config.tiers for plugin in tier)):
        if isinstance(option.arguments, Explained):
            for note in option.arguments.notes():
                say(escaped(f"note: {source}: `{option.name}`: {note}"))


@config.command()
@click.option(
    "--profile",
    type=click.Choice(PROFILES),
    default=PROFILES[0],
    show_default=True,
    help="default: GPU jobs are packed. services: the only scheduler of a cluster with services and GPU jobs.",
)
def show(profile: str) -> None:
    """Print Maar's default configuration, or another profile, as a start for your own."""
    say(profile_text(profile))


def _way_out(text: str, source: str) -> list[str]:
    """Say so if an invalid file can be used with `--lenient`."""
    try:
        read_config(text, source, catalog(), lenient=True)
    except ConfigError:
        return []
    return [f"{source}: can be used with `--lenient`, which skips what Maar does not know or have"]


def _print_config(source: str, chosen: Config) -> None:
    actions = Table("", "action", "what it does", "settings", box=box.SIMPLE_HEAD, pad_edge=False)
    for i, action in enumerate(chosen.actions, start=1):
        actions.add_row(str(i), action.name, meaning(action.registration), lines(settings(action)))
    plugins = Table("tier", "plugin", "what it does", "settings", box=box.SIMPLE_HEAD, pad_edge=False)
    for i, tier in enumerate(chosen.tiers, start=1):
        for plugin in tier:
            plugins.add_row(str(i), plugin.name, meaning(plugin.registration), lines(settings(plugin)))
        plugins.add_section()
    say(printed([f"{source}: can be used", "", actions, plugins], WIDTH))


def meaning(registration: Registration) -> str:
    """What a plugin or action does: the first line of its module's docstring."""
    module = inspect.getmodule(registration.make)
    first = (inspect.getdoc(module) or "").partition("\n")[0]
    return first.removeprefix(f"{registration.name}: ").removesuffix(".")


def settings(option: PluginOption | ActionOption) -> list[str]:
    """The settings that differ from the defaults, as in a file: arguments, then flags."""
    defaults = {f.name: f for f in msgspec.structs.fields(option.registration.arguments)}
    lines = []
    for name, field in defaults.items():
        value = getattr(option.arguments, name)
        if field.required or value != _default(field):
            lines.append(f"{field.encode_name}: {_yaml(value)}")
    if isinstance(option, PluginOption):
        lines += [f"enable{flag[0].upper()}{flag[1:]}: {_yaml(on)}" for flag, on in option.flags.items()]
    return lines


def _default(field: msgspec.structs.FieldInfo) -> object:
    return field.default_factory() if callable(field.default_factory) else field.default


def _yaml(value: object) -> str:
    match msgspec.to_builtins(value):
        case bool() as truth:
            return str(truth).lower()
        case float() as number:
            return f"{number:g}"
        case dict() as mapping:
            return "{" + ", ".join(f"{key}: {_yaml(item)}" for key, item in mapping.items()) + "}"
        case list() | tuple() as items:
            return "[" + ", ".join(map(_yaml, items)) + "]"
        case other:
            return str(other)
