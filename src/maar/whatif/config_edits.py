"""Edits of the configuration: another one, or another elastic algorithm of a pool."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from maar.config.arguments import read_arguments
from maar.config.file import ConfigError, read_config
from maar.config.problems import Findings
from maar.registry import catalog
from maar.whatif.edit import Edit, EditError, Scene, found


class UseConfig(Edit, frozen=True):
    """Another configuration, as the text of its file. Its warnings are the reader's to show."""

    text: str
    lenient: bool = False

    def applied(self, scene: Scene) -> Scene:
        try:
            return replace(scene, config=read_config(self.text, "text", catalog(), self.lenient).config)
        except ConfigError as error:
            raise EditError("text", "; ".join(p.removeprefix("text: ") for p in error.problems)) from None

    def words(self, scene: Scene) -> str:
        return "use another configuration"


class SetAlgorithm(Edit, frozen=True):
    """Another elastic algorithm of a pool; the other settings of the pool stay."""

    pool: str
    algorithm: str
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)

    def applied(self, scene: Scene) -> Scene:
        pools, known = scene.config.pools, catalog().algorithms
        found("pool", "pool", self.pool, [pool.name for pool in pools])
        found("algorithm", "algorithm", self.algorithm, known)
        registration, findings = known[self.algorithm], Findings("")
        made = read_arguments(self.algorithm, registration.arguments, dict(self.arguments), "arguments", findings)
        if made is None or findings.problems:
            path, _, problem = "; ".join(p.removeprefix(": ") for p in findings.problems).partition(": ")
            raise EditError(path, problem)
        after = tuple(
            replace(pool, algorithm=registration, arguments=made) if pool.name == self.pool else pool for pool in pools
        )
        return replace(scene, config=replace(scene.config, pools=after))

    def words(self, scene: Scene) -> str:
        now = next((pool.algorithm.name for pool in scene.config.pools if pool.name == self.pool), "")
        before = f", not `{now}`" if now else ""
        return f"use algorithm `{self.algorithm}` in pool `{self.pool}`{before}"
