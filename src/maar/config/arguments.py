"""The arguments of one plugin or action: from the content of a file to the struct that the plugin declares.

Volcano's users write `"5"`, `"true"` and `1.2` interchangeably, so a value is accepted if it can be read as the wanted
type. Any other value is reported with its path. Each argument is checked separately, so that every problem is reported;
the struct is built only if all arguments are valid.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

import msgspec
from msgspec import inspect

from maar.config.config import Ignored, OpenArguments
from maar.config.flags import as_bool
from maar.config.problems import Findings, shown
from maar.model.durations import READ

Wanted = type[msgspec.Struct]
"""The struct that declares arguments: their names, types and defaults."""


def clean(
    name: str,
    wanted: Wanted,
    raw: dict[str, object],
    path: str,
    findings: Findings,
    ignored: Mapping[str, Ignored] = {},
    advice: Mapping[str, str] = {},
) -> dict[str, object]:
    """The valid arguments of `name`, by their names in the file; problems with the others are reported.

    `advice` has names that belong elsewhere in the file, and where.
    """
    given = {name: value for name, value in raw.items() if value is not None}
    fields = _fields(wanted)
    for key in [key for key in given if key not in fields]:
        lost = next((lost for pattern, lost in ignored.items() if fnmatchcase(key, pattern)), None)
        if lost is not None:
            value = given.pop(key)
            if not _same(value, lost.unless):
                findings.warn(f"{path}.{key}", f"has no effect: {lost.why}")
    cleaned: dict[str, object] = {}
    for key, value in _normalise(wanted, given, path, findings).items():
        field = fields.get(key)
        if field is None:
            known_elsewhere = [pattern for pattern in ignored if "*" not in pattern]
            findings.unknown(
                path,
                "argument",
                key,
                fields,
                lost=f"`{name}` decides without it",
                also=known_elsewhere,
                advice=advice.get(key) or ("" if fields else f"`{name}` takes no arguments"),
            )
            continue
        value = _loosely(field.type, value)
        trouble = _refuse(field.type, value)
        if trouble:
            findings.problem(f"{path}.{key}", trouble)
        else:
            cleaned[key] = value
    return cleaned


def build(
    name: str, wanted: Wanted, cleaned: dict[str, object], path: str, findings: Findings
) -> msgspec.Struct | None:
    """The struct, unless an argument is missing or the arguments contradict each other."""
    missing = [key for key, field in _fields(wanted).items() if field.required and key not in cleaned]
    for key in missing:
        findings.problem(path, f"`{name}` needs the argument `{key}`")
    if missing:
        return None
    try:
        return msgspec.convert(cleaned, wanted, strict=False)
    except msgspec.ValidationError as error:
        findings.problem(path, str(error))
        return None


def read_arguments(
    name: str, wanted: Wanted, raw: dict[str, object], path: str, findings: Findings
) -> msgspec.Struct | None:
    """The struct of the arguments: `clean` and `build` in one."""
    return build(name, wanted, clean(name, wanted, raw, path, findings), path, findings)


def takes(wanted: Wanted, key: str, ignored: Mapping[str, Ignored] = {}) -> bool:
    """Whether a key is the name of an argument, with or without an effect."""
    if key in _fields(wanted) or any(fnmatchcase(key, pattern) for pattern in ignored):
        return True
    if not issubclass(wanted, OpenArguments):
        return False
    try:
        return key not in wanted.normalise({key: 1})
    except ValueError:
        return True


def _same(value: object, other: bool | float | None) -> bool:
    """Whether a value in a file is a given boolean or number, perhaps quoted."""
    if other is None or isinstance(other, bool):
        return other is not None and as_bool(value) is other
    try:
        return not isinstance(value, bool) and float(str(value)) == other
    except ValueError:
        return False


def _fields(wanted: Wanted) -> dict[str, msgspec.structs.FieldInfo]:
    return {field.encode_name: field for field in msgspec.structs.fields(wanted)}


def _normalise(wanted: Wanted, given: dict[str, object], path: str, findings: Findings) -> dict[str, object]:
    """Let a struct with open-ended names gather its arguments; leave out each argument that it refuses and retry."""
    while issubclass(wanted, OpenArguments):
        try:
            return wanted.normalise(dict(given))
        except ValueError as error:
            name, _, text = str(error).partition(": ")
            if name not in given:
                findings.problem(path, str(error))
                return {}
            findings.problem(f"{path}.{name}", text)
            del given[name]
    return given


def _loosely(wanted: Any, value: object) -> object:
    """The value in the spelling that the type needs: text for `5`, a list for `a, b`."""
    kinds = _alternatives(inspect.type_info(wanted))
    if isinstance(value, int | float) and not isinstance(value, bool):
        texts = any(isinstance(k, inspect.StrType) for k in kinds)
        numbers = any(isinstance(k, inspect.IntType | inspect.FloatType) for k in kinds)
        return str(value) if texts and not numbers else value
    if isinstance(value, str) and any(isinstance(k, inspect.ListType | inspect.VarTupleType) for k in kinds):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


def _refuse(wanted: Any, value: object) -> str | None:
    info = inspect.type_info(wanted)
    try:
        converted = msgspec.convert(value, wanted, strict=False)
    except (msgspec.ValidationError, OverflowError):
        pass
    else:
        if not isinstance(converted, float) or math.isfinite(converted):
            return _unreadable(info, value)
    return f"expected {describe(info)}, got {shown(value)}"


def _unreadable(info: inspect.Type, value: Any) -> str | None:
    """What the type itself has against a value, such as a text that is not a duration."""
    for one in _options(info):
        read = (one.extra or {}).get(READ) if isinstance(one, inspect.Metadata) else None
        try:
            if read is not None:
                read(value)
        except ValueError as error:
            return str(error)
    return None


def _options(info: inspect.Type) -> list[inspect.Type]:
    """The types of a union, without `None`; a type that is not a union is the only one."""
    types = info.types if isinstance(info, inspect.UnionType) else (info,)
    return [one for one in types if not isinstance(one, inspect.NoneType)]


def _alternatives(info: inspect.Type) -> list[inspect.Type]:
    """The same without what is said about types."""
    if isinstance(info, inspect.Metadata):
        return _alternatives(info.type)
    if isinstance(info, inspect.UnionType):
        return [each for one in _options(info) for each in _alternatives(one)]
    return [info]


def describe(info: inspect.Type) -> str:
    """A type in words for users. `Meta(description=...)` replaces the default text for a type."""
    if isinstance(info, inspect.Metadata):
        words = (info.extra_json_schema or {}).get("description")
        return words if isinstance(words, str) else describe(info.type)
    if isinstance(info, inspect.UnionType):
        return " or ".join(map(describe, _options(info)))
    return _word(info)


def _word(info: inspect.Type) -> str:
    match info:
        case inspect.BoolType():
            return "`true` or `false`"
        case inspect.IntType():
            return "a whole number" + _bounds(info)
        case inspect.FloatType():
            return "a number" + _bounds(info)
        case inspect.StrType():
            return "text"
        case inspect.LiteralType():
            return _one_of(info.values)
        case inspect.EnumType():
            return _one_of(member.value for member in info.cls)
        case inspect.ListType() | inspect.VarTupleType() | inspect.SetType() | inspect.FrozenSetType():
            return "a list"
        case inspect.DictType():
            return f"a mapping of {describe(info.key_type)} to {describe(info.value_type)}"
        case _:
            return "a mapping"


def _one_of(values: Any) -> str:
    return "one of " + ", ".join(f"`{value}`" for value in sorted(values, key=str))


def _bounds(info: inspect.IntType | inspect.FloatType) -> str:
    words = {"of at least": info.ge, "above": info.gt, "of at most": info.le, "below": info.lt}
    parts = [f"{word} {bound:g}" for word, bound in words.items() if bound is not None]
    return " " + " and ".join(parts) if parts else ""
