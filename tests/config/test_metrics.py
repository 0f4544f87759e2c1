"""The section `metrics`, as Volcano's users write it."""

from __future__ import annotations

import pytest

from maar.config.config import LoadOrigin, Metrics
from maar.config.file import ConfigError, Loaded, read_config
from maar.registry import catalog

FILE = "actions: allocate\ntiers: [{plugins: [{name: gang}%s]}]\n"


def read(metrics: str, plugins: str = "", lenient: bool = False) -> Loaded:
    text = FILE % plugins + (f"metrics: {metrics}\n" if metrics else "")
    return read_config(text, "conf.yaml", catalog(), lenient)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Metrics()),
        ("{}", Metrics()),
        ("{type: prometheus, address: 'http://p:9090'}", Metrics(LoadOrigin.PROMETHEUS, "http://p:9090")),
        (
            "{type: prometheus, address: 'https://p/base', interval: 1m30s, tls: {insecureSkipVerify: 'false'}}",
            Metrics(LoadOrigin.PROMETHEUS, "https://p/base", 90.0),
        ),
        ("{type: prometheus_adaptor, interval: 30s}", Metrics(LoadOrigin.ADAPTOR)),
        ("{type: metrics_server, interval: 0s}", Metrics(LoadOrigin.METRICS_SERVER)),
        ("{type: metrics_server, interval: 5ms}", Metrics(LoadOrigin.METRICS_SERVER, interval=1.0)),
        ("{type: metrics_server, interval: 15}", Metrics(LoadOrigin.METRICS_SERVER, interval=15.0)),
    ],
)
def test_what_volcano_writes_is_read(text: str, expected: Metrics) -> None:
    loaded = read(text)
    assert (expected, []) == (loaded.config.metrics, loaded.warnings)


@pytest.mark.parametrize("dotted", ["tls: {insecureSkipVerify: true}", "tls.insecureSkipVerify: 'true'"])
def test_an_unchecked_certificate_is_a_warning(dotted: str) -> None:
    loaded = read(f"{{type: prometheus, address: 'https://p', {dotted}}}")
    assert loaded.config.metrics.insecure
    (warning,) = loaded.warnings
    assert warning.startswith("conf.yaml: metrics.tls.insecureSkipVerify: anyone on the way can forge the figures")


@pytest.mark.parametrize(
    "more", ["elasticsearch: {index: 'custom-*', username: u, password: p}", "elasticsearch.index: 'custom-*'"]
)
def test_elasticsearch_warns(more: str) -> None:
    loaded = read(f"{{type: elasticsearch, address: 'http://e:9200', {more}}}")
    assert loaded.config.metrics.source is None
    assert [
        "conf.yaml: metrics.type: `elasticsearch` is not supported: the real load of nodes is not gathered; "
        "supported: `prometheus`, `prometheus_adaptor`, `metrics_server`"
    ] == loaded.warnings


def test_a_missing_type_warns() -> None:
    loaded = read("{address: 'http://p:9090'}")
    assert loaded.config.metrics.source is None
    assert [True] == ["no `type`" in warning for warning in loaded.warnings]


def test_an_interval_longer_than_figures_last_warns() -> None:
    loaded = read("{type: metrics_server, interval: 1h}")
    assert 3600.0 == loaded.config.metrics.interval
    (warning,) = loaded.warnings
    assert warning.startswith("conf.yaml: metrics.interval: `1h`: figures older than 5 minutes count as absent")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{type: prometheus}", "metrics: `prometheus` needs the `address` of Prometheus"),
        ("{type: prometheus, address: somewhere}", "metrics.address: expected a URL like"),
        ("{type: prometheus, address: 'ftp://p'}", "metrics.address: expected a URL like"),
        ("{type: prometheus, address: 'http://p:port'}", "metrics.address: expected a URL like"),
        ('{type: prometheus, address: "http://p/a b"}', "metrics.address: expected a URL like"),
        ("{type: metrics_server, interval: often}", "metrics.interval: not a duration: `often`"),
        ("{type: metrics_server, interval: -1}", "metrics.interval: not a duration: `-1`"),
        ("{type: metrics_server, tls: {insecureSkipVerify: perhaps}}", "expected `true` or `false`, got `perhaps`"),
        ("{type: metrics_server, tls: yes}", "metrics.tls: expected a mapping"),
        ("{type: prometeus, address: 'http://p'}", "unknown source `prometeus`; did you mean `prometheus`"),
        ("{type: metrics_server, intervalle: 1s}", "unknown key `intervalle`; did you mean `interval`?"),
        ("5", "metrics: expected a mapping, got `5`"),
    ],
)
def test_mistakes_have_a_path(text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(text)
    assert problem in str(caught.value)


def test_lenient_reading_skips_an_unknown_source() -> None:
    loaded = read("{type: influx, url: 'http://i'}", lenient=True)
    assert loaded.config.metrics.source is None
    assert 2 == len(loaded.warnings)


def test_the_plugin_without_figures_warns() -> None:
    usage = ", {name: usage}"
    (warning,) = read("", usage).warnings
    assert warning.startswith(
        "conf.yaml: tiers[0].plugins[1]: `usage` needs the section `metrics`: without it the real load"
    )
    assert [] == read("{type: metrics_server}", usage).warnings
