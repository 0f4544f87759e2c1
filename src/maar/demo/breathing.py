"""The acts of `maar demo` about elastic jobs: they grow and shrink with each other, and for a gang of fixed size.

The output shows the sizes in the jobs' objects. The acts check those sizes and the running pods.
"""

from __future__ import annotations

from maar.config.file import default_text
from maar.demo.box import Broken
from maar.demo.manifests import Elastic, Gang
from maar.demo.score import EVICTED
from maar.demo.sizes import POOL, bars
from maar.demo.teller import Teller

BRAKES = "rate-limit: 1s, minimum-time: 1s, restart: 1s, horizon: 1m"
"""Shorter than on a real cluster, where these times are 30 s and more."""
POOLS = f"""
pools:
- {{name: a100, nodes: {{{POOL}: a100}}, algorithm: elastic-fifo, {BRAKES}}}
- {{name: v100, nodes: {{{POOL}: v100}}, algorithm: max-min, {BRAKES}}}
"""

GPT = Elastic("gpt", "PyTorchJob", 2, 16, 4, "a100")
CLIP = Elastic("clip", "MPIJob", 2, 16, 4, "v100")
WHISPER = Elastic("whisper", "PyTorchJob", 4, 8, 4, "a100")
DINO = Elastic("dino", "PyTorchJob", 1, 6, 8, "v100")
RUSH = Gang("rush", 4, 8, "research", "high")


class Breathing:
    """Two acts."""

    def __init__(self, teller: Teller) -> None:
        self._teller = teller
        self._box = teller.box
        self._shown: dict[str, int] = {}

    async def play(self, *before: Gang) -> None:
        """Play both acts, after the gangs of earlier acts have ended."""
        await self.breathe(before)
        await self.shrink_for_a_gang()

    async def breathe(self, gangs: tuple[Gang, ...]) -> None:
        """Jobs arrive and end, and the others shrink and grow."""
        teller, box = self._teller, self._box
        teller.title("Elastic jobs breathe, in two pools")
        await box.finish(*(gang for gang in gangs if not box.is_done(gang)))
        since = box.log_length
        box.write_config(default_text().partition("\npools:\n")[0] + POOLS)
        await box.until(lambda: box.said("reloaded", since), "the configuration with pools is read")
        teller.tell(
            "all gangs are done. The cluster has two pools now: "
            "01 to 08 are a100, shared by elastic-fifo, and 09 to 16 are v100, shared by max-min"
        )
        for job in (GPT, CLIP):
            await self._create(job)
        await self._become({GPT.name: 16, CLIP.name: 16}, "each job takes all that it can use of its pool:")
        await teller.pause()
        for job in (WHISPER, DINO):
            await self._create(job)
        expected = {GPT.name: 8, WHISPER.name: 8, CLIP.name: 8, DINO.name: 4}
        await self._become(expected, "the first two jobs shrink for the new ones:")
        await teller.show((GPT, WHISPER, CLIP, DINO))
        await box.end_pods(WHISPER.name)
        await box.until(lambda: WHISPER.name not in box.ledger.sizes.jobs, f"{WHISPER.name} is done")
        del expected[WHISPER.name]
        await self._become({**expected, GPT.name: 16}, f"{WHISPER.name} is done: its room is used at once")
        await teller.pause()

    async def shrink_for_a_gang(self) -> None:
        """A gang of fixed size and high priority gets its room from elastic jobs; no job is evicted or stopped."""
        teller, box = self._teller, self._box
        teller.title("A rigid gang of high priority arrives, and elastic jobs shrink for it")
        evicted, jobs = len(box.ledger.disrupted(EVICTED)), set(box.ledger.sizes.sizes())
        stopped = box.ledger.sizes.changes["stopped"]
        await box.submit(RUSH)
        teller.tell(f"created job {RUSH}; all {box.ledger.gpus_used} GPUs are in use")
        await teller.until_running(RUSH)
        await box.until(self._all_run, "all workers of elastic jobs run")
        self._bars(f"{RUSH.name} runs on {', '.join(box.nodes_of(RUSH))}; elastic jobs made room:")
        evicted = len(box.ledger.disrupted(EVICTED)) - evicted
        stopped = box.ledger.sizes.changes["stopped"] - stopped
        if evicted or stopped or jobs != {name for name, size in box.ledger.sizes.sizes().items() if size}:
            raise Broken(f"elastic jobs should only shrink: {evicted} pods evicted, {stopped} jobs stopped")
        teller.tell(f"pods evicted for it: {evicted}; elastic jobs stopped for it: {stopped}")
        await box.until(lambda: self._resized_for(RUSH), "an event names the beneficiary")
        name, message = self._resized_for(RUSH)[0]
        teller.why(message, f"event Resized on {name}")
        await teller.show((RUSH,))
        await box.finish(RUSH)
        await self._become({GPT.name: 16, CLIP.name: 8, DINO.name: 4}, f"{RUSH.name} is done; elastic jobs grow back:")
        await teller.show()

    async def _create(self, job: Elastic) -> None:
        await self._box.submit_elastic(job)
        self._teller.tell(f"created {job}, suspended")

    async def _become(self, expected: dict[str, int], what: str) -> None:
        sizes = self._box.ledger.sizes
        await self._box.until(
            lambda: sizes.sizes() == expected and self._all_run(), f"elastic jobs run with the sizes {expected}"
        )
        self._bars(what)

    def _resized_for(self, gang: Gang) -> list[tuple[str, str]]:
        """The elastic jobs with an event that names the gang, and its message."""
        names = sorted(self._box.ledger.sizes.jobs)
        return [(name, text) for name in names for text in self._box.events("Resized", name) if gang.name in text]

    def _all_run(self) -> bool:
        jobs = self._box.ledger.sizes.jobs.values()
        return all(len(self._box.running(job.name)) == job.size + bool(job.size) * job.beside for job in jobs)

    def _bars(self, what: str) -> None:
        sizes = self._box.ledger.sizes
        self._teller.tell(what)
        for line in bars(sizes.jobs.values(), self._shown):
            self._teller.say(f"{'':12}{line}")
        self._shown = sizes.sizes()
