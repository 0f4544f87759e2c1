"""CEL for devices: what is true, what is false and what is an error, as in Kubernetes."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from maar.kube.read.claims.analysis import Dependence, analysis
from maar.kube.read.claims.expressions import CelExpression, ExpressionError, unreadable
from maar.model.devices.device import NANO, Attribute, Device, DeviceCapacity, DeviceId

DRIVER = "gpu.nvidia.com"
GPU = Device(
    DeviceId(DRIVER, "n1", "gpu-0"),
    {
        "type": Attribute("string", "gpu"),
        "uuid": Attribute("string", "GPU-1"),
        "productName": Attribute("string", "NVIDIA H100 80GB HBM3"),
        "numa": Attribute("int", 1),
        "full": Attribute("bool", True),
        "driverVersion": Attribute("version", "560.35.3"),
        "cudaComputeCapability": Attribute("version", "9.0.0"),
        "resource.kubernetes.io/pcieRoot": Attribute("string", "pci0000:01"),
        "profiles": Attribute("strings", ("1g.10gb", "2g.20gb")),
        "firmware": Attribute("versions", ("1.2.0", "1.10.0")),
    },
    {"memory": DeviceCapacity(80 * 2**30 * NANO), "share": DeviceCapacity(NANO // 2)},
)

TRUE = [
    # What NVIDIA's classes and Kubernetes' documentation say.
    "device.driver == 'gpu.nvidia.com'",
    "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'",
    "device.attributes['gpu.nvidia.com'].productName.lowerAscii().matches('^.*h100.*$')",
    "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('40Gi')) >= 0",
    "device.capacity['gpu.nvidia.com'].memory.isGreaterThan(quantity('40Gi'))",
    "device.capacity['gpu.nvidia.com'].share.isLessThan(quantity('1'))",
    "device.attributes['gpu.nvidia.com'].cudaComputeCapability.isGreaterThan(semver('8.9.9'))",
    "device.attributes['gpu.nvidia.com'].driverVersion.compareTo(semver('560.35.3')) == 0",
    "device.attributes['gpu.nvidia.com'].driverVersion.major() == 560",
    "device.attributes['resource.kubernetes.io'].pcieRoot.startsWith('pci')",
    "cel.bind(gpu, device.attributes['gpu.nvidia.com'], gpu.type == 'gpu' && gpu.numa == 1)",
    "device.attributes['gpu.nvidia.com'].?missing.orValue('x') == 'x'",
    "device.attributes['gpu.nvidia.com'].?full.orValue(false)",
    "device.attributes['gpu.nvidia.com'].full",
    "!device.allowMultipleAllocations",
    # A domain that the device does not have is an empty map.
    "!has(device.attributes['nic.example.com'].speed)",
    "device.attributes['nic.example.com'].?speed.orValue(0) == 0",
    "!('nic.example.com' in device.attributes)",
    # Lists, and what a comprehension finds.
    "'1g.10gb' in device.attributes['gpu.nvidia.com'].profiles",
    "device.attributes['gpu.nvidia.com'].profiles.exists(p, p.startsWith('2g'))",
    "device.attributes['gpu.nvidia.com'].firmware.exists(v, v == semver('1.10.0'))",
    # Arithmetic.
    "quantity('1Gi').add(quantity('1Gi')).compareTo(quantity('2Gi')) == 0",
    "quantity('1').sub(2).sign() == -1",
    "quantity('1500m').isInteger() == false && quantity('2').asInteger() == 2",
    "quantity('1500m').asApproximateFloat() == 1.5",
    "isQuantity('1Gi') && !isQuantity('1Gb')",
    "isSemver('1.2.3') && !isSemver('v1.2') && isSemver('v1.2', true)",
    "semver('v01.2', true) == semver('1.2.0')",
    "semver('1.0.0-rc.1').isLessThan(semver('1.0.0'))",
    "semver('1.0.0-rc.9').isLessThan(semver('1.0.0-rc.10')) && semver('1.0.0-9').isLessThan(semver('1.0.0-a'))",
    "semver('1.0.0+one') == semver('1.0.0+two')",
    "quantity('1') == quantity('1000m')",
    r"r'a\b' == 'a\\b' && '\'' != ''",
]

ERRORS = [
    ("device.attributes['gpu.nvidia.com'].missing == 'x'", 'Key not found in map : "missing"'),
    ("device.attributes['nic.example.com'].speed > 1", 'Key not found in map : "speed"'),
    ("device.attributes['gpu.nvidia.com'].type + 1 == 2", "No matching overloads found"),
    ("device.attributes['gpu.nvidia.com'].numa.compareTo(quantity('1')) == 0", "No matching overloads found"),
    ("device.capacity['gpu.nvidia.com'].memory.compareTo(semver('1.0.0')) > 0", "cannot be compared"),
    ("device.attributes['gpu.nvidia.com'].driverVersion.sign() == 1", "expected a quantity"),
    ("quantity('40Gb').sign() == 1", "not a quantity: `40Gb`"),
    ("quantity('1e9999').sign() == 1", "the quantity is not less than 1e36"),
    ("semver('1.2') == semver('1.2.0')", "not a semantic version: `1.2`"),
    ("quantity('1500m').asInteger() == 1", "not a whole number"),
    ("device.attributes['gpu.nvidia.com'].type", "expected `true` or `false`, got a value of type string"),
    ("9223372036854775807 + device.attributes['gpu.nvidia.com'].numa > 0", "integer overflow"),
]

BROKEN = [
    ("noSuchVar", "1:1: undeclared reference to `noSuchVar` (in container ``)"),
    ("device.driver ==", "Syntax error"),
    ("'x'.frobnicate()", "undeclared reference to `frobnicate`"),
    ("(" * 200 + "true" + ")" * 200, "recursion limit"),
    ("true" + " " * 10240, "longer than 10240 bytes"),
    ("'" + "é" * 5200 + "' == ''", "longer than 10240 bytes"),
]


@pytest.mark.parametrize("text", TRUE)
def test_what_is_true(text: str) -> None:
    assert CelExpression(text).matches(GPU)
    assert not CelExpression(f"!({text})").matches(GPU)


@pytest.mark.parametrize(("text", "why"), ERRORS)
def test_what_has_no_value_is_an_error(text: str, why: str) -> None:
    expression = CelExpression(text)
    with pytest.raises(ExpressionError) as error:
        expression.matches(GPU)
    assert why in str(error.value)


@pytest.mark.parametrize(("text", "why"), BROKEN)
def test_what_cannot_be_read_is_an_error(text: str, why: str) -> None:
    with pytest.raises(ExpressionError) as error:
        CelExpression(text)
    assert why in str(error.value)


def test_a_device_with_an_unknown_value_is_unreadable() -> None:
    assert "" == unreadable(GPU)
    later = Device(GPU.id, {"x": Attribute("unsupported")})
    assert "attribute `x`: of a type that is not supported" == unreadable(later)
    for bad in (Attribute("version", "v1"), Attribute("versions", ("1.0.0", "01.0.0"))):
        assert "not a semantic version" in unreadable(Device(GPU.id, {"x": bad}))


# How much work


def doubled(times: int) -> str:
    """A text of eight characters, four times as long with each binding."""
    text = f"size(a{times}) > 0"
    for i in range(times, 0, -1):
        text = f"cel.bind(a{i}, {'+'.join([f'a{i - 1}'] * 4)}, {text})"
    return f"cel.bind(a0, '12345678', {text})"


EIGHT = "[1,2,3,4,5,6,7,8]"
GROWING = [
    doubled(12),
    "'a'.replace('a', 'aaaaaaaaaaaaaaaaaaaa').replace('a', 'aaaaaaaaaaaaaaaaaaaa').replace('a', 'aaaaaaaaa') == ''",
    "'" + "a" * 4000 + "'.split('').all(x, '" + "a" * 4000 + "'.split('').size() > 0)",
    r"r'\' == '' && " + doubled(12),
    f"device.attributes['a'].`b` == '' && {doubled(12)}",
    "'open && " + doubled(12),
    f"{EIGHT}.all(a, {EIGHT}.all(b, {EIGHT}.all(c, {EIGHT}.all(d, a + b + c + d > 0))))",
]


@pytest.mark.parametrize("text", GROWING)
def test_values_that_grow_are_refused_before_they_are_computed(text: str) -> None:
    with pytest.raises(ExpressionError, match="too complex"):
        CelExpression(text)


def test_a_few_bindings_are_fine() -> None:
    assert CelExpression(doubled(4)).matches(GPU)


def test_loops_that_are_too_long_are_an_error() -> None:
    many = "[" + ",".join("1" * 110) + "]"
    expression = CelExpression(f"{many}.all(a, {many}.exists(b, b == 2) || true)")
    with pytest.raises(ExpressionError, match="Iteration budget exceeded"):
        expression.matches(GPU)


# What an expression depends on

TYPE = Dependence("attributes", DRIVER, "type")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("true", set()),
        ("device.driver == 'x' && device.allowMultipleAllocations", set()),
        ("device.attributes['gpu.nvidia.com'].type == 'gpu'", {TYPE}),
        ('device.attributes["gpu.nvidia.com"].?type.orValue("x") == "gpu"', {TYPE}),
        ("device.attributes['gpu.nvidia.com']['type'] == 'gpu'", {TYPE}),
        ("device.attributes['gpu.nvidia.com'][?'type'].hasValue()", {TYPE}),
        ("device . attributes // device.uuid\n ['gpu.nvidia.com'] . type == 'device.uuid'", {TYPE}),
        ("device.capacity['gpu.nvidia.com'].memory.sign() > 0", {Dependence("capacity", DRIVER, "memory")}),
        # More than one attribute: the whole domain, or all.
        ("cel.bind(d, device.attributes['gpu.nvidia.com'], d.type == 'gpu')", {Dependence("attributes", DRIVER, None)}),
        ("device.attributes['gpu.nvidia.com'].exists(k, k == 'x')", {Dependence("attributes", DRIVER, None)}),
        ("device.attributes['gpu.nvidia.com']['ty' + 'pe'] == 'gpu'", {Dependence("attributes", DRIVER, None)}),
        ("device.attributes[device.driver].type == 'gpu'", None),
        ("'x' in device.attributes", None),
        ("cel.bind(d, device, d.attributes['gpu.nvidia.com'].type == 'gpu')", None),
        ("device['attributes']['gpu.nvidia.com'].type == 'gpu'", None),
        ("device.attributes[r'gpu.nvidia.com'].type == 'gpu'", None),
        ("device.attributes['gpu.nvidia.com'].`type` == 'gpu'", None),
    ],
)
def test_what_an_expression_depends_on(text: str, named: set[Dependence] | None) -> None:
    assert (None if named is None else frozenset(named)) == analysis(text).named


def other(attributes: dict[str, Attribute]) -> Device:
    return Device(DeviceId(DRIVER, "n2", "gpu-7"), {**GPU.attributes, **attributes}, GPU.capacity)


@pytest.mark.parametrize("text", [*TRUE, *(text for text, _ in ERRORS)])
def test_safety_devices_with_one_key_have_one_value(text: str) -> None:
    """Every attribute is changed once; if the key stays the same, so does what the expression says."""
    expression = CelExpression(text)
    changes: list[dict[str, Attribute]] = [
        {name: Attribute("int", -5) if one.type != "int" else Attribute("string", "?")}
        for name, one in GPU.attributes.items()
    ]
    for change in [{"uuid": Attribute("string", "GPU-2")}, *changes]:
        if expression.key(other(change)) == expression.key(GPU):
            assert said(expression, GPU) == said(expression, other(change))


def said(expression: CelExpression, device: Device) -> bool | str:
    try:
        return expression.matches(device)
    except ExpressionError as error:
        return str(error)


def test_a_uuid_that_is_not_named_does_not_tell_devices_apart() -> None:
    expression = CelExpression("device.attributes['gpu.nvidia.com'].type == 'gpu'")
    assert expression.key(GPU) == expression.key(other({"uuid": Attribute("string", "GPU-2")}))
    assert expression.key(GPU) != expression.key(other({"type": Attribute("string", "mig")}))
    # With and without its domain, the name is the same.
    full = Device(GPU.id, {f"{DRIVER}/type": Attribute("string", "gpu")})
    assert expression.key(GPU) == expression.key(full)


def test_the_library_is_imported_only_where_expressions_are_read() -> None:
    """An installation without it imports all modules, and says what is missing."""
    program = """
import sys
sys.modules["cel_expr_python"] = None
from maar.kube.read.claims.expressions import CelExpression, ExpressionError
from maar.kube.read.claims import claims, selecting, slices
try:
    CelExpression("true")
except ExpressionError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "expressions need a library: `pip install 'maar[devices]'`\n" == done.stdout


HALF_OPEN = ["'''", '"""', "r'", 'b"', "'\\", "//", "[?", "device.attributes['a", "'a'+\n"]


@pytest.mark.parametrize("part", HALF_OPEN)
def test_safety_half_open_texts_are_read_in_time(part: str) -> None:
    """The analysis does not go back again and again."""
    start = time.process_time()
    analysis(part * (10240 // len(part)))
    assert time.process_time() - start < 2
