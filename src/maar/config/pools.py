"""Pools in a configuration: which nodes have the same accelerator kind, and how elastic jobs share them.

    pools:
    - name: a100
      nodes: {nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB}
      algorithm: elastic-srjf
      rate-limit: 30s
    - name: default                       # all other nodes
      algorithm: elastic-tiresias
      arguments: {thresholds: [3600, 7200]}

Read once per file, after actions and tiers. Nodes that no pool selects belong to the pool `default`, which exists even
if the file does not name it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from maar.config.arguments import read_arguments
from maar.config.config import PoolOption, PoolRules, Registration
from maar.config.problems import Findings, shown
from maar.model.durations import parse_duration
from maar.model.words import unknown

DEFAULT = "default"
ALGORITHM = "elastic-fifo"
"""The default algorithm: first come, first served; the rest is shared round-robin."""


OWN = ("name", "nodes", "algorithm", "arguments")
KEYS = tuple(dict.fromkeys((*OWN, *(field.encode_name for field in msgspec.structs.fields(PoolRules)))))
TIMES = ("rate-limit", "minimum-time", "restart", "horizon", "hold")


def read_pools(items: list[object], algorithms: dict[str, Registration], findings: Findings) -> tuple[PoolOption, ...]:
    """All pools of a file, with `default` added last if the file does not name it."""
    pools: list[PoolOption] = []
    for i, item in enumerate(items):
        path = f"pools[{i}]"
        if not isinstance(item, dict):
            findings.problem(path, f"expected a mapping with a `name`, got {shown(item)}")
            continue
        pool = _pool({str(k): v for k, v in item.items()}, path, algorithms, findings)
        if pool is None:
            continue
        if any(pool.name == other.name for other in pools):
            findings.problem(f"{path}.name", f"`{pool.name}` is defined twice")
        elif not pool.nodes and pool.name != DEFAULT:
            findings.problem(
                path, f"`{pool.name}` has no `nodes`; only the pool `{DEFAULT}` (all other nodes) may omit them"
            )
        else:
            pools.append(pool)
    if not any(pool.name == DEFAULT for pool in pools) and ALGORITHM in algorithms:
        pools.append(default_pool(algorithms))
    return tuple(pools)


def default_pool(algorithms: dict[str, Registration]) -> PoolOption:
    """The pool of all nodes that no other pool selects, with default settings."""
    algorithm = algorithms[ALGORITHM]
    return PoolOption(name=DEFAULT, algorithm=algorithm, arguments=algorithm.arguments())


def _pool(raw: dict[str, Any], path: str, algorithms: dict[str, Registration], findings: Findings) -> PoolOption | None:
    name, nodes = raw.get("name"), raw.get("nodes") or {}
    if not isinstance(name, str) or not name.strip():
        findings.problem(f"{path}.name", f"expected a name, got {shown(name)}")
        return None
    if not isinstance(nodes, dict) or not all(isinstance(part, str) for pair in nodes.items() for part in pair):
        findings.problem(f"{path}.nodes", f"expected a mapping of label to value, got {shown(nodes)}")
        return None
    given = raw.get("algorithm", ALGORITHM)
    algorithm = algorithms.get(given) if isinstance(given, str) else None
    if algorithm is None:
        findings.problem(f"{path}.algorithm", unknown("algorithm", str(given), algorithms))
        return None
    arguments_path = f"{path}.arguments"
    arguments = raw.get("arguments") or {}
    if not isinstance(arguments, dict):
        findings.problem(arguments_path, f"expected a mapping, got {shown(arguments)}")
        return None
    made = read_arguments(algorithm.name, algorithm.arguments, arguments, arguments_path, findings)
    stated = {k: v for k, v in raw.items() if k not in OWN}
    rules = _rules({"name": name.strip(), "nodes": nodes, **stated}, path, findings)
    if made is None or rules is None:
        return None
    return PoolOption(algorithm=algorithm, arguments=made, **msgspec.structs.asdict(rules))


def _rules(raw: dict[str, Any], path: str, findings: Findings) -> PoolRules | None:
    """What is stated about a pool, with its times in seconds."""
    for time in TIMES:
        try:
            if time in raw:
                raw[time] = parse_duration(raw[time])
        except ValueError as error:
            findings.problem(f"{path}.{time}", str(error))
            return None
    hysteresis = raw.get("hysteresis", 0)
    if isinstance(hysteresis, int) and hysteresis < 0:
        findings.problem(f"{path}.hysteresis", f"expected a whole number of at least 0, got `{hysteresis}`")
        return None
    strange = [key for key in raw if key not in KEYS]
    for key in strange:
        findings.unknown(path, "key", key, KEYS, lost="the pool is used without it")
    made = read_arguments("pool", PoolRules, {k: v for k, v in raw.items() if k in KEYS}, path, findings)
    return made if isinstance(made, PoolRules) and (findings.lenient or not strange) else None
