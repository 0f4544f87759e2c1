"""The story of `maar demo`: each act changes the cluster, waits for the scheduler, and says what happened and why.

What it prints comes from the API server (conditions, events, nodes of pods) or from the scheduler's log. If an expected
result does not come, it raises `Broken`.
"""

from __future__ import annotations

from collections.abc import Iterable

from maar.config.file import default_text
from maar.demo.box import Broken
from maar.demo.breathing import Breathing
from maar.demo.manifests import Gang
from maar.demo.score import EVICTED, LOST
from maar.demo.teller import Teller
from maar.embedded.http.faults import all_binds
from maar.embedded.objects.store import Event
from maar.model.words import count as counted

BERT = Gang("bert", 4, 8, "research")
RESNET = Gang("resnet", 4, 4, "research", "low")
LLAMA = Gang("llama", 2, 8, "research")
VISION = Gang("vision", 4, 8, "product")
SPEECH = Gang("speech", 8, 2, "product")
OCR = Gang("ocr", 4, 4, "product")
FIRST = (BERT, RESNET, LLAMA, VISION, SPEECH, OCR)

URGENT = Gang("urgent", 2, 8, "research", "high")
GIANT = Gang("giant", 17, 8, "research", "high")
PAIR = Gang("pair", 2, 1, "product")
QUAD = Gang("quad", 4, 1, "product")
TENFOLD = Gang("tenfold", 10, 1, "product")

TYPO = ("- name: binpack ", "- name: binpakc ")
SPREADING = (
    ("leastrequested.weight: 0 ", "leastrequested.weight: 10"),
    ("binpack.weight: 10 ", "binpack.weight: 0  "),
)
KILL_AFTER = 5
"""Number of binds of the last gang before the scheduler is killed."""


class Story(Teller):
    """Plays the acts, one after the other."""

    async def play(self) -> None:
        await self.fill()
        await self.make_room()
        await self.refuse()
        await self.lose_a_node()
        await self.change_the_rules()
        await self.crash()
        await Breathing(self).play(*FIRST, URGENT, PAIR, QUAD, TENFOLD)

    # -- the acts

    async def fill(self) -> None:
        self.title("Work fills the cluster")
        for gang in FIRST:
            await self.box.submit(gang)
            self.tell(f"created job {gang}")
        pid = await self.box.start_scheduler()
        self.tell(f"started the scheduler: `maar run --kubeconfig {self.box.kubeconfig}`, process {pid}")
        await self.until_running(*FIRST)
        pods = sum(gang.pods for gang in FIRST)
        ledger = self.box.ledger
        gpus = f"{ledger.gpus_used} of {ledger.gpus_offered} GPUs in use"
        self.tell(f"all {len(FIRST)} gangs run: {pods} pods, {gpus}")
        await self.show(FIRST)

    async def make_room(self) -> None:
        """A gang of high priority replaces one whole gang of low priority."""
        self.title("A gang of high priority arrives")
        await self.box.submit(URGENT)
        self.tell(f"created job {URGENT}; the cluster is full")
        await self.until_running(URGENT)
        evicted = self.box.ledger.disrupted(EVICTED)
        victims = sorted({life.gang for life in evicted})
        if len(evicted) != RESNET.pods or victims != [RESNET.name]:
            raise Broken(f"all {RESNET.pods} pods of {RESNET.name} should be evicted, not {len(evicted)} of {victims}")
        self.tell(f"all {len(evicted)} pods of {victims[0]} were evicted, and no other pod; {URGENT.name} runs")
        await self.box.until(lambda: self.box.events("Preempted", RESNET.name), "an event names the beneficiary")
        self.why(self.box.events("Preempted", RESNET.name)[0], "event Preempted on its pods")
        await self.box.until(lambda: self.box.reason(RESNET), "the evicted gang has a reason")
        self.tell(f"its controller has created the pods of {RESNET.name} again; they wait:")
        self.why(self.box.reason(RESNET), "on each of its pods")
        await self.show([URGENT])

    async def refuse(self) -> None:
        """A gang that can never run gets the reason, and nothing is evicted for it."""
        self.title("An impossible gang arrives")
        before = len(self.box.ledger.disrupted(EVICTED))
        await self.box.submit(GIANT)
        need = GIANT.pods * GIANT.gpus
        self.tell(f"created job {GIANT}: {need} GPUs, of which there are {self.box.ledger.gpus_offered}")
        await self.box.until(lambda: self.box.reason(GIANT), "the impossible gang has a reason")
        self.why(self.box.reason(GIANT), "on each of its pods")
        evicted = len(self.box.ledger.disrupted(EVICTED)) - before
        if evicted or self.box.nodes_of(GIANT):
            raise Broken(f"nothing may be evicted or bound for {GIANT.name}: {evicted} evicted")
        self.tell(f"evicted for it, although its priority is high: {evicted}")
        await self.box.delete(GIANT)
        self.tell(f"deleted job {GIANT.name}")
        await self.pause()

    async def lose_a_node(self) -> None:
        """A job ends, so that there is room; then a node dies, and its pods move."""
        self.title("A node dies")
        await self.box.finish(VISION)
        self.tell(f"{VISION.name} is done")
        await self.until_running(RESNET)
        self.tell(f"{RESNET.name} is back on {', '.join(self.box.nodes_of(RESNET))}")
        await self.show()
        node = self.box.nodes_of(SPEECH)[0]
        self.box.kubelets.kill(node)
        self.tell(f"{node} stops responding; it runs pods of {', '.join(self._jobs_on(node))}")
        await self.box.until(lambda: self.box.ledger.disrupted(LOST), "the pods of a dead node are deleted")
        await self.until_running(SPEECH, *(gang for gang in FIRST if gang.name in self._jobs_on(node)))
        await self.box.until(lambda: not self._jobs_on(node), f"no pod is left on {node}")
        lost = len(self.box.ledger.disrupted(LOST))
        nodes = ", ".join(self.box.nodes_of(SPEECH))
        self.tell(f"{counted(lost, 'pod was', 'pods were')} lost; {SPEECH.name} is whole again, on {nodes}")
        await self.show()
        self.box.kubelets.revive(node)
        await self.box.until(lambda: self.box.ledger.nodes[node][0], f"{node} is ready again")
        self.tell(f"{node} is back")

    async def change_the_rules(self) -> None:
        """A configuration with a typo is refused; the corrected one applies without a restart."""
        self.title("The rules change while it runs")
        await self.box.submit(PAIR)
        await self.until_running(PAIR)
        packed = self.box.nodes_of(PAIR)
        self.tell(f"created job {PAIR}: it runs on {', '.join(packed)}")
        good = _changed(default_text(), SPREADING)
        since = self.box.log_length
        self.box.write_config(_changed(good, [TYPO]))
        self.tell("wrote a configuration that spreads work instead of packing it, with a typo in it")
        await self.box.until(lambda: self.box.said("refused", since), "the typo is refused")
        for line in self.box.said("refused", since):
            self.why(line[line.find(self.box.config.name) :], "the scheduler's log; the previous one stays in use")
        since = self.box.log_length
        self.box.write_config(good)
        await self.box.until(lambda: self.box.said("reloaded", since), "the corrected configuration is loaded")
        self.tell("corrected the typo: applied without a restart")
        await self.box.submit(QUAD)
        await self.until_running(QUAD)
        spread = self.box.nodes_of(QUAD)
        if set(spread) & set(packed):
            raise Broken(f"the new rules should spread: {QUAD.name} is on {spread}, like {PAIR.name} on {packed}")
        self.tell(f"created job {QUAD}: it runs on {', '.join(spread)}, not beside {PAIR.name} as before")
        await self.show([PAIR, QUAD])

    async def crash(self) -> None:
        """The scheduler is killed while it binds a gang; the next one completes the gang."""
        self.title("The scheduler is killed in the middle of binding a gang")
        before = len(self.box.ledger.disrupted(EVICTED))
        names: set[str] = set()

        def bound(event: Event) -> None:
            """Called by the server at each write of a pod, so that the kill is at an exact moment."""
            obj = event.item.obj
            if obj["spec"].get("nodeName") and obj["metadata"]["name"].startswith(f"{TENFOLD.name}-"):
                names.add(obj["metadata"]["name"])
                if len(names) == KILL_AFTER:
                    self.box.kill_scheduler()
                    self.box.on_pod.remove(bound)

        faults = self.box.server.faults
        # Binds that were sent before the kill may still arrive: the server refuses them from here on.
        faults.fails = lambda method, path: all_binds(method, path) and len(names) >= KILL_AFTER
        faults.fail_share, faults.fail_codes = 1.0, (429,)
        self.box.on_pod.append(bound)
        await self.box.submit(TENFOLD)
        self.tell(f"created job {TENFOLD}")
        await self.box.until(lambda: len(names) >= KILL_AFTER, f"{KILL_AFTER} pods of {TENFOLD.name} are bound")
        code = await self.box.stop_scheduler()
        faults.clear()
        count = self.box.ledger.at_work(TENFOLD.name)
        self.tell(f"SIGKILL after {count} of {TENFOLD.pods} binds (the process ended with {code}): part of it runs")
        if not 0 < count < TENFOLD.pods:
            raise Broken(f"the scheduler was not killed in the middle: {count} of {TENFOLD.pods} pods are bound")
        await self.show([TENFOLD])
        pid = await self.box.start_scheduler()
        self.tell(f"started another one, process {pid}: it knows only what is on the API server")
        await self.until_running(TENFOLD)
        evicted = len(self.box.ledger.disrupted(EVICTED)) - before
        if evicted:
            raise Broken(f"the partial gang fits: nothing should be evicted for it, but {evicted} pods were")
        self.tell(f"{TENFOLD.name} is whole: all {TENFOLD.pods} pods run; evicted for it: {evicted}")
        await self.box.until(lambda: self.box.events("Scheduled", TENFOLD.name), "an event reports the gang's pods")
        messages = self.box.events("Scheduled", TENFOLD.name)
        if len(messages) != 1:
            raise Broken(f"expected one event, from the second scheduler only: {messages}")
        self.why(messages[0], "event Scheduled on its first pod")
        await self.show()

    # -- state

    def _jobs_on(self, node: str) -> list[str]:
        lives = self.box.ledger.lives.values()
        return sorted({life.gang for life in lives if life.node == node and life.holds})


def _changed(text: str, changes: Iterable[tuple[str, str]]) -> str:
    for before, after in changes:
        if before not in text:
            raise Broken(f"not in Maar's default configuration: `{before}`")
        text = text.replace(before, after)
    return text
