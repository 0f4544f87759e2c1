"""Custom resources and their schema: removes unknown fields, sets defaults, finds errors.

Covers the part of OpenAPI that CRDs commonly use. CEL rules (`x-kubernetes-validations`) are not evaluated.
"""

from __future__ import annotations

import re
from typing import Any

from maar.embedded.objects.errors import Cause, Obj, invalid_value, required

PRESERVE, INT_OR_STRING = "x-kubernetes-preserve-unknown-fields", "x-kubernetes-int-or-string"
ALWAYS = ("apiVersion", "kind", "metadata")
TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}


def prune(obj: Obj, schema: Obj) -> list[str]:
    """Remove the fields that the schema does not have, and return their paths."""
    unknown: list[str] = []
    _prune(obj, schema, "", unknown, ALWAYS)
    return unknown


def _prune(value: Any, schema: Obj, path: str, unknown: list[str], keep: tuple[str, ...] = ()) -> None:
    if isinstance(value, list):
        for i, inner in enumerate(value):
            _prune(inner, schema.get("items") or {}, f"{path}[{i}]", unknown)
        return
    if not isinstance(value, dict):
        return
    properties, more = schema.get("properties") or {}, schema.get("additionalProperties")
    for name in tuple(value):
        if name in keep:
            continue
        inner = f"{path}.{name}" if path else name
        if name in properties:
            _prune(value[name], properties[name], inner, unknown)
        elif isinstance(more, dict):
            _prune(value[name], more, inner, unknown)
        elif not more and not schema.get(PRESERVE):
            del value[name]
            unknown.append(inner)


def fill(value: Any, schema: Obj) -> None:
    """Set the defaults of missing fields."""
    if isinstance(value, list):
        for inner in value:
            fill(inner, schema.get("items") or {})
    elif isinstance(value, dict):
        for name, inner_schema in (schema.get("properties") or {}).items():
            if name not in value and "default" in inner_schema:
                value[name] = inner_schema["default"]
            if name in value:
                fill(value[name], inner_schema)
        more = schema.get("additionalProperties")
        if isinstance(more, dict):
            for inner in value.values():
                fill(inner, more)


def check(value: Any, schema: Obj, path: str = "") -> list[Cause]:
    if value is None and schema.get("nullable"):
        return []
    wrong = _wrong_type(value, schema, path) or _wrong_value(value, schema, path)
    if wrong is not None:
        return [wrong]
    causes: list[Cause] = []
    if isinstance(value, dict):
        dot = f"{path}." if path else ""
        causes += [required(f"{dot}{name}") for name in schema.get("required") or () if name not in value]
        properties, more = schema.get("properties") or {}, schema.get("additionalProperties")
        for name, inner in value.items():
            if name in properties and not (not path and name in ALWAYS):
                causes += check(inner, properties[name], f"{dot}{name}")
            elif isinstance(more, dict):
                causes += check(inner, more, f"{dot}{name}")
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            causes += check(inner, schema.get("items") or {}, f"{path}[{i}]")
    return causes


def _wrong_type(value: Any, schema: Obj, path: str) -> Cause | None:
    if schema.get(INT_OR_STRING):
        if isinstance(value, (int, str)) and not isinstance(value, bool):
            return None
        return invalid_value(path, value, f"{path} in body must be of type integer or string")
    wanted = schema.get("type")
    if not wanted:
        return None
    fits = isinstance(value, TYPES[wanted]) and (wanted == "boolean" or not isinstance(value, bool))
    whole = wanted == "integer" and isinstance(value, float) and value.is_integer()
    if fits or whole:
        return None
    found = next((name for name, types in TYPES.items() if isinstance(value, types)), "null")
    found = "boolean" if isinstance(value, bool) else found
    why = f'{path} in body must be of type {wanted}: "{found}"'
    return Cause(path, "FieldValueTypeInvalid", f'Invalid value: "{found}": {why}')


def _wrong_value(value: Any, schema: Obj, path: str) -> Cause | None:
    if "enum" in schema and value not in schema["enum"]:
        supported = ", ".join(f'"{known}"' for known in schema["enum"])
        return Cause(path, "FieldValueNotSupported", f'Unsupported value: "{value}": supported values: {supported}')
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if "minimum" in schema and value < schema["minimum"]:
            return invalid_value(path, value, f"{path} in body should be greater than or equal to {schema['minimum']}")
        if "maximum" in schema and value > schema["maximum"]:
            return invalid_value(path, value, f"{path} in body should be less than or equal to {schema['maximum']}")
    if isinstance(value, str):
        if len(value) < schema.get("minLength", 0):
            return invalid_value(path, value, f"{path} in body should be at least {schema['minLength']} chars long")
        if len(value) > schema.get("maxLength", len(value)):
            return invalid_value(path, value, f"{path} in body should be at most {schema['maxLength']} chars long")
        if "pattern" in schema and not re.search(schema["pattern"], value):
            return invalid_value(path, value, f"{path} in body should match '{schema['pattern']}'")
    if isinstance(value, list) and len(value) < schema.get("minItems", 0):
        return invalid_value(path, len(value), f"{path} in body should have at least {schema['minItems']} items")
    if isinstance(value, list) and len(value) > schema.get("maxItems", len(value)):
        return invalid_value(path, len(value), f"{path} in body should have at most {schema['maxItems']} items")
    return None
