"""Endless runs of a small graph: which of them are fair."""

from __future__ import annotations

import numpy as np
from tests.shards.model.starving import Duties, Graph

ROUND = [(0, 1, "kubelets: a pod ends"), (1, 0, "API server: binds it")]
"""Two states in turn."""


def starving(*steps: tuple[int, int, str], good: int = 2) -> list[int]:
    """A fair endless run that never comes to the good state."""
    duties = Duties()
    source, target = (np.array([step[end] for step in steps], np.int64) for end in (0, 1))
    kind = np.array([duties.number(text) for _, _, text in steps], np.int64)
    states = max(source.max(), target.max(), good) + 1
    return Graph(int(states), source, target, kind, duties).starving(np.arange(states) != good)


def test_a_round_without_a_way_out_is_endless() -> None:
    assert [0, 1, 0] == starving(*ROUND)


def test_the_api_server_does_what_is_possible_again_and_again() -> None:
    assert [] == starving(*ROUND, (1, 2, "API server: binds the gang"))


def test_a_process_may_be_late_for_what_is_possible_again_and_again() -> None:
    assert [0, 1, 0] == starving(*ROUND, (1, 2, "A1: announces the gang"))


def test_a_process_does_what_is_possible_all_the_time() -> None:
    out = [(state, 2, "A1: announces the gang") for state in (0, 1)]
    assert [] == starving(*ROUND, *out)


def test_the_round_passes_a_state_in_which_a_process_cannot_do_what_it_never_does() -> None:
    """It could be done in states 0 and 1 all the time, so a fair run must pass state 3."""
    out = [(state, 2, "A1: announces the gang") for state in (0, 1)]
    found = starving(ROUND[0], (1, 0, "B1: uses n0"), (1, 3, "B1: uses n1"), (3, 0, "B1: uses n2"), *out)
    assert 3 in found
    assert 0 == found[0] == found[-1]


def test_any_announcement_of_a_process_is_its_next_one() -> None:
    assert [0, 1, 0] == starving((0, 1, "A1: announces a pod"), ROUND[1], (0, 2, "A1: announces the gang"))


def test_answers_are_not_lost_for_ever() -> None:
    assert [] == starving((0, 1, "A1: gets no answer"), ROUND[1], (0, 2, "A1: announces the gang"))


def test_a_pause_does_not_end_while_others_can_do_something() -> None:
    pauses = [(0, 1, "A1: writes into its Shard: a want ends"), (1, 0, "time: the pause ends")]
    assert [] == starving(*pauses, (1, 2, "B1: announces a pod"))
    assert [0, 1, 0] == starving(*pauses)


def test_a_run_goes_on_without_states_from_which_it_must_leave() -> None:
    """State 1 is left for sure. States 0 and 3 can go on without it."""
    steps = [*ROUND, (1, 2, "user: goes"), (0, 3, "kubelets: b"), (3, 0, "API server: b")]
    assert [] == starving(*steps), "a pod ends again and again too"
    late = [(0, 1, "A1: uses n0"), (1, 0, "A1: uses n1"), *steps[2:]]
    assert [0, 3, 0] == starving(*late)
