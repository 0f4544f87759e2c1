"""The ConfigMap `maar-state`: what is read, what is written, and what happens to a malformed one."""

from __future__ import annotations

import json
import logging

import msgspec
import pytest
from tests.support.facts import facts
from tests.support.objects import decoded

from maar.kube.kinds.cluster import STATE
from maar.kube.picture.manifests import read
from maar.kube.picture.picture import Picture
from maar.kube.read.state import MOST_BYTES, State, entries_of, entry_of, entry_of_shard, others_in, read_state
from maar.kube.wire.base import Metadata
from maar.kube.wire.cluster import ConfigMap
from maar.kube.wire.errors import FieldError, ManifestError
from maar.model.facts import About, Fact, Lost
from maar.model.plan import Elect
from maar.model.snapshot import Cluster

MAAR = frozenset({"maar"})
FULL = State(
    Elect("ns/a", 1.5, "uid-a", (("cpu", 4000), ("pods", 2))),
    {"default": 1e9 / 3, "a100": 7.0},
    facts(Lost("ns/b", 0.1 + 0.2, "uid-b"), rounds={"tdm": 1e9 / 7}),
)


def config_map(**data: str) -> ConfigMap:
    return ConfigMap(Metadata(name="maar-state", namespace="maar-system", resource_version="1"), data)


def written(state: State, entry: str = "maar", others: int = 0) -> dict[str, str]:
    return entries_of(entry, state, others)[0]


@pytest.mark.parametrize("state", [State(), FULL])
def test_what_is_written_is_read_again(state: State) -> None:
    assert state == read_state(config_map(**written(state)), MAAR)


def test_a_missing_entry_is_an_empty_state() -> None:
    assert State() == read_state(config_map(), MAAR)
    assert State() == read_state(config_map(maar=""), MAAR)


def test_each_scheduler_has_its_own_entry() -> None:
    both = config_map(**written(FULL), **written(State(resized={"default": 1.0}), "other"))
    assert FULL == read_state(both, MAAR)
    assert {"default": 1.0} == read_state(both, frozenset({"other"})).resized
    assert State() == read_state(both, frozenset({"maar", "other"}))
    assert FULL == read_state(both, None), "in files, without a name: the default entry"
    assert FULL == read_state(config_map(**written(FULL, "other")), None), "or the only one"


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
    assert warning.endswith(": elections, the last changes of pools and what plugins remember are forgotten")
    assert len(warning) < 400


def remembered(cluster: Cluster) -> State:
    return State(cluster.elect, cluster.resized, cluster.facts)


def test_the_picture_follows_the_state() -> None:
    picture = Picture(MAAR)
    picture.put(STATE, config_map(**written(FULL)))
    assert FULL == remembered(picture.take(0.0).around)
    picture.drop(STATE, "maar-system/maar-state")
    assert State() == remembered(picture.take(0.0).around)


def many(count: int, name: str = "n" * 250) -> tuple[Fact, ...]:
    """Facts about jobs, the later the newer."""
    return facts(*(Lost(f"{name}/{i:04}{name}", float(i), "u" * 36) for i in range(count)))


def test_a_state_is_never_too_long() -> None:
    """The facts about jobs that changed longest ago go first, and pools in the same way."""
    pools = {f"{i:05}{'n' * 250}": float(i) for i in range(1000)}
    about_all = Fact("other", "x", 0.0, {"a": 1})
    data = written(State(FULL.elect, pools, (*many(1000), about_all)))
    assert [True, True] == [len(text) <= MOST_BYTES for text in data.values()]
    kept = read_state(config_map(**data), MAAR)
    assert FULL.elect == kept.elect
    assert kept.resized == {key: at for key, at in pools.items() if at >= 1000 - len(kept.resized)} != {}
    of_jobs = [fact for fact in kept.facts if fact.about is About.JOB]
    assert (about_all, *many(1000)[-len(of_jobs) :]) == (kept.facts[0], *of_jobs)
    assert 1000 > len(of_jobs) > 10


def test_all_entries_together_stay_below_100_kb() -> None:
    """Also of schedulers that are gone, and if somebody else writes there."""
    pools = {f"{i:05}{'n' * 250}": float(i) for i in range(150)}
    state, data = State(FULL.elect, pools, many(50)), dict[str, str]()
    for i in range(5):
        entry = f"maar-{i}"
        data.update(written(state, entry, others_in(config_map(**data), entry)))
        assert FULL.elect == read_state(config_map(**data), frozenset({entry})).elect
        assert sum(len(key) + len(text) for key, text in data.items()) < 100_000
    own = sum(len(key) + len(data[key]) for key in written(state, "maar-0"))
    assert sum(len(key) + len(text) for key, text in data.items()) - own == others_in(config_map(**data), "maar-0")
    assert all(len(text) < 2_000 for text in written(state, others=10**6).values())


def test_an_election_that_is_too_long_does_not_take_the_pools_with_it() -> None:
    huge = Elect("ns/" + "a" * MOST_BYTES, 1.0)
    rest = State(resized=FULL.resized, facts=FULL.facts)
    assert rest == read_state(config_map(**written(State(huge, rest.resized, rest.facts))), MAAR)


def test_a_fact_that_is_too_long_takes_no_other_with_it() -> None:
    long = Fact("p", "x", 9.0, {"text": "a" * 3000})
    made, left_out = entries_of("maar", State(facts=(long, *FULL.facts)))
    assert (FULL.facts, 1) == (read_state(config_map(**made), MAAR).facts, left_out)


# -- other versions


def test_the_state_of_the_version_before_facts_is_read() -> None:
    text = (
        '{"elect":{"job":"ns/a","since":1.5,"uid":"uid-a","demand":[["cpu",4000],["pods",2]]},'
        '"expired":[{"job":"ns/b","at":0.30000000000000004,"uid":"uid-b"}],'
        '"resized":{"a100":7.0,"default":333333333.3333333},"rounds":{"tdm":142857142.85714287}}'
    )
    assert FULL == read_state(config_map(maar=text), MAAR)


def test_the_version_before_facts_can_go_on_after_a_rollback() -> None:
    """It refuses an entry with fields that it does not know, and ignores entries of others."""
    data = written(FULL)
    assert {"maar", "maar..facts"} == data.keys()
    assert {"elect", "resized"} == msgspec.json.decode(data["maar"]).keys()


def test_what_a_later_version_wrote_is_ignored() -> None:
    data = {
        "maar": '{"resized":{"a":1.0},"unknown":1}',
        "maar..facts": '[{"plugin":"p","name":"x","at":1.0,"value":{"a":1},"more":2},'
        '{"plugin":"p","name":"y","at":1.0,"value":{},"about":"galaxy"}, 7]',
    }
    known = State(resized={"a": 1.0}, facts=(Fact("p", "x", 1.0, {"a": 1}),))
    assert known == read_state(config_map(**data), MAAR)


# -- in files

YAML = "{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: %s}, data: %s}\n---\n"


def test_a_file_with_the_state_is_read_and_other_config_maps_are_not(tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("state") / "all.yaml"
    file.write_text(
        YAML % ("maar-state", "anywhere", json.dumps(written(FULL))) + YAML % ("other", "ns", '{"maar": "{"}')
    )
    found = read([str(file)])
    assert FULL == remembered(found.cluster)
    assert {"ConfigMap": 1} == found.ignored


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (YAML % ("maar-state", "a", '{"maar": "{"}'), "document 1: data.maar: malformed state: "),
        (
            YAML % ("maar-state", "a", "{maar: '{}'}") + YAML % ("maar-state", "b", "{maar: '{}'}"),
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
    one = State(Elect("default/a", since=20.0), {"pool": 5.0}, facts(Lost("default/x", 1.0), rounds={"shuffle": 9.0}))
    two = State(Elect("default/b", since=10.0), {"pool": 7.0, "other": 1.0}, facts(Lost("default/x", 2.0)))
    entry = entry_of(MAAR)
    data = {**written(one), **written(two, entry_of_shard(entry, 2)), f"{entry}.shard-x": "not one"}
    found = read_state(config_map(**data), MAAR)
    assert Elect("default/b", since=10.0) == found.elect
    assert {"pool": 7.0, "other": 1.0} == found.resized
    assert (*one.facts, *two.facts) == found.facts, "a session merges them"
