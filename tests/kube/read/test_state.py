"""The ConfigMap `maar-state`: what is read, what is written, and what happens to a malformed one."""

from __future__ import annotations

import logging

import pytest
from tests.support.objects import decoded

from maar.kube.kinds.cluster import STATE
from maar.kube.picture.manifests import read
from maar.kube.picture.picture import Picture
from maar.kube.read.state import MOST_BYTES, State, entry_of, entry_of_shard, others_in, read_state, write_state
from maar.kube.wire.base import Metadata
from maar.kube.wire.cluster import ConfigMap
from maar.kube.wire.errors import FieldError, ManifestError
from maar.model.plan import Elect, Expired
from maar.model.snapshot import Cluster

MAAR = frozenset({"maar"})
FULL = State(
    Elect("ns/a", 1.5, "uid-a", (("cpu", 4000), ("pods", 2))),
    (Expired("ns/b", 0.1 + 0.2, "uid-b"),),
    {"default": 1e9 / 3, "a100": 7.0},
    {"tdm": 1e9 / 7},
)


def config_map(**data: str) -> ConfigMap:
    return ConfigMap(Metadata(name="maar-state", namespace="maar-system", resource_version="1"), data)


@pytest.mark.parametrize("state", [State(), FULL])
def test_what_is_written_is_read_again(state: State) -> None:
    assert state == read_state(config_map(maar=write_state(state)), MAAR)


def test_a_missing_entry_is_an_empty_state() -> None:
    assert State() == read_state(config_map(), MAAR)
    assert State() == read_state(config_map(maar=""), MAAR)


def test_each_scheduler_has_its_own_entry() -> None:
    both = config_map(maar=write_state(FULL), other=write_state(State(resized={"default": 1.0})))
    assert FULL == read_state(both, MAAR)
    assert {"default": 1.0} == read_state(both, frozenset({"other"})).resized
    assert State() == read_state(both, frozenset({"maar", "other"}))
    assert FULL == read_state(both, None), "in files, without a name: the default entry"
    assert FULL == read_state(config_map(other=write_state(FULL)), None), "or the only one"


@pytest.mark.parametrize(
    ("names", "entry"), [({"maar"}, "maar"), ({"b", "a"}, "a.b"), ({"x/y z"}, "x_y_z"), ({"a" * 300}, "a" * 253)]
)
def test_the_entry_is_a_valid_key(names: set[str], entry: str) -> None:
    assert entry == entry_of(frozenset(names))


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"elect": "ns/a"}',
        '{"elect": {"job": "ns/a"}}',
        '{"elect": {"job": "ns/a", "since": "now"}}',
        '{"resized": {"default": null}}',
        '{"unknown": 1}',
        '{"elect": {"job": "' + "a" * MOST_BYTES + '", "since": 1}}',
        "[" * 20_000,
    ],
)
def test_a_malformed_state_counts_as_empty_with_a_warning(text: str, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(FieldError, match=r"data\.maar: malformed state: "):
        read_state(config_map(maar=text), MAAR)
    picture = Picture(MAAR)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            picture.put(STATE, config_map(maar=text))
            assert State() == remembered(picture.take(0.0).around)
            picture.put(*decoded({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}}))
            picture.take(0.0)
    (warning,) = caplog.messages
    assert "ConfigMap `maar-system/maar-state`: data.maar: malformed state: " in warning
    assert warning.endswith(": elections, the last changes of pools and the last rounds of evictions are forgotten")
    assert len(warning) < 400


def remembered(cluster: Cluster) -> State:
    return State(cluster.elect, cluster.expired, cluster.resized, cluster.rounds)


def test_the_picture_follows_the_state() -> None:
    picture = Picture(MAAR)
    picture.put(STATE, config_map(maar=write_state(FULL)))
    assert FULL == remembered(picture.take(0.0).around)
    picture.drop(STATE, "maar-system/maar-state")
    assert State() == remembered(picture.take(0.0).around)


def test_a_state_is_never_too_long() -> None:
    """The oldest lost elections go first, then the pools that changed longest ago."""
    name = "n" * 250
    lost = tuple(Expired(f"{name}/{i:04}{name}", float(i), "u" * 36) for i in range(1000))
    pools = {f"{i:05}{name}": float(i) for i in range(1000)}
    kept = read_state(config_map(maar=write_state(State(FULL.elect, lost))), MAAR)
    assert FULL.elect == kept.elect
    assert 1000 > len(kept.expired) > 10
    assert set(kept.expired) == set(lost[-len(kept.expired) :]), "the latest"
    text = write_state(State(FULL.elect, lost, pools))
    assert len(text) <= MOST_BYTES
    kept = read_state(config_map(maar=text), MAAR)
    assert FULL.elect == kept.elect
    assert kept.resized == {key: at for key, at in pools.items() if at >= 1000 - len(kept.resized)} != {}


def test_all_entries_together_stay_below_100_kb() -> None:
    """Also of schedulers that are gone, and if somebody else writes there."""
    name = "n" * 250
    lost = tuple(Expired(f"{name}/{i:04}{name}", float(i), "u" * 36) for i in range(50))
    pools = {f"{i:05}{name}": float(i) for i in range(150)}
    state, data = State(FULL.elect, lost, pools), dict[str, str]()
    for i in range(5):
        entry = f"maar-{i}"
        data[entry] = write_state(state, others_in(config_map(**data), entry))
        assert FULL.elect == read_state(config_map(**data), frozenset({entry})).elect
        assert sum(len(key) + len(text) for key, text in data.items()) < 100_000
    assert write_state(state, others_in(config_map(**data), "maar-0")) == data["maar-0"], "its own entry does not count"
    assert len(write_state(state, 10**6)) < 2_000


def test_an_election_that_is_too_long_does_not_take_the_pools_with_it() -> None:
    huge = Elect("ns/" + "a" * MOST_BYTES, 1.0)
    rest = State(resized=FULL.resized, rounds=FULL.rounds)
    assert rest == read_state(config_map(maar=write_state(State(huge, (), rest.resized, rest.rounds))), MAAR)
    many = {f"p{i:05}": 1.0 for i in range(10_000)}
    assert 20 == len(read_state(config_map(maar=write_state(State(rounds=many))), MAAR).rounds)


# -- in files

YAML = "{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: %s}, data: {maar: '%s'}}\n---\n"


def test_a_file_with_the_state_is_read_and_other_config_maps_are_not(tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("state") / "all.yaml"
    file.write_text(YAML % ("maar-state", "anywhere", write_state(FULL)) + YAML % ("other", "ns", "{"))
    found = read([str(file)])
    assert FULL == remembered(found.cluster)
    assert {"ConfigMap": 1} == found.ignored


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (YAML % ("maar-state", "a", "{"), "document 1: data.maar: malformed state: "),
        (
            YAML % ("maar-state", "a", "{}") + YAML % ("maar-state", "b", "{}"),
            "document 2: metadata.namespace: ConfigMap `maar-state` is there in two namespaces, first in ",
        ),
    ],
)
def test_a_file_with_a_malformed_state_is_an_error(
    tmp_path_factory: pytest.TempPathFactory, text: str, problem: str
) -> None:
    file = tmp_path_factory.mktemp("state") / "all.yaml"
    file.write_text(text)
    with pytest.raises(ManifestError, match=problem):
        read([str(file)])


def test_shards_have_entries_of_their_own_and_the_first_election_of_all_counts() -> None:
    one = State(Elect("default/a", since=20.0), (Expired("default/x", at=1.0),), {"pool": 5.0}, {"shuffle": 9.0})
    two = State(Elect("default/b", since=10.0), (Expired("default/x", at=2.0),), {"pool": 7.0, "other": 1.0})
    entry = entry_of(MAAR)
    data = {entry: write_state(one), entry_of_shard(entry, 2): write_state(two), f"{entry}.shard-x": "not one"}
    found = read_state(config_map(**data), MAAR)
    assert Elect("default/b", since=10.0) == found.elect
    assert (Expired("default/x", at=2.0),) == found.expired
    assert ({"pool": 7.0, "other": 1.0}, {"shuffle": 9.0}) == (found.resized, found.rounds)
