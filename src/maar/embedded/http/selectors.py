"""Label and field selectors of query strings."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from maar.embedded.objects.errors import Obj, bad_request
from maar.embedded.objects.kinds import Kind
from maar.model.selectors import Requirement, Selector

Match = Callable[[Obj], bool]

_TERM = re.compile(
    r"\s*(?:"
    r"(?P<absent>!\s*)(?P<absent_key>[\w./-]+)"
    r"|(?P<set_key>[\w./-]+)\s+(?P<set_op>in|notin)\s*\((?P<set>[^()]*)\)"
    r"|(?P<key>[\w./-]+)\s*(?P<op>==|=|!=|>|<)\s*(?P<value>[\w.-]*)"
    r"|(?P<exists>[\w./-]+)"
    r")\s*(?:,|$)"
)
_OPERATORS = {"=": "In", "==": "In", "!=": "NotIn", ">": "Gt", "<": "Lt", "in": "In", "notin": "NotIn"}


def label_selector(text: str) -> Selector:
    """Parse a selector such as `app=web,tier in (a, b),!old`.

    >>> label_selector("app=web,!old").matches({"app": "web"})
    True
    """
    found: list[Requirement] = []
    place = 0
    while place < len(text):
        match = _TERM.match(text, place)
        if match is None:
            raise bad_request(f"unable to parse requirement: found '{text[place:]}', expected: identifier")
        found.append(_requirement(match))
        place = match.end()
    return Selector(tuple(found))


def _requirement(match: re.Match[str]) -> Requirement:
    if match["absent"]:
        return Requirement(match["absent_key"], "DoesNotExist")
    if match["set_op"]:
        values = tuple(value.strip() for value in match["set"].split(","))
        return Requirement(match["set_key"], _OPERATORS[match["set_op"]], values)
    if match["op"]:
        return Requirement(match["key"], _OPERATORS[match["op"]], (match["value"],))
    return Requirement(match["exists"], "Exists")


def field_terms(kind: Kind, text: str) -> list[tuple[tuple[str, ...], bool, str]]:
    """A field selector as (path, equal or not, value). Refuses fields that the kind does not support."""
    found = []
    for term in filter(None, text.split(",")):
        match = re.fullmatch(r"\s*([\w.\[\]'/-]+?)\s*(==|=|!=)(.*)", term)
        if match is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        name, operator, value = match.groups()
        if name not in ("metadata.name", *(["metadata.namespace"] if kind.namespaced else []), *kind.fields):
            raise bad_request(f"field label not supported: {name}")
        found.append((tuple(name.split(".")), operator != "!=", value))
    return found


def value_at(obj: Any, path: tuple[str, ...]) -> Any:
    """The value at a field path, or `None`."""
    for name in path:
        if not isinstance(obj, dict):
            return None
        obj = obj.get(name)
    return obj


def field_text(obj: Obj, path: tuple[str, ...]) -> str:
    """The text of a field that selectors compare."""
    if path == ("source",):
        path = ("source", "component")
    value = value_at(obj, path)
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "false" if path in (("spec", "unschedulable"), ("spec", "hostNetwork")) else ""
    return str(value)


def matcher(kind: Kind, namespace: str, labels: str, fields: str) -> Match | None:
    """A test whether an object is selected; `None` if all objects are."""
    tests: list[Match] = []
    if namespace:
        tests.append(lambda obj: obj["metadata"].get("namespace") == namespace)
    if labels.strip():
        chosen = label_selector(labels)
        tests.append(lambda obj: chosen.matches(obj["metadata"].get("labels") or {}))
    if fields.strip():
        terms = field_terms(kind, fields)
        shown = kind.from_store or (lambda obj: obj)
        tests.append(lambda obj: _fields_match(shown(obj), terms))
    if not tests:
        return None
    return tests[0] if len(tests) == 1 else lambda obj: all(test(obj) for test in tests)


def _fields_match(obj: Obj, terms: list[tuple[tuple[str, ...], bool, str]]) -> bool:
    return all((field_text(obj, path) == value) == equal for path, equal, value in terms)
