"""A small JSON Schema validator, for the words that Maar's OpenAPI document uses; any other word is an error.

It is written by hand because the document uses 15 words of the language, and a library would be a dependency with
compiled parts.
"""

from __future__ import annotations

from typing import Any

TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
WORDS = {
    *(
        "$ref",
        "type",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "prefixItems",
        "anyOf",
        "enum",
        "const",
    ),
    *("title", "description", "default", "minimum", "maximum", "minItems", "maxItems", "discriminator"),
}


def problems(value: Any, schema: Any, document: Any, at: str = "$") -> list[str]:
    """Where a value differs from a schema."""
    if unknown := set(schema) - WORDS:
        return [f"{at}: the schema has words that this validator does not know: {sorted(unknown)}"]
    if "$ref" in schema:
        return problems(value, referred(schema["$ref"], document), document, at)
    if "anyOf" in schema:
        found = [problems(value, option, document, at) for option in schema["anyOf"]]
        return [] if any(not each for each in found) else [f"{at}: none of {len(found)} types: {min(found, key=len)}"]
    if "enum" in schema and value not in schema["enum"]:
        return [f"{at}: not one of {schema['enum']}: {value!r}"]
    if "const" in schema and value != schema["const"]:
        return [f"{at}: not {schema['const']!r}: {value!r}"]
    kind = schema.get("type")
    if kind is not None and (not isinstance(value, TYPES[kind]) or (isinstance(value, bool) and kind != "boolean")):
        return [f"{at}: not of type {kind}: {value!r}"]
    if isinstance(value, dict):
        return _of_object(value, schema, document, at)
    if isinstance(value, list) and "items" in schema:
        return [
            p for i, item in enumerate(value) for p in problems(item, schema["items"] or {}, document, f"{at}[{i}]")
        ]
    return []


def _of_object(value: dict[str, Any], schema: Any, document: Any, at: str) -> list[str]:
    known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    found = [f"{at}: {name} is missing" for name in schema.get("required", []) if name not in value]
    for name, item in value.items():
        if name in known:
            found += problems(item, known[name], document, f"{at}.{name}")
        elif others is False or known:
            found.append(f"{at}: {name} is not in the document")
        elif isinstance(others, dict):
            found += problems(item, others, document, f"{at}.{name}")
    return found


def referred(reference: str, document: Any) -> Any:
    for part in reference.removeprefix("#/").split("/"):
        document = document[part]
    return document
