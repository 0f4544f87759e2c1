"""CEL: whether an expression of a class or a claim is true for a device, by Google's library.

The only module that imports the library, and only when an expression is read: it is an optional dependency
(`pip install 'maar[devices]'`) of 16 MB. The environment is Kubernetes': the variable `device`, the functions of
quantities and semantic versions, of strings and of optional values, and `cel.bind`. Functions of lists, regular
expressions to find with, URLs and addresses are not there; an expression with them has an error, and says so.

The library's values have no place for a quantity or a version, so these travel as bytes with their kind in front, which
no attribute of a device can be. A map of it knows no default, so domains that an expression names and a device lacks
are added as empty maps, as Kubernetes does.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any

from maar.kube.read.claims.analysis import LONGEST, MOST_WORK, Analysis, Dependence, analysis
from maar.kube.read.claims.slices import LARGEST
from maar.model.devices.device import NANO, Attribute, Device
from maar.model.resources import QuantityError, parse_quantity

Values = dict[str, dict[str, dict[str, Any]]]


class ExpressionError(Exception):
    """An expression that cannot be read, or that has no value for a device; the text says why."""


class CelExpression:
    """A compiled expression."""

    def __init__(self, text: str) -> None:
        if len(text.encode()) > LONGEST:
            raise ExpressionError(f"longer than {LONGEST} bytes")
        self.reads: Analysis = analysis(text)
        if self.reads.work > MOST_WORK:
            raise ExpressionError(
                "too complex, or a text in it has no end: its values can grow, or its loops repeat, too often"
            )
        self._environment = _environment()
        try:
            self._compiled = self._environment.compile(text)
        except RuntimeError as error:
            raise ExpressionError(_first_line(str(error))) from None

    def key(self, device: Device) -> object:
        """What of a device the expression can tell apart: equal keys have equal values."""
        named = self.reads.named
        base = (device.id.driver, device.shared)
        if named is None:
            return (base, _everything(device))
        return (base, *(_value(device, one) for one in sorted(named, key=str)))

    def matches(self, device: Device) -> bool:
        """Whether it is true for a device that is readable; raises `ExpressionError` if it has no value."""
        values = _values(device)
        for one in self.reads.named or ():
            values[one.map].setdefault(one.domain, {})
        data = {"device": {"driver": device.id.driver, "allowMultipleAllocations": device.shared, **values}}
        try:
            value = self._compiled.eval(data=data)
        except RuntimeError as error:
            raise ExpressionError(_first_line(str(error))) from None
        plain = value.plain_value()
        if value.type().name() == "ERROR":
            raise ExpressionError(_first_line(str(plain)))
        if not isinstance(plain, bool):
            raise ExpressionError(f"expected `true` or `false`, got a value of type {value.type().name().lower()}")
        return plain


def _first_line(message: str) -> str:
    """What the library says, without its code and without the picture of the place."""
    line = message.partition("\n")[0].removeprefix("INVALID_ARGUMENT: ERROR: <input>:")
    return re.sub(r"^[A-Z_]+: ", "", line).replace("'", "`").strip()


# Devices as values


def _values(device: Device) -> Values:
    attributes: dict[str, dict[str, Any]] = {}
    for name, attribute in device.attributes.items():
        domain, short = _split(name, device)
        attributes.setdefault(domain, {})[short] = _attribute(attribute)
    capacity: dict[str, dict[str, Any]] = {}
    for name, one in device.capacity.items():
        domain, short = _split(name, device)
        capacity.setdefault(domain, {})[short] = _quantity(Fraction(one.amount, NANO))
    return {"attributes": attributes, "capacity": capacity}


def _split(name: str, device: Device) -> tuple[str, str]:
    domain, slash, short = name.partition("/")
    return (domain, short) if slash else (device.id.driver, name)


def _attribute(attribute: Attribute) -> object:
    value = attribute.value
    if isinstance(value, tuple):
        return [_semver(str(one)) for one in value] if attribute.type == "versions" else list(value)
    return _semver(str(value)) if attribute.type == "version" else value


def unreadable(device: Device) -> str:
    """Why no expression has a value for this device; usually empty."""
    for name, attribute in device.attributes.items():
        if attribute.type == "unsupported":
            return f"attribute `{name}`: of a type that is not supported"
        if attribute.type in ("version", "versions"):
            for one in attribute.value if isinstance(attribute.value, tuple) else (attribute.value,):
                if not _is_semver(str(one)):
                    return f"attribute `{name}`: not a semantic version: `{str(one)[:64]}`"
    return ""


@lru_cache(maxsize=4096)
def _is_semver(text: str) -> bool:
    return SEMVER.fullmatch(text) is not None


def _everything(device: Device) -> object:
    return (
        tuple(sorted((name, a.type, str(a.value)) for name, a in device.attributes.items())),
        tuple(sorted((name, c.amount) for name, c in device.capacity.items())),
    )


def _value(device: Device, named: Dependence) -> object:
    of: Any = device.attributes if named.map == "attributes" else device.capacity
    if named.id is None:
        return tuple(sorted((n, str(_plain(v))) for n, v in of.items() if _split(n, device)[0] == named.domain))
    found = of.get(f"{named.domain}/{named.id}")
    if found is None and named.domain == device.id.driver:
        found = of.get(named.id)
    return _plain(found)


def _plain(found: Any) -> object:
    if isinstance(found, Attribute):
        return (found.type, found.value)
    return None if found is None else found.amount


# Functions

SEMVER = re.compile(
    r"(0|[1-9]\d{0,18})\.(0|[1-9]\d{0,18})\.(0|[1-9]\d{0,18})"
    r"(?:-((?:0|[1-9]\d*|\d*[A-Za-z-][\dA-Za-z-]*)(?:\.(?:0|[1-9]\d*|\d*[A-Za-z-][\dA-Za-z-]*))*))?"
    r"(?:\+[\dA-Za-z-]+(?:\.[\dA-Za-z-]+)*)?"
)


def _semver(text: str, lenient: bool = False) -> bytes:
    """A version; builds of one version are equal."""
    if lenient:
        text = _completed(text)
    match = SEMVER.fullmatch(text)
    if match is None:
        raise ValueError(f"not a semantic version: `{text[:64]}`")
    major, minor, patch, before = match.groups()
    return f"v{major}.{minor}.{patch}{'-' + before if before else ''}".encode()


def _completed(text: str) -> str:
    """`v1.02` as `1.2.0`: without the prefix and leading zeros, with all three numbers."""
    numbers, mark, rest = re.fullmatch(r"v?([^+-]*)([+-]?)(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
    parts = [part.lstrip("0") or "0" for part in numbers.split(".")]
    return ".".join(parts + ["0"] * (3 - len(parts))) + mark + rest


def _quantity(value: Fraction) -> bytes:
    if abs(value) >= LARGEST:
        raise ValueError("the quantity is not less than 1e36")
    return f"q{value.numerator}/{value.denominator}".encode()


def _fraction(value: bytes) -> Fraction:
    if not value.startswith(b"q"):
        raise ValueError("expected a quantity")
    return Fraction(value[1:].decode())


def _order(value: bytes) -> Any:
    """A quantity or a version as something that can be compared."""
    if value.startswith(b"q"):
        return _fraction(value)
    if not value.startswith(b"v"):
        raise ValueError("expected a quantity or a version")
    numbers, _, before = value[1:].decode().partition("-")
    # A version comes after what was released before it; numbers come before words.
    parts = tuple((0, int(p), "") if p.isdigit() else (1, 0, p) for p in before.split(".")) if before else ()
    return (tuple(map(int, numbers.split("."))), not before, parts)


def _compare(one: bytes, other: bytes) -> int:
    if one[:1] != other[:1]:
        raise ValueError("a quantity and a version cannot be compared")
    left, right = _order(one), _order(other)
    return int(left > right) - int(left < right)


def _whole(value: bytes) -> int:
    exact = _fraction(value)
    if exact.denominator != 1 or not -(2**63) <= exact.numerator < 2**63:
        raise ValueError("the quantity is not a whole number of 64 bits")
    return exact.numerator


def _parts(value: bytes) -> list[int]:
    return [int(part) for part in value[1:].decode().partition("-")[0].split(".")]


def _can(function: Callable[[str], object]) -> Callable[[str], bool]:
    def is_valid(text: str) -> bool:
        try:
            function(text)
        except ValueError:
            return False
        return True

    return is_valid


def _read_quantity(text: str) -> bytes:
    try:
        return _quantity(parse_quantity(text))
    except QuantityError as error:
        raise ValueError(str(error)) from None


@lru_cache(maxsize=1)
def _environment() -> Any:
    """The environment of all expressions."""
    try:
        from cel_expr_python import cel  # type: ignore[import-untyped]
        from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings  # type: ignore[import-untyped]
    except ImportError:
        raise ExpressionError("expressions need a library: `pip install 'maar[devices]'`") from None
    kinds = cel.Type
    text, number, truth, value = kinds.STRING, kinds.INT, kinds.BOOL, kinds.BYTES
    member = [
        ("compareTo", number, [value, value], _compare),
        ("isGreaterThan", truth, [value, value], lambda a, b: _compare(a, b) > 0),
        ("isLessThan", truth, [value, value], lambda a, b: _compare(a, b) < 0),
        ("sign", number, [value], lambda a: (_fraction(a) > 0) - (_fraction(a) < 0)),
        ("isInteger", truth, [value], lambda a: _can(lambda _: _whole(a))("")),
        ("asInteger", number, [value], _whole),
        ("asApproximateFloat", kinds.DOUBLE, [value], lambda a: float(_fraction(a))),
        ("add", value, [value, value], lambda a, b: _quantity(_fraction(a) + _fraction(b))),
        ("add", value, [value, number], lambda a, b: _quantity(_fraction(a) + b)),
        ("sub", value, [value, value], lambda a, b: _quantity(_fraction(a) - _fraction(b))),
        ("sub", value, [value, number], lambda a, b: _quantity(_fraction(a) - b)),
        ("major", number, [value], lambda a: _parts(a)[0]),
        ("minor", number, [value], lambda a: _parts(a)[1]),
        ("patch", number, [value], lambda a: _parts(a)[2]),
    ]
    free = [
        ("quantity", value, [text], _read_quantity),
        ("isQuantity", truth, [text], _can(_read_quantity)),
        ("semver", value, [text], _semver),
        ("semver", value, [text, truth], _semver),
        ("isSemver", truth, [text], _can(_semver)),
        ("isSemver", truth, [text, truth], lambda a, lenient: _can(lambda t: _semver(t, lenient))(a)),
    ]
    overloads: dict[str, list[Any]] = {}
    for is_member, functions in ((True, member), (False, free)):
        for name, result, parameters, function in functions:
            made = overloads.setdefault(name, [])
            made.append(
                cel.Overload(
                    f"maar_{name}_{len(made)}",
                    return_type=result,
                    parameters=parameters,
                    is_member=is_member,
                    impl=function,
                )
            )
    ours = cel.CelExtension("maar", [cel.FunctionDecl(name, made) for name, made in overloads.items()])
    return cel.NewEnv(
        variables={"device": kinds.Map(kinds.STRING, kinds.DYN)},
        extensions=[ours, ext_strings.ExtStrings(), ext_bindings.ExtBindings(), ext_optional.ExtOptional()],
    )
