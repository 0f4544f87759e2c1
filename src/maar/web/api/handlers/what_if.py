"""What `POST what-if` answers. Nothing is written."""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial

from msgspec.structs import replace

from maar.controller.record import RecordingError
from maar.views.answers import ShiftsView, WhatIfView
from maar.web.api.answers import WhatIfAnswer
from maar.web.api.asking import Question, answered, namespaces_of
from maar.web.api.desk import NO_FORECASTS, Api1, Asked
from maar.web.api.errors import Refused
from maar.web.api.mirror import Moment
from maar.web.forecasting.process import Failed
from maar.web.forecasting.view import with_shifts
from maar.whatif.edit import Scene

logger = logging.getLogger("maar.web")

PUT_TOGETHER = 15.0
"""Seconds for the whole cluster of one recorded cycle. Tuned by hand."""


async def what_if(api: Api1, asked: Asked) -> WhatIfAnswer:
    question: Question = asked.body
    moment = asked.moment
    async with api.guard.computing(asked.user.username):
        scene, now = await _asked_about(api, question, moment)
        names = moment.tally.namespaces
        if question.recording:
            names |= {job.namespace for job in scene.cluster.jobs}
        sight = await api.access.sight(asked.user, names) if question.recording else asked.sight
        make = partial(
            answered,
            question,
            scene.cluster,
            scene.config,
            now,
            beside=api.beside(),
            standing=scene.standing,
        )
        try:
            try:
                view, after = await asyncio.to_thread(make, sight=sight)
            except Refused as refused:
                # A namespace without jobs: whether she may see it has not been asked yet.
                more = namespaces_of(question.manifests) - names if refused.status == 403 else None
                if not more:
                    raise
                sight = await api.access.sight(asked.user, names | more)
                view, after = await asyncio.to_thread(make, sight=sight)
        except Refused:
            raise
        except Exception as error:
            # A combination of edits that no decision can be made for. The text may have names: it is not shown.
            logger.warning("a what-if question failed: %s", type(error).__name__)
            raise Refused(422, "no decision can be made with these edits", "edits") from None
    view = await _with_shifts(api, view, replace(asked, sight=sight), scene, after)
    return WhatIfAnswer(**api.stamp(moment), what_if=view)


async def _with_shifts(api: Api1, view: WhatIfView, asked: Asked, before: Scene, after: Scene) -> WhatIfView:
    """The answer with the forecast starts of waiting jobs, without and with the edits."""
    keeper, question = api.keeper, asked.body
    if keeper is None or not question.seconds:
        words = NO_FORECASTS if keeper is None else "none was asked for"
        return replace(view, forecast=ShiftsView(words=words))
    if question.decision is not None:
        return replace(view, forecast=ShiftsView(words="an earlier decision has no forecast"))
    try:
        async with api.guard.computing(asked.user.username, forecast=True) as bill:
            answer = await keeper.compare(before, after, time.time(), question.seconds)
            bill.seconds = answer.cpu
    except Refused as refused:
        return replace(view, forecast=ShiftsView(words=refused.view.error))
    except Failed as error:
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
            return await asyncio.to_thread(api.recordings.whole, question.recording, question.decision, PUT_TOGETHER)
        except KeyError:
            raise Refused(422, "no such recording", "recording") from None
        except RecordingError as error:
            raise Refused(422, f"the recorded cycle cannot be decided again: {error}", "decision") from None
    if question.decision is None:
        return Scene(api.mirror.cluster(), moment.config), moment.tally.now
    found = api.mirror.scene(question.decision)
    if found is None:
        raise Refused(422, "no such decision that is still known", "decision")
    return found
