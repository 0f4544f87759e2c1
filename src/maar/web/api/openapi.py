"""The OpenAPI document, made from the table of routes and the types of the answers, so that it cannot disagree."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from maar import __version__
from maar.web.api.answers import ChangeEvent
from maar.web.api.errors import ErrorView
from maar.web.api.queries import BOUNDS, LONGEST, pattern
from maar.web.api.roots import PREFIX
from maar.web.api.routes import OPENAPI, ROUTES, STREAM, Route

REFERENCE = "#/components/schemas/{name}"
NAME = "^[!-~]{1,512}$"
"""A part of a path. Names of jobs may be unusual, but they are printable."""
ERRORS = {
    "400": "A parameter is wrong, or the body is not JSON; `field` names it",
    "401": "No token, or one that the API server does not accept",
    "403": "The token may not be sent like this, or the user may not do this",
    "404": "No such path, or no such job that the user may see",
    "405": "Another method is needed",
    "408": "The body did not arrive in time",
    "409": "The object exists already, or has changed meanwhile",
    "413": "The body is too large",
    "415": "The body is not JSON by its Content-Type",
    "422": "A field of the body is wrong; `field` is its path",
    "429": "Too many requests; see Retry-After",
    "503": "Not ready yet, or the API server cannot be asked; see Retry-After",
}


def document() -> dict[str, Any]:
    """The document, as plain data."""
    types: list[Any] = [ErrorView, ChangeEvent]
    for route in ROUTES:
        types += [route.answer, *(() if route.body is None else (route.body,))]
    (*references,), components = msgspec.json.schema_components(types, ref_template=REFERENCE)
    of = {id(kind): reference for kind, reference in zip(types, references, strict=True)}
    error = of[id(ErrorView)]
    paths: dict[str, Any] = {}
    for route in ROUTES:
        paths.setdefault(PREFIX + route.path, {})[route.method.lower()] = _operation(route, of, error)
    events = "Server-sent events `event: change`, `data:` a ChangeEvent; `event: pulse` between, for `fetch`"
    until = _response("Events until the client leaves", {"type": "string"}, "text/event-stream")
    paths[PREFIX + STREAM] = {
        "get": {"operationId": "stream", "summary": events, "responses": {"200": until, **_errors(error)}}
    }
    this = {"200": _response("The document", {"type": "object"}), **_errors(error)}
    paths[PREFIX + OPENAPI] = {
        "get": {"operationId": "openapi", "summary": "This document", "security": [], "responses": this}
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Maar",
            "version": __version__,
            "description": "Why, when and what if. Amounts are whole numbers: CPU in thousandths, all else in units "
            "and bytes. Times are seconds since 1970. A name that is null is one that the user may not know.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token of Kubernetes, for the API server or for the audience `maar.dev`",
                }
            },
        },
        "security": [{"bearer": []}],
    }


def _operation(route: Route, of: dict[int, Any], error: Any) -> dict[str, Any]:
    words = [*re.findall(r"[a-z]+", route.path), *((route.method.lower(),) if route.writes else ())]
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "pattern": NAME}}
        for name in re.findall(r"{(\w+)}", route.path)
    ]
    parameters += [_parameter(route.query, field) for field in msgspec.structs.fields(route.query)]
    operation: dict[str, Any] = {
        "operationId": "-".join(words),
        "summary": route.summary,
        "parameters": parameters,
        "responses": {str(route.status): _response("The answer", of[id(route.answer)]), **_errors(error)},
    }
    if route.body is not None:
        content = {"application/json": {"schema": of[id(route.body)]}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _parameter(query: type[Any], field: msgspec.structs.FieldInfo) -> dict[str, Any]:
    schema = {**msgspec.json.schema(field.type), "default": field.default}
    if field.type is str:
        schema["maxLength"] = LONGEST
    if (looks := pattern(query, field.name)) is not None:
        schema["pattern"] = looks
    if field.name in BOUNDS:
        schema["minimum"], schema["maximum"] = BOUNDS[field.name]
    return {"name": field.name, "in": "query", "required": False, "schema": schema}


def _errors(error: Any) -> dict[str, Any]:
    return {code: _response(what, error) for code, what in ERRORS.items()}


def _response(description: str, schema: Any, kind: str = "application/json") -> dict[str, Any]:
    return {"description": description, "content": {kind: {"schema": schema}}}
