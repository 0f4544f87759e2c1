"""Pools in a configuration: what is read, the defaults, and what is refused with its path."""

from __future__ import annotations

import pytest

from maar.config.file import read_config
from maar.config.problems import ConfigError
from maar.registry import catalog

HEAD = "actions: resize\ntiers: [{plugins: [{name: gang}]}]\npools:\n"


def test_a_pool_says_only_what_it_changes() -> None:
    pools = read_config(HEAD + "- {name: v100, nodes: {gpu: v100}, rate-limit: 0}\n", "c", catalog()).config.pools
    assert ["v100", "default"] == [pool.name for pool in pools]
    assert ("elastic-fifo", 0.0, 60.0, 30.0) == (
        pools[0].algorithm.name,
        pools[0].rate_limit,
        pools[0].minimum_time,
        pools[0].restart,
    )
    assert 30.0 == pools[1].rate_limit


def test_parameters_of_an_algorithm_are_its_own() -> None:
    text = HEAD + "- {name: default, algorithm: tiresias, arguments: {thresholds: [10, 20], knob: 2}}\n"
    (pool,) = read_config(text, "c", catalog()).config.pools
    assert ((10.0, 20.0), 2.0) == (pool.arguments.thresholds, pool.arguments.knob)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("pool", "problem"),
    [
        ("- v100", "c: pools[0]: expected a mapping with a `name`, got `v100`"),
        ("- {nodes: {a: b}}", "c: pools[0].name: expected a name, got nothing"),
        ("- {name: x, nodes: [a]}", "c: pools[0].nodes: expected a mapping of label to value, got a list"),
        ("- {name: x}", "c: pools[0]: `x` has no `nodes`; only the pool `default` (all other nodes) may omit them"),
        (
            "- {name: default, algorithm: tiresia}",
            "c: pools[0].algorithm: unknown algorithm `tiresia`; did you mean `tiresias`? known: ",
        ),
        ("- {name: default, rate-limit: often}", "c: pools[0].rate-limit: not a duration: `often`"),
        (
            "- {name: default, hysteresis: -1}",
            "c: pools[0].hysteresis: expected a whole number of at least 0, got `-1`",
        ),
        (
            "- {name: default, ratelimit: 1s}",
            "c: pools[0]: unknown key `ratelimit`; did you mean `rate-limit`? known: ",
        ),
        (
            "- {name: default, algorithm: fifo, arguments: {knob: 1}}",
            "c: pools[0].arguments: unknown argument `knob`; `fifo` takes no arguments",
        ),
        ("- {name: default}\n- {name: default}", "c: pools[1].name: `default` is defined twice"),
    ],
)
def test_what_is_wrong_has_its_path(pool: str, problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read_config(f"{HEAD}{pool}\n", "c", catalog())
    assert raised.value.problems[0].startswith(problem), raised.value.problems
