"""Which devices the selectors of classes and claims match: the input of the decision.

An expression is compiled once, and evaluated once for each distinct set of what it names of a device; what it said is
kept until the process ends or other expressions need the room. So the cost is that of new expressions and new kinds of
devices. An expression or a namespace that is slow pays for itself only: what it has no time left for is an error of its
own claims.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable

from maar.kube.read.claims.expressions import CelExpression, ExpressionError, unreadable
from maar.model.devices.claim import DeviceClass, Selected, Selectors
from maar.model.devices.device import Device, DeviceId

KEPT = 2048
"""Expressions whose values are kept; tuned by hand. A cluster has a few; anyone may write many."""
KEPT_VALUES = 1_000_000
"""Values that are kept, of all expressions: some 200 MB if all devices differ. Tuned by hand."""
SECONDS = 2.0
"""Time that new evaluations of one budget may take; tuned by hand. 40,000 devices that all differ take about one."""


class Budget:
    """Time for evaluations, usually of one namespace."""

    def __init__(self, seconds: float = SECONDS, clock: Callable[[], float] = time.perf_counter) -> None:
        self.left = seconds
        self._clock = clock

    def evaluate(self, expression: CelExpression, device: Device) -> bool:
        """Evaluate, at the expense of this budget."""
        if self.left <= 0:
            raise OutOfTime
        start = self._clock()
        try:
            return expression.matches(device)
        finally:
            self.left -= self._clock() - start


class OutOfTime(Exception):
    """The budget is used up."""


class _Known:
    """A compiled expression, and what it said."""

    __slots__ = ("error", "expression", "values")

    def __init__(self, text: str) -> None:
        self.expression: CelExpression | None = None
        self.error = ""
        self.values: dict[object, bool | str] = {}
        try:
            self.expression = CelExpression(text)
        except ExpressionError as error:
            self.error = str(error)


class Selecting:
    """All expressions of a process."""

    def __init__(self, kept: int = KEPT, kept_values: int = KEPT_VALUES) -> None:
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._kept = kept
        self._kept_values = kept_values
        self._values = 0
        self.evaluations = 0
        """How many values were computed, not found."""

    def selected(
        self, wanted: Selectors, device_class: DeviceClass, devices: Iterable[Device], budget: Budget
    ) -> Selected:
        """The devices that match all selectors of a class and then all expressions of a request."""
        left = list(devices)
        errors: dict[DeviceId, str] = {}
        places = [
            *((f"device class `{device_class.name}`: selectors[{i}]", e) for i, e in enumerate(device_class.selectors)),
            *((f"selectors[{i}]", e) for i, e in enumerate(wanted.expressions)),
        ]
        for first, (place, text) in enumerate(places):
            known = self._find(text)
            if known.expression is None:
                if not first and left:
                    return Selected(error=f"{place}: {known.error}")
                errors.update((device.id, f"{place}: {known.error}") for device in left)
                left = []
                break
            matching = []
            for device in left:
                said = unreadable(device) or self._say(known, known.expression, device, budget)
                if said is True:
                    matching.append(device)
                elif said is not False:
                    errors[device.id] = f"{place}: device `{device.id}`: {said}"
            left = matching
        return Selected(frozenset(device.id for device in left), errors)

    def _find(self, text: str) -> _Known:
        known = self._known.get(text)
        if known is None:
            known = self._known[text] = _Known(text)
            if len(self._known) > self._kept:
                self._forget()
        self._known.move_to_end(text)
        return known

    def _say(self, known: _Known, expression: CelExpression, device: Device, budget: Budget) -> bool | str:
        key = expression.key(device)
        said = known.values.get(key)
        if said is not None:
            return said
        try:
            said = budget.evaluate(expression, device)
        except ExpressionError as error:
            said = str(error)
        except OutOfTime:
            return "no time left: the expressions of the namespace take too long"
        known.values[key] = said
        self.evaluations += 1
        self._values += 1
        while self._values > self._kept_values and len(self._known) > 1:
            self._forget()
        return said

    def _forget(self) -> None:
        """Forget the expression that was asked for longest ago."""
        _, known = self._known.popitem(last=False)
        self._values -= len(known.values)
