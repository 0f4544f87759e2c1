"""Writes for the executor, each as plain data, and what one attempt at each means.

Those in `guarded` are dangerous and need more than one attempt. The ones here may be repeated, and may arrive late.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from maar.kube.client import errors
from maar.kube.client.api import Api, PatchKind
from maar.kube.write.guarded import Guarded
from maar.kube.write.outcomes import Again, Done, Failed

SUBRESOURCES = ("status", "scale", "resize", "ephemeralcontainers")


@dataclass(frozen=True, slots=True)
class Patch:
    """Change a part of an object or of its status."""

    path: str
    body: bytes | dict[str, Any] | list[Any]
    kind: PatchKind = "merge"

    @property
    def key(self) -> str:
        """The object, whichever subresource is written."""
        path, _, last = self.path.rpartition("/")
        return path if last in SUBRESOURCES else self.path


@dataclass(frozen=True, slots=True)
class Create:
    """Create an object with a given name."""

    path: str
    name: str
    body: bytes | dict[str, Any]

    @property
    def key(self) -> str:
        return f"{self.path}/{self.name}"


class Own(ABC):
    """A write that defines its own attempt."""

    __slots__ = ()

    @property
    @abstractmethod
    def key(self) -> str:
        """The object that is written to."""

    @abstractmethod
    async def once(self, api: Api) -> Done | Failed | Again:
        """One attempt; its errors mean the same as those of all other writes."""


Work = Guarded[Any] | Patch | Create | Own


async def attempt(api: Api, work: Patch | Create | Own, earlier: int = 0) -> Done | Failed | Again:
    """Try once, after this number of earlier attempts."""
    try:
        match work:
            case Patch(path, body, kind):
                return Done(body=await api.patch(path, body, kind))
            case Create(path, _, body):
                await api.create(path, body)
            case Own():
                return await work.once(api)
        return Done()
    except errors.NotLeading:
        raise
    except errors.AlreadyExists as error:
        return Done() if earlier else Failed(error)
    except (errors.Unreachable, errors.ServerFault, errors.TooManyRequests, errors.Unauthorized) as error:
        return Again(error)
    except errors.ApiError as error:
        return Failed(error)
