"""The normal form of a configuration: it means the same, and shows no address and no secret."""

from __future__ import annotations

import msgspec
import pytest
from tests.support import confs

from maar.config.config import Catalog, Config, PluginOption, Registration
from maar.config.file import PROFILES, default_config, profile_text, read_config
from maar.config.normal import Normal, normal, read_normal
from maar.config.problems import ConfigError
from maar.registry import catalog

TEXTS = {name: text for name, text in vars(confs).items() if isinstance(text, str) and "tiers:" in text}
MANY = """
actions: "enqueue, allocate, gangpreempt, reclaim, backfill"
configurations: [{name: enqueue, arguments: {}}]
tenants: untrusted
autoscaling: {surplus: true, provisioning-class: check-capacity}
tiers:
- plugins:
  - {name: priority, enableJobOrder: false}
  - name: gang
  - name: sla
    arguments: {sla-waiting-time: 1h30m}
  - name: binpack
    arguments: {binpack.weight: "5", binpack.resources: "a.com/x, b.com/y", binpack.resources.a.com/x: 3}
  - name: drf
    arguments: {drf.namespace.team.weight: 3}
  - name: tdm
    arguments: {tdm.revocable-zone.rz1: "10:00-21:00", tdm.evict.period: 2m}
- plugins:
  - name: usage
    arguments: {thresholds: {cpu: 60}}
  - name: proportion
  - name: predicates
  - name: rescheduling
    arguments: {interval: 10m}
pools:
- {name: a100, nodes: {gpu: a100}, algorithm: elastic-tiresias, rate-limit: 1m, pack: true}
metrics: {type: prometheus, address: "http://prometheus.monitoring:9090/secret-path"}
"""


def config_of(text: str) -> Config:
    return read_config(text, "test", catalog(), lenient=True).config


def again(config: Config) -> Config:
    """Through text, as other processes read it."""
    return read_normal(msgspec.json.decode(msgspec.json.encode(normal(config)), type=Normal), catalog())


@pytest.mark.parametrize("name", TEXTS)
def test_it_means_the_same(name: str) -> None:
    config = config_of(TEXTS[name])
    assert msgspec.structs.replace(config, metrics=again(config).metrics) == again(config)


@pytest.mark.parametrize("text", [*map(profile_text, PROFILES), MANY])
def test_everything_that_decisions_depend_on_is_in_it(text: str) -> None:
    config = config_of(text)
    assert msgspec.structs.replace(config, metrics=again(config).metrics) == again(config)


def test_every_plugin_action_and_algorithm_has_a_normal_form() -> None:
    known = catalog()
    for registration in (*known.plugins.values(), *known.actions.values(), *known.algorithms.values()):
        made = msgspec.convert({}, registration.arguments)
        assert made == msgspec.convert(msgspec.to_builtins(made), registration.arguments), registration.name


def test_metrics_and_addresses_are_left_out_and_named() -> None:
    form = normal(config_of(MANY))
    assert ("metrics",) == form.left_out
    text = msgspec.json.encode(form).decode()
    assert "prometheus" not in text
    assert "://" not in text


class Arguments(msgspec.Struct, frozen=True):
    token: str = ""
    tokens: dict[str, str] = {}
    weight: int = 1


def make(arguments: Arguments) -> None:
    """A plugin that is installed beside Maar."""


def test_texts_of_plugins_that_are_not_maars_own_are_left_out() -> None:
    registration = Registration("theirs", make, Arguments)
    option = PluginOption(registration, Arguments(token="s3cret", tokens={"a": "s3cret"}, weight=5))
    config = msgspec.structs.replace(default_config(catalog()), tiers=((option,),))
    form = normal(config)
    assert ("theirs.token", "theirs.tokens") == form.left_out
    assert {"weight": 5} == form.tiers[0][0].arguments
    assert "s3cret" not in msgspec.json.encode(form).decode()


def test_a_plugin_that_is_not_installed_here_is_a_problem_with_its_name() -> None:
    form = normal(default_config(catalog()))
    known = catalog()
    less = Catalog({name: of for name, of in known.plugins.items() if name != "binpack"}, known.actions)
    with pytest.raises(ConfigError, match="unknown plugin `binpack`"):
        read_normal(form, less)
