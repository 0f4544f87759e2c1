"""What a counter chooses for a pod, live: it reaches the writer of the bind, and the next cycles know it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cards import HALVES
from tests.support.live import Live, Seen, scheduling, tell, where
from tests.support.packages import install

from maar.embedded.server import EmbeddedServer
from maar.kube.wire.api_resources import NODES
from maar.kube.write.executor import Bind, Work
from maar.registry import catalog

CONFIG = "actions: allocate\ntiers: [{plugins: [{name: gang}, {name: predicates}, {name: cards}]}]\n"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A configuration with a counter that is installed as a package of its own."""
    install(tmp_path / "site", "acme_cards", "from tests.support.cards import cards", {"cards": "cards"})
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    catalog.cache_clear()
    file = tmp_path / "maar.yaml"
    file.write_text(CONFIG)
    yield file
    catalog.cache_clear()
    sys.modules.pop("acme_cards", None)


def asking(halves: int) -> dict[str, Any]:
    limits = {"cpu": "100m", HALVES: str(halves)}
    return {"containers": [{"name": "c", "image": "train", "resources": {"limits": limits, "requests": limits}}]}


def runs(name: str) -> Callable[[list[Seen]], bool]:
    return lambda pods: bool(where(pods)[name])


def test_the_writer_gets_the_choice_and_no_card_is_chosen_twice(
    config: Path, box: EmbeddedServer, tmp_path: Path
) -> None:
    sent: list[tuple[str, dict[str, str]]] = []

    def note(work: Work, seconds: float) -> None:
        if isinstance(work, Bind):
            sent.append((work.pod.name, dict(work.chosen)))

    async def story(live: Live) -> None:
        has = {HALVES: "4", "cpu": "32", "memory": "256Gi", "pods": "110"}
        await live.api.patch(NODES.path("", "n0", "status"), {"status": {"allocatable": has, "capacity": has}})
        async with scheduling(live, config=config) as scheduler:
            scheduler.executor.on_sent.append(note)
            for name in ("a", "b"):
                await live.pod(name, **asking(2))
                await live.until(runs(name), f"{name} runs")
            await live.pod("plain")
            await live.until(runs("plain"), "the pod without a card runs")

    tell(box.kubeconfig(tmp_path / "kubeconfig"), story, nodes=1)
    assert [("a", {"cards": "0"}), ("b", {"cards": "1"}), ("plain", {})] == sent
