"""What steps of missions and tools of agents share: whether one may run again, and what the models it asks cost."""

from contextvars import ContextVar
from typing import Literal

from tenex.core.messages import Usage

ReplayName = Literal["read", "idempotent", "once"]
"""The names of `core.config.Replay`."""

METER: ContextVar["CostMeter | None"] = ContextVar("tenex_meter", default=None)
"""Of the node that runs, also for the tasks it begins."""


class CostMeter:
    """What was paid since it was last read, by model."""

    def __init__(self, outer: "CostMeter | None" = None) -> None:
        """Begin at nothing; what is added here is added to `outer` too."""
        self._outer = outer
        self._spent: dict[str, Usage] = {}

    def add(self, usage: Usage, model: str) -> None:
        """Something was paid."""
        if self._outer is not None:
            self._outer.add(usage, model)
        if usage.calls:
            self._spent[model] = self._spent[model] + usage if model in self._spent else usage

    def read(self) -> dict[str, Usage]:
        """What was paid; it counts from nothing again."""
        spent = self._spent
        self._spent = {}
        return spent


def spent(usage: Usage, model: str) -> None:
    """Report the cost of an answer to the running node, if there is one."""
    meter = METER.get()
    if meter is not None:
        meter.add(usage, model)
