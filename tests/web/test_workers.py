"""What a worker of `maar web` knows: the plan of the shadow comes with the scene, and is not decided again."""

from __future__ import annotations

import io
import pickle

from maar.config.file import default_config
from maar.model.plan import Plan, Wait
from maar.model.reasons import Reason
from maar.registry import catalog
from maar.testing.builders import cluster, gang, node
from maar.web.forecasting.messages import PART, Parts, read_plan
from maar.web.workers.tasks import About, WhyWaits
from maar.whatif.edit import Scene

SCENE = Scene(cluster(node("n1", gpu=4), gang("mine", gpu=8)), default_config(catalog()))
SAID = Plan(waiting=(Wait("ns/mine", (Reason("maar", "Other", "as the shadow says"),)),))


def test_the_plan_that_came_with_the_scene_is_the_answer() -> None:
    answer = WhyWaits("ns/mine", 100.0, 0.0).answer(About(SCENE, 100.0, SAID))
    assert ["as the shadow says"] == [reason.words for reason in answer.reasons]


def test_a_plan_of_another_time_is_not() -> None:
    (reason,) = WhyWaits("ns/mine", 200.0, 0.0).answer(About(SCENE, 100.0, SAID)).reasons
    assert "as the shadow says" != reason.words


def test_questions_about_one_time_share_a_decision() -> None:
    about = About(SCENE)
    first = about.before(100.0)
    assert first is about.before(100.0)
    assert first is not about.before(101.0)


def test_a_plan_is_sent_in_parts() -> None:
    waits = tuple(Wait(f"ns/job-{i}", ()) for i in range(PART + 1))
    for at, plan in ((5.0, Plan(waiting=waits)), (None, None)):
        data = list(Parts().plan(at, plan))
        assert (at, plan) == read_plan(pickle.Unpickler(io.BytesIO(b"".join(data))))
