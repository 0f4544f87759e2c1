"""Host ports: a part of `predicates`. A node gives each of its ports to one pod only."""

from __future__ import annotations

import numpy as np

from maar.model.shapes import Shape
from maar.plugins.support.neighbours import Neighbours
from maar.session.hooks import Limit, Obstacle, Rejection


class HostPorts:
    """Room for a shape with host ports: one pod per node, if none of its ports is in use."""

    def __init__(self, shape: Shape, neighbours: Neighbours, nodes: int) -> None:
        self._neighbours = neighbours
        self._nodes = nodes
        self._conflicts = dict.fromkeys(other for port in shape.ports for other in neighbours.conflicting(port))
        numbers = sorted({port.port for port in shape.ports})
        self._words = "already use its host port: " + ", ".join(map(str, numbers))

    def limit(self, later: bool) -> Limit:
        """Nodes on which the ports are free."""
        taken = np.zeros(self._nodes, dtype=np.bool_)
        obstacles: list[Obstacle] = []
        for other in self._conflicts:
            counts = self._neighbours.counts(other, later)
            if counts is not None:
                taken |= counts > 0
                if later and counts.any():
                    obstacles.append(self._neighbours.obstacle(other, counts))
        room = (~taken).astype(np.int64)
        cleared = np.ones_like(room) if obstacles else None
        causes = (Rejection("NodePorts", self._words, taken),)
        return Limit(room, coupled=False, causes=causes, obstacles=tuple(obstacles), cleared=cleared)
