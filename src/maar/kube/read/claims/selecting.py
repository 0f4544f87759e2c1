"""Which devices the selectors of classes and claims match: the input of the decision.

An expression is compiled once, and evaluated once for each distinct set of what it names of a device; what it said is
kept until other expressions need the room. So the cost is that of new expressions and new kinds of devices. It is paid
from a budget, usually that of a namespace: selectors for which no time is left are an error of their own claims, and
the next attempt goes on from what is known by then.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from maar.kube.read.claims.expressions import CelExpression, ExpressionError, unreadable
from maar.model.devices.claim import DeviceClass, Selected, Selectors
from maar.model.devices.device import Device, DeviceId

KEPT = 2048
"""Expressions whose values are kept; tuned by hand. A cluster has a few; anyone may write many."""
KEPT_VALUES = 1_000_000
"""Values that are kept, of all expressions: some 200 MB if all devices differ. Tuned by hand."""
SECONDS = 2.0
"""Time that one budget has; tuned by hand. Two expressions about 40,000 devices take 0.3 s, about one second if all
devices differ in what the expressions name."""
NO_TIME = "no time left: the expressions of the namespace take too long"


class Budget:
    """Time for selectors."""

    def __init__(self, seconds: float = SECONDS, clock: Callable[[], float] = time.perf_counter) -> None:
        self._left = seconds
        self._clock = clock
        self._began = 0.0

    @contextmanager
    def spending(self) -> Iterator[None]:
        """What is done within is paid from the budget."""
        self._began = self._clock()
        try:
            yield
        finally:
            self._left -= self._clock() - self._began

    def check(self) -> None:
        """Raise `OutOfTime` if the budget is used up."""
        if self._clock() - self._began >= self._left:
            raise OutOfTime


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
        with budget.spending():
            try:
                return self._selected(wanted, device_class, list(devices), budget)
            except OutOfTime:
                return Selected(error=NO_TIME)

    def _selected(self, wanted: Selectors, of: DeviceClass, left: list[Device], budget: Budget) -> Selected:
        errors: dict[DeviceId, str] = {}
        places = [(f"device class `{of.name}`: selectors[{i}]", text) for i, text in enumerate(of.selectors)]
        places += [(f"selectors[{i}]", text) for i, text in enumerate(wanted.expressions)]
        for place, text in places:
            if not left:
                break
            budget.check()
            known = self._find(text)
            if known.expression is None:
                if not errors and (place, text) == places[0]:
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
        budget.check()
        try:
            said = expression.matches(device)
        except ExpressionError as error:
            said = str(error)
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
