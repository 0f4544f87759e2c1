"""The registry: one table, unique names, and third-party entries that cannot break it."""

import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint, distributions
from pathlib import Path
from textwrap import dedent

import msgspec
import pytest

from maar import registry
from maar.config.config import Registration


class Nothing(msgspec.Struct, frozen=True):
    """No arguments."""


@pytest.mark.parametrize("registrations", [registry.PLUGINS, registry.ACTIONS], ids=["plugins", "actions"])
def test_every_entry_can_be_built_from_defaults(registrations: tuple[Registration, ...]) -> None:
    verbs = {"open", "execute"}
    assert [] == [
        registration.name
        for registration in registrations
        if not verbs & set(dir(registration.make(registration.arguments())))
    ]


@pytest.mark.parametrize("registrations", [registry.PLUGINS, registry.ACTIONS], ids=["plugins", "actions"])
def test_every_entry_has_a_docstring(registrations: tuple[Registration, ...]) -> None:
    for registration in registrations:
        doc = sys.modules[registration.make.__module__].__doc__ or ""
        assert doc.startswith(f"{registration.name}: "), f"the docstring of {registration.name}"


def test_a_name_given_twice_is_refused() -> None:
    twice = (Registration("a", Nothing), Registration("b", Nothing), Registration("a", Nothing))
    with pytest.raises(ValueError, match=r"^name registered twice: `a`$"):
        registry.by_name(twice)


def test_aliases_are_not_registered_names() -> None:
    catalog = registry.make_catalog([])
    real = {*catalog.plugins, *catalog.actions}
    assert set() == real & {*catalog.aliases, *catalog.missing}
    assert set() == set(catalog.aliases) & set(catalog.missing)


def test_aliases_lead_to_registered_names() -> None:
    catalog = registry.make_catalog([])
    real = {*catalog.plugins, *catalog.actions}
    assert set() == set(catalog.aliases.values()) - real
    assert set() == set(catalog.ignored) - real


def test_the_catalog_is_made_once() -> None:
    assert registry.catalog() is registry.catalog()


# -- third parties


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[EntryPoint]]:
    """A distribution with valid and broken entry points, as pip would install it."""
    (tmp_path / "acme_policies.py").write_text(
        dedent(
            """
            from maar.config.config import Registration

            class Fair:
                def __init__(self, arguments): ...
                def open(self, session, on): ...

            FAIR = Registration("fair", Fair)
            GANG = Registration("gang", Fair)
            DANCE = Registration("dance", Fair)
            GROW = Registration("grow", Fair)
            """
        )
    )
    (tmp_path / "acme_broken.py").write_text("import a_module_that_is_not_there\n")
    info = tmp_path / "acme-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(
        dedent(
            """
            [maar.plugins]
            fair = acme_policies:FAIR
            gang = acme_policies:GANG
            other = acme_policies:FAIR
            plain = acme_policies:Fair
            gone = acme_policies:GONE
            broken = acme_broken:KIND

            [maar.actions]
            dance = acme_policies:DANCE

            [maar.algorithms]
            grow = acme_policies:GROW
            """
        )
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield [entry for d in distributions(path=[str(tmp_path)]) for entry in d.entry_points]
    for name in ("acme_policies", "acme_broken"):
        sys.modules.pop(name, None)


def test_third_parties_add_to_the_table(installed: list[EntryPoint]) -> None:
    plain, more = registry.make_catalog([]), registry.make_catalog(installed)
    assert {"fair"} == set(more.plugins) - set(plain.plugins)
    assert {"dance"} == set(more.actions) - set(plain.actions)
    assert {"grow"} == set(more.algorithms) - set(plain.algorithms)
    assert plain.plugins["gang"] is more.plugins["gang"]
    assert {} == plain.broken


def test_broken_entries_are_left_out_with_a_reason(installed: list[EntryPoint]) -> None:
    start = "maar.plugins: `{}` of acme 1.2 cannot be used: "
    expected = {
        "broken": "No module named 'a_module_that_is_not_there'",
        "gang": "the name `gang` is already taken",
        "gone": "module 'acme_policies' has no attribute 'GONE'",
        "other": "`acme_policies:FAIR` is registered as `fair`, expected `other`",
        "plain": "`acme_policies:Fair` is a type, expected a `maar.config.config.Registration`",
    }
    assert {name: start.format(name) + why for name, why in expected.items()} == registry.make_catalog(installed).broken


def test_two_broken_entries_with_one_name_are_both_reported(installed: list[EntryPoint]) -> None:
    broken = [entry for entry in installed if entry.name == "gang"]
    (why,) = registry.make_catalog([*broken, EntryPoint("gang", "acme_policies:GONE", "maar.plugins")]).broken.values()
    assert (
        "maar.plugins: `gang` of acme 1.2 cannot be used: the name `gang` is already taken; "
        "maar.plugins: `gang` of an unknown distribution cannot be used: module 'acme_policies' has no attribute 'GONE'"
    ) == why
