"""Host ports: a part of `predicates`. A node gives each of its ports to one pod only."""

from __future__ import annotations

import numpy as np

from maar.model.codes import NODES, Code
from maar.model.reasons import Refusal
from maar.model.shapes import Shape
from maar.plugins.support.names import PREDICATES
from maar.plugins.support.neighbours import Neighbours, Placed
from maar.session.hooks import Limit

TAKEN = Code("NodePorts", NODES)


class HostPorts:
    """Room for a shape with host ports: one pod per node, if none of its ports is in use."""

    def __init__(self, shape: Shape, neighbours: Neighbours, nodes: int) -> None:
        self._nodes = nodes
        self._conflicts = dict.fromkeys(other for port in shape.ports for other in neighbours.conflicting(port))
        numbers = sorted({port.port for port in shape.ports})
        self._words = "already use its host port: " + ", ".join(map(str, numbers))

    def limit(self, there: Placed) -> Limit:
        """Nodes on which the ports are free."""
        taken = np.zeros(self._nodes, dtype=np.bool_)
        for other in self._conflicts:
            counts = there.counts(other)
            if counts is not None:
                taken |= counts > 0
        causes = (Refusal(PREDICATES, TAKEN, self._words, taken),)
        return Limit((~taken).astype(np.int64), coupled=False, causes=causes, local=True)
