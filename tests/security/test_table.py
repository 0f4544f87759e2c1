"""The tables in docs/security*.md: each row has a test, each test a row, and nothing that Maar reads is missing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from maar.kube.kinds import KINDS
from maar.kube.wire import annotations as known
from maar.kube.wire.base import Metadata
from maar.web.front import routes
from maar.web.messages import Report

ROOT = Path(__file__).parents[2]
PAGE = "\n".join(page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs").glob("security*.md")))
ROW = re.compile(r"^\| `([a-z-]+)` \| (.+?) \| (.+?) \| (.+?) \| (.+?) \|$", re.MULTILINE)
ROWS = {found.group(1): found.group(0) for found in ROW.finditer(PAGE)}

FIELDS = re.compile(r"^\| `([a-z-]+)` \| ([A-Za-z, ]+) \| (`[^|]+`) \|$", re.MULTILINE)
"""A line of the list of fields: row, kinds, fields."""

ELSEWHERE = {
    "http-measurements": ("tests/web/test_access.py", "test_a_token_is_for_the_jobs_of_its_own_namespace"),
    "http-flood": ("tests/web/test_access.py", "test_measurements_and_reads_of_one_namespace_are_limited"),
    "web-write": ("tests/web/api/test_writes.py", "test_without_the_right_nothing_is_created"),
    "web-front-proxy": (
        "tests/web/api/test_aggregated.py",
        "test_headers_without_the_certificate_of_the_front_proxy_are_worth_nothing",
    ),
    "web-token": ("tests/web/api/test_access.py", "test_no_name_of_another_namespace_in_any_byte_of_any_answer"),
    "web-question": ("tests/web/api/test_openapi.py", "test_hostile_requests_change_nothing_and_it_keeps_serving"),
    "web-expense": ("tests/web/api/test_expensive.py", "test_sums_are_checked_before_anything_is_built"),
    "web-site": (
        "tests/web/api/test_one_namespace.py",
        "test_pages_of_other_sites_are_refused_whatever_they_send",
    ),
    "http-values": ("tests/web/test_measurements.py", "test_invalid_bodies_are_refused_with_the_field"),
}
"""Rows whose tests are beside the code that they test."""

DOMAIN = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)*\.[a-z]{2,}/[A-Za-z0-9._-]+|vodascheduler/[a-z]+")
PRETENDERS = ("embedded", "demo", "sim", "testing")
"""Folders that make objects or clusters of their own, and read no tenant's."""
NOT_INPUT = ("application/", "text/", "rbac.authorization.k8s.io/")
"""Media types, and an API group."""


def named_by_tests() -> dict[str, list[str]]:
    """The rows that tests of this folder name."""
    found: dict[str, list[str]] = {}
    for file in sorted(Path(__file__).parent.glob("test_*.py")):
        for function in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(function, ast.FunctionDef) or not function.name.startswith("test_"):
                continue
            for decorator in function.decorator_list:
                if isinstance(decorator, ast.Call) and getattr(decorator.func, "id", "") == "row":
                    (name,) = decorator.args
                    assert isinstance(name, ast.Constant)
                    found.setdefault(str(name.value), []).append(function.name)
    return found


def test_every_row_has_a_test_and_every_test_a_row() -> None:
    assert len(ROWS) > 40
    assert sorted(ROWS) == sorted({*named_by_tests(), *ELSEWHERE})


@pytest.mark.parametrize("name", ELSEWHERE)
def test_tests_elsewhere_exist(name: str) -> None:
    file, function = ELSEWHERE[name]
    assert f"def {function}(" in (ROOT / file).read_text(encoding="utf-8")


def test_every_name_of_an_annotation_is_in_a_row() -> None:
    rows = "\n".join(ROWS.values())
    names = [value for name, value in vars(known).items() if name.isupper() and isinstance(value, str | tuple)]
    keys = {key for value in names for key in ((value,) if isinstance(value, str) else value)}
    assert "volcano.sh/preemptable" in keys
    assert [] == sorted(key for key in keys if f"`{key}`" not in rows)


def literals() -> Iterator[tuple[str, str]]:
    """Every text in the modules that may read objects, with its file, without docstrings."""
    package = ROOT / "src" / "maar"
    for file in sorted(package.rglob("*.py")):
        if file.relative_to(package).parts[0] in PRETENDERS:
            continue
        tree = ast.parse(file.read_text(encoding="utf-8"))
        said = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
        for part in ast.walk(tree):
            if isinstance(part, ast.Constant) and isinstance(part.value, str) and id(part) not in said:
                yield part.value, str(file.relative_to(package))


def test_every_literal_name_of_an_annotation_or_label_is_on_the_page() -> None:
    """Also those of labels, taints and resources that decisions depend on."""
    versions = {k.api_version for kind in KINDS for k in (kind.resource, *kind.older)}
    missing = sorted(
        {
            (text, file)
            for text, file in literals()
            if DOMAIN.fullmatch(text) and text not in versions and f"`{text}`" not in PAGE
            if not text.startswith(NOT_INPUT)
        }
    )
    assert [] == missing


def test_every_kind_that_maar_reads_is_on_the_page() -> None:
    assert [] == sorted({str(kind) for kind in KINDS if str(kind) not in PAGE})


def structs(of: Any) -> Iterator[type[msgspec.Struct]]:
    """The structs in a type."""
    if isinstance(of, type) and issubclass(of, msgspec.Struct):
        yield of
    for inner in get_args(of):
        yield from structs(inner)


def fields_read() -> set[tuple[str, str]]:
    """The fields of all kinds that are decoded, as kind and field; those inside `spec` and `status` one by one."""
    found = set()
    for kind in KINDS:
        for field in msgspec.structs.fields(kind.resource.struct):
            inner = [f for s in structs(field.type) for f in msgspec.structs.fields(s)]
            if field.encode_name in ("spec", "status"):
                found |= {(str(kind), f"{field.encode_name}.{f.encode_name}") for f in inner}
            elif field.encode_name != "metadata":
                found.add((str(kind), field.encode_name))
    return found


def test_every_field_that_is_decoded_is_in_a_row_and_no_other() -> None:
    assert len(fields_read()) > 150
    assert [] == sorted(row for row, _, _ in FIELDS.findall(PAGE) if row not in ROWS)
    stated = {
        (kind, field)
        for _, kinds, fields in FIELDS.findall(PAGE)
        for kind in kinds.split(", ")
        for field in re.findall(r"`([^`]+)`", fields)
    }
    assert [] == sorted(fields_read() - stated)
    known_fields = {field for _, field in fields_read()}
    assert [] == sorted(field for _, field in stated if field not in known_fields)


def test_every_field_of_metadata_is_on_the_page() -> None:
    assert [] == sorted(f.encode_name for f in msgspec.structs.fields(Metadata) if f"`{f.encode_name}`" not in PAGE)


def test_every_http_input_is_in_a_row() -> None:
    rows = "\n".join(ROWS[name] for name in ELSEWHERE)
    inputs = {*routes._GROUPS, *(field.encode_name for field in msgspec.structs.fields(Report))}
    path = routes._PATH.pattern.replace("([^/]*)", "NAMESPACE", 1).replace("([^/]*)", "NAME", 1)
    assert [] == sorted(name for name in {*inputs, path, "Authorization"} if f"`{name}`" not in rows)


def test_every_variable_of_voda_is_in_a_row() -> None:
    rows = "\n".join(ROWS.values())
    names = {t for t, file in literals() if file == "kube/kinds/voda.py" and re.fullmatch(r"[A-Z][A-Z_]+", t)}
    assert "MIN_NP" in names
    assert [] == sorted(name for name in names if f"`{name}`" not in rows)
