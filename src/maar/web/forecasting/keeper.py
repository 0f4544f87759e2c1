"""Makes forecasts while `maar web` runs: when, from what, and what is kept of them.

One forecast at a time, at most every `EVERY` seconds; sooner when jobs came that have none, but never for more than
half of the time. A process that fails is counted, and the next one starts after a pause that grows.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache

import msgspec

from maar.controller.history.knowledge import stated_category
from maar.forecast.arrivals import Asked, Submission
from maar.forecast.forecast import ROLLOUTS, Forecast, JobForecast
from maar.history.errors import HistoryError
from maar.history.forecasts import ForecastLog
from maar.history.history import History
from maar.history.records import Fate, FinishedRun
from maar.kube.picture.picture import Picture
from maar.lengths.runtimes import RunSample
from maar.model.jobs import Job
from maar.views.tally import AWAITED
from maar.web.api.mirror import Changes, Mirror
from maar.web.forecasting.judging import Judge, Verdicts, calibrated, judged
from maar.web.forecasting.messages import ForecastAnswer, ForecastQuestion, QuestionHead
from maar.web.forecasting.process import MEMORY, ProcessFailed, ask
from maar.whatif.edit import Scene

logger = logging.getLogger("maar.web")

SAMPLES = 20_000
"""The newest finished jobs that are learned from. Tuned by hand."""
LEARN = 600.0
"""Seconds between two judgements of old forecasts."""
LONGEST = 600.0
"""The longest pause after a failure, in seconds."""


class ForecastPace(msgspec.Struct, frozen=True):
    """How often forecasts are made, and what they may cost."""

    every: float = 60.0
    """Minimum seconds between the beginnings of two forecasts."""
    soon: float = 5.0
    """Seconds after which jobs that have no forecast get one."""
    budget: float = 240.0
    """Seconds for the roll-outs of a forecast."""
    rollouts: int = ROLLOUTS
    memory: int = MEMORY
    """Bytes of the forecasting process."""
    learn: float = LEARN
    again: float = 5.0
    """Seconds before the first try after a failure; each further pause is twice as long."""


class Latest(msgspec.Struct, frozen=True):
    """The newest forecast, as it is shown."""

    made: Forecast
    shown: Mapping[str, JobForecast]
    """Calibrated, by job."""
    places: Mapping[str, int]
    seconds: float
    samples: int
    """The finished jobs that it was made from."""


class ForecastCounts(msgspec.Struct):
    """What happened so far."""

    made: int = 0
    failed: int = 0
    kept: int = 0
    memory: int = 0
    """The most bytes that the last process had."""
    problem: str = ""
    """Why the last forecast failed; empty if it did not."""


class Keeper:
    """Keeps the forecast of one cluster fresh."""

    def __init__(
        self,
        mirror: Mirror,
        history: History,
        log: ForecastLog | None = None,
        pace: ForecastPace | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._mirror = mirror
        self._history = history
        self.log = log or ForecastLog()
        self.pace = pace or ForecastPace()
        self._clock = clock
        self._samples: deque[RunSample] = deque(maxlen=SAMPLES)
        self._past: deque[Submission] = deque(maxlen=SAMPLES)
        self._row = 0
        self._judge: Judge | None = None
        self._fates: list[Fate] = []
        self.verdicts = Verdicts()
        self._learned = -float("inf")
        self._news = asyncio.Event()
        self.latest: Latest | None = None
        self.counts = ForecastCounts()

    async def run(self) -> None:
        """Make forecasts until cancelled."""
        self._mirror.readers.append(self._note)
        pause = self.pace.again
        try:
            while True:
                begun = time.monotonic()
                try:
                    await self._once()
                    pause = self.pace.again
                except ProcessFailed as error:
                    self.counts.failed += 1
                    if self.counts.problem != str(error):
                        logger.warning("forecast: %s", error)
                    self.counts.problem = str(error)
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, LONGEST)
                except Exception:
                    self.counts.failed += 1
                    self.counts.problem = "internal error, see the log"
                    logger.exception("forecast: internal error; continuing")
                    await asyncio.sleep(LONGEST)
                await self._rest(begun)
        finally:
            self._mirror.readers.remove(self._note)

    async def close(self) -> None:
        await self.log.close()

    def _note(self, changes: Changes) -> None:
        """Follow, after each cycle of the shadow, the jobs of kept forecasts, and look for jobs without a forecast."""
        moment = self._mirror.moment
        if moment is None:
            return
        if self._judge is not None:
            self._fates += self._judge.fates(moment.tally)
        known = {} if self.latest is None else self.latest.shown
        jobs = moment.tally.snapshot.jobs.number
        states = moment.tally.states
        if changes.all or any(
            key in jobs and key not in known and int(states[jobs[key]]) in AWAITED for key in changes.jobs
        ):
            self._news.set()

    async def _rest(self, begun: float) -> None:
        """Wait until the next forecast is due."""
        took = time.monotonic() - begun
        await asyncio.sleep(max(self.pace.soon, took))
        left = begun + self.pace.every - time.monotonic()
        if left > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._news.wait()

    # -- one forecast

    async def _once(self) -> None:
        while self._mirror.moment is None:  # noqa: ASYNC110 it looks again now and then
            await asyncio.sleep(0.1)
        await self._learn()
        self._news.clear()
        moment = self._mirror.moment
        cluster, now = self._mirror.cluster(), self._clock()
        jobs = {job.key: job for job in cluster.jobs}
        head = QuestionHead(now, self.pace.budget, self.pace.rollouts, places=True)
        scene = Scene(cluster, moment.config)
        answer = await ask(await self._question(head, scene), self.pace.memory)
        (made,) = answer.forecasts
        shown = self.shown(made, cluster.jobs)
        self.latest = Latest(made, shown, answer.places, answer.seconds, len(self._samples))
        self.counts.made += 1
        self.counts.memory, self.counts.problem = answer.memory, ""
        await self._keep(made, shown, jobs)
        self._tell()

    def shown(self, made: Forecast, jobs: Iterable[Job]) -> dict[str, JobForecast]:
        """A forecast as people see it."""
        return calibrated(made, {job.key: job for job in jobs}, self.verdicts)

    async def compare(self, before: Scene, after: Scene, now: float, budget: float) -> ForecastAnswer:
        """Forecasts without and with a change, with the same futures and as many roll-outs; raises `ProcessFailed`."""
        head = QuestionHead(now, budget, self.pace.rollouts, adapts=True)
        return await ask(await self._question(head, before, after), self.pace.memory)

    async def forecast(self, scene: Scene, now: float, budget: float) -> ForecastAnswer:
        """A forecast of another scene than the present one; raises `ProcessFailed`."""
        head = QuestionHead(now, budget, self.pace.rollouts)
        return await ask(await self._question(head, scene), self.pace.memory)

    async def _question(self, head: QuestionHead, *scenes: Scene) -> ForecastQuestion:
        categories = await self._categories(scenes[0].cluster.jobs)
        return ForecastQuestion(head, scenes, tuple(self._samples), categories, tuple(self._past))

    async def _categories(self, jobs: Sequence[Job]) -> dict[str, str]:
        """The categories that owners state."""
        found: dict[str, str] = {}
        for start in range(0, len(jobs), 200):
            found |= categories(self._mirror.observer.picture, jobs[start : start + 200])
            await asyncio.sleep(0)
        return found

    # -- history

    async def _learn(self) -> None:
        """Read what is new about finished jobs, and judge old forecasts now and then."""
        if self._history.on:
            with contextlib.suppress(HistoryError):  # the history says so itself
                for run in await self._history.runs(self._row, SAMPLES):
                    self._row = max(self._row, run.id)
                    self._samples.append(run.sample)
                    if (one := submission_of(run)) is not None:
                        self._past.append(one)
        if not self.log.on:
            return
        now = self._clock()
        due = time.monotonic() - self._learned >= self.pace.learn
        try:
            if self._judge is None:
                unresolved, predictions = await self.log.load()
                self._judge = Judge(unresolved)
            elif due:
                predictions = await self.log.judged()
            else:
                return
        except HistoryError:
            return
        self._learned = time.monotonic()
        self.verdicts = await asyncio.to_thread(judged, predictions, now)

    async def _keep(self, made: Forecast, shown: Mapping[str, JobForecast], jobs: Mapping[str, Job]) -> None:
        if self._judge is None:
            return
        predictions = self._judge.chosen(made, shown, jobs)
        fates, self._fates = self._fates, []
        try:
            await self.log.save(predictions, fates, made.at)
            self.counts.kept += len(predictions)
        except HistoryError:
            self._judge = None  # it is read again once the database answers: then lost fates are found too

    def _tell(self) -> None:
        """Readers of the stream get the new forecasts of waiting jobs."""
        moment = self._mirror.moment
        if moment is None or self.latest is None:
            return
        states, jobs = moment.tally.states, moment.tally.snapshot.jobs.number
        mine = {key for key in self.latest.shown if key in jobs and int(states[jobs[key]]) in AWAITED}
        changes = Changes()
        changes.add(Changes(mine))
        for reader in self._mirror.readers:
            if reader != self._note:
                reader(changes)


def categories(picture: Picture, jobs: Iterable[Job]) -> dict[str, str]:
    """The categories that the owners of jobs state."""
    return {job.key: category for job in jobs if (category := stated_category(picture, job.key))}


def submission_of(run: FinishedRun) -> Submission | None:
    """The submission of a finished job; `None` if it is not known what the job asked for."""
    asked = _asked(run.asked)
    if asked is None:
        return None
    return Submission(run.submitted, run.queue, run.sample.traits, asked, run.seconds, run.ended)


@lru_cache(maxsize=4096)
def _asked(text: str) -> Asked | None:
    """Equal jobs share what they asked for."""
    try:
        return msgspec.json.decode(text, type=Asked) if text else None
    except msgspec.DecodeError:
        return None
