"""Parts get what they need when they are made: nobody sets a function or another part on an object of another class.

Such wiring makes an object that does not work until somebody has found the right line. Listeners are lists to which
others append, and are declared so. Plain data may be filled by its maker.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "maar"
FOLDERS = ("controller", "history", "kube", "web")
DATA = {"Struct", "NamedTuple", "Exception", "Enum", "StrEnum", "IntEnum"}
"""Bases of plain data."""
EXCEPTIONS: dict[str, str] = {}
"""`file: attribute`, and why it is set from outside."""


def trees() -> dict[str, ast.Module]:
    files = sorted(file for folder in FOLDERS for file in (SOURCE / folder).rglob("*.py"))
    return {str(file.relative_to(SOURCE)): ast.parse(file.read_text()) for file in files}


def names_in(annotation: ast.expr) -> set[str]:
    nodes = list(ast.walk(annotation))
    return {n.id for n in nodes if isinstance(n, ast.Name)} | {n.attr for n in nodes if isinstance(n, ast.Attribute)}


class Declared:
    """What the classes of some modules are, and what their attributes hold."""

    def __init__(self, modules: list[ast.Module]) -> None:
        nodes = [node for module in modules for node in ast.walk(module)]
        bases = {n.name: set().union(*map(names_in, n.bases)) for n in nodes if isinstance(n, ast.ClassDef)}
        data = set(DATA)
        while more := {name for name, of in bases.items() if of & data} - data:
            data |= more
        self.parts = {"Callable"} | (bases.keys() - data)
        """The names of types whose objects do something: functions, protocols, and classes that are not plain data."""
        for node in nodes:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript) and self._is_part(node.value):
                self.parts |= {t.id for t in node.targets if isinstance(t, ast.Name)}  # an alias of a function
        self.held, self.other = set[str](), set[str]()
        """Attributes that hold a part in some class, and those that hold something else in some class."""
        for node in nodes:
            if isinstance(node, ast.AnnAssign):
                name = node.target.attr if isinstance(node.target, ast.Attribute) else getattr(node.target, "id", "")
                (self.held if self._is_part(node.annotation) else self.other).add(name)
            if isinstance(node, ast.Assign):
                (self.held if self.makes_part(node.value) else self.other).update(
                    t.attr for t in node.targets if isinstance(t, ast.Attribute) and is_own(t)
                )

    def _is_part(self, annotation: ast.expr) -> bool:
        return bool(names_in(annotation) & self.parts)

    def makes_part(self, value: ast.expr) -> bool:
        return isinstance(value, ast.Lambda) or (isinstance(value, ast.Call) and self._is_part(value.func))


def is_own(target: ast.Attribute) -> bool:
    return isinstance(target.value, ast.Name) and target.value.id in ("self", "cls")


def wirings(modules: dict[str, ast.Module]) -> Iterator[str]:
    """Where a part is set on an object other than `self`.

    Of an attribute that is data in another class only what is certainly a part counts.
    """
    declared = Declared(list(modules.values()))
    for file, module in modules.items():
        for node in ast.walk(module):
            if not isinstance(node, ast.Assign):
                continue
            for target in (t for each in node.targets for t in ast.walk(each)):
                if isinstance(target, ast.Attribute) and isinstance(target.ctx, ast.Store) and not is_own(target):
                    known = target.attr in declared.held and target.attr not in declared.other
                    if known or declared.makes_part(node.value):
                        yield f"{file}: {ast.unparse(target)}"


def test_parts_are_not_set_from_outside() -> None:
    found = set(wirings(trees()))
    assert set() == found - EXCEPTIONS.keys()
    assert set() == EXCEPTIONS.keys() - found, "exceptions that are not needed"


@pytest.mark.parametrize(
    ("annotation", "line"),
    [
        ("Callable[[str, int], int | None] | None", "history.part = places.nodes_of"),
        ("Share | None", "scheduler.brakes.part = lambda: shards"),
        ("Membership | None", "made = scheduler.part = Membership()"),
        ("Membership", "first, self.loop.part = made"),
    ],
)
def test_each_way_to_wire_is_found(annotation: str, line: str) -> None:
    known = "Share = Callable[[], int]\nclass Membership:\n  pass\nclass Data(msgspec.Struct):\n  name: str\n"
    owner = f"class Owner:\n  def __init__(self):\n    self.part: {annotation} = None\n"
    assert 1 == len(list(wirings({"a.py": ast.parse(known + owner + line)})))
    assert [] == list(wirings({"a.py": ast.parse(known + owner.replace(annotation, "Data") + "of.part = Data()")}))
