"""What `POST what-if` answers. Nothing is written."""

from __future__ import annotations

import asyncio
import logging
import time

from msgspec.structs import replace

from maar.controller.record import RecordingError
from maar.views.answers import ShiftsView, WhatIfView
from maar.web.api.answers import WhatIfAnswer
from maar.web.api.desk import NO_FORECASTS, Api1, UserRequest, in_thread
from maar.web.api.errors import Refused
from maar.web.api.mirror import Moment
from maar.web.api.question import Question
from maar.web.forecasting.process import ProcessFailed
from maar.web.forecasting.view import with_shifts
from maar.web.workers.pool import UNKNOWN, Bug
from maar.web.workers.tasks import Answered, AsksRights, WhatIf
from maar.whatif.edit import Scene
from maar.whatif.edits import applied

logger = logging.getLogger("maar.web")

PUT_TOGETHER = 15.0
"""Seconds for the whole cluster of one recorded cycle. Tuned by hand."""


async def what_if(api: Api1, asked: UserRequest) -> WhatIfAnswer:
    question: Question = asked.body
    moment = asked.moment
    async with api.guard.computing(asked.user.username) as bill:
        scene, now = await _asked_about(api, question, moment)
        known = api.about(moment)[1] if question.decision is None else UNKNOWN
        names = moment.tally.namespaces
        if question.recording:
            names |= {job.namespace for job in scene.cluster.jobs}
        sight = await api.access.sight(asked.user, names) if question.recording else asked.sight
        task = WhatIf(question, now, sight, api.beside())
        try:
            found, bill.seconds = await api.pool.ask(task, scene, known)
            if isinstance(found, AsksRights):
                sight = await api.access.sight(asked.user, names | found.namespaces)
                found, seconds = await api.pool.ask(replace(task, sight=sight, asked=True), scene, known)
                bill.seconds += seconds
        except Bug as error:
            # A combination of edits that no decision can be made for. The text may have names: it is not shown.
            logger.warning("a what-if question failed: %s", error)
            raise Refused(422, "no decision can be made with these edits", "edits") from None
    view = await _with_shifts(api, found, replace(asked, sight=sight), scene)
    return WhatIfAnswer(**api.stamp(moment), what_if=view)


async def _with_shifts(api: Api1, found: Answered, asked: UserRequest, before: Scene) -> WhatIfView:
    """The answer with the forecast starts of waiting jobs, without and with the edits."""
    keeper, question, view = api.keeper, asked.body, found.view
    if keeper is None or not question.seconds:
        words = NO_FORECASTS if keeper is None else "none was asked for"
        return replace(view, forecast=ShiftsView(words=words))
    if question.decision is not None:
        return replace(view, forecast=ShiftsView(words="an earlier decision has no forecast"))
    try:
        async with api.guard.computing(asked.user.username, forecast=True) as bill:
            after = await asyncio.to_thread(applied, before, found.edits)
            answer = await keeper.compare(before, after, time.time(), question.seconds)
            bill.seconds = answer.cpu
    except Refused as refused:
        return replace(view, forecast=ShiftsView(words=refused.view.error))
    except ProcessFailed as error:
        logger.warning("the forecast of a what-if question failed: %s", error)
        return replace(view, forecast=ShiftsView(words="the forecast failed"))
    first, second = answer.forecasts
    was, then = keeper.shown(first, before.cluster.jobs), keeper.shown(second, after.cluster.jobs)
    return with_shifts(view, answer, was, then, asked.sight)


async def _asked_about(api: Api1, question: Question, moment: Moment) -> tuple[Scene, float]:
    """What a question is about, and the time: now, or those of a decision."""
    if question.recording:
        if question.decision is None:
            raise Refused(422, "expected the number of a recorded cycle", "decision")
        try:
            name, number = question.recording, question.decision
            return await in_thread(lambda wanted: api.recordings.whole(name, number, PUT_TOGETHER, wanted))
        except KeyError:
            raise Refused(422, "no such recording", "recording") from None
        except RecordingError as error:
            raise Refused(422, f"the recorded cycle cannot be decided again: {error}", "decision") from None
    if question.decision is None:
        return api.scene(moment), moment.tally.now
    found = api.mirror.scene(question.decision)
    if found is None:
        raise Refused(422, "no such decision that is still known", "decision")
    return found
