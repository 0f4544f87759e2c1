"""Reasons: why a job waits, as data and as one line of text.

A `Refusal` is of nodes, and is made by the plugin that refuses them. A `Reason` is of a job, and leaves in the plan:
it names the plugin that refused, a code that scripts can rely on, and the obstacle: a resource, the nodes counted by
cause, a quota or a share, and since when. The message is made from the same facts, so it changes whenever other jobs
come and go. What is written on objects is `lasting`: what the job itself needs, which they do not change.
"""

from __future__ import annotations

import msgspec
import numpy as np

from maar.model.codes import Code, Meaning
from maar.model.resources import Mask
from maar.model.text import LONGEST_MESSAGE, quoted

_NOWHERE: Mask = np.zeros(0, dtype=np.bool_)


class Refusal(msgspec.Struct, frozen=True):
    """The nodes that one plugin refuses, for one cause."""

    plugin: str
    """The plugin that refuses them."""
    code: Code
    """As the plugin declares it: the condition, what lasts, what its owner can do."""
    words: str
    """Completes `188 ...`: `tainted`, `do not match the node selector`."""
    nodes: Mask = _NOWHERE


class Never(msgspec.Struct, frozen=True):
    """Why a job can never start as things are."""

    code: str
    message: str
    """What it needs, what there is, and what would have to change: nothing that other jobs change."""

    def __post_init__(self) -> None:
        _quote(self, "message", self.message)


class Reason(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why one job waits."""

    plugin: str
    code: str
    message: str
    resource: str = ""
    needs: int | None = None
    has: int | None = None
    """The most that is available of the resource: on the best node, or left under the quota."""
    limit: int | None = None
    """The quota or share that refused the job."""
    nodes: dict[str, int] = {}
    """The number of refused nodes by cause."""
    queue: str = ""
    since: float | None = None
    """When the job began to wait."""
    never: Never | None = None
    """The proof that the job cannot start on today's nodes and limits, whatever else leaves; `None`: not yet."""
    lasting: str = ""
    """The message without anything that other jobs change; empty: the message has nothing of the kind."""
    meaning: Meaning | None = None
    """What the plugin declares of the code; `None`: the core knows it, or nobody declares it. Not shown in plans."""

    def __post_init__(self) -> None:
        _quote(self, "message", self.message)
        _quote(self, "lasting", self.lasting)

    @property
    def on_objects(self) -> str:
        """The text that is written on objects."""
        return self.lasting or self.message if self.never is None else self.never.message

    @property
    def words(self) -> str:
        """The text for people who ask now."""
        return self.message if self.never is None else self.never.message


def _quote(struct: Never | Reason, field: str, text: str) -> None:
    """Make the text harmless, once for all who read it: it quotes what tenants write."""
    if len(text) > LONGEST_MESSAGE or not text.isprintable():
        msgspec.structs.force_setattr(struct, field, quoted(text))


UNREAD = Reason("maar", "Unread", "waits; reasons are not collected in this run")


def in_one_line(reasons: tuple[Reason, ...]) -> str:
    """All reasons of one job in one line, without repetitions."""
    return "; ".join(dict.fromkeys(r.words for r in reasons))
