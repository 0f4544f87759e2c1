"""Safety and liveness of `reclaim` on small random scenes with two queues, against brute force over all victims."""

from __future__ import annotations

from tests.support.reclaims import worse

SCENES = 500
"""In `make fuzz` 10,000."""


def test_safety_no_choice_of_the_same_cost_leaves_a_queue_less_far_below_its_share() -> None:
    """Nor does a claim within its share get nothing while some victims may go for it."""
    assert [] == [problem for seed in range(SCENES) if (problem := worse(seed))]
