"""What a node's models cost, gathered while it runs: an agent that a node asks tells it here."""

from contextvars import ContextVar

from tenex.core.messages import Usage

METER: ContextVar["Meter | None"] = ContextVar("tenex_meter", default=None)
"""Of the node that runs, also for the tasks it begins."""


class Meter:
    """What was paid since it was last read, by model."""

    def __init__(self, outer: "Meter | None" = None) -> None:
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
        spent, self._spent = self._spent, {}
        return spent


def spent(usage: Usage, model: str) -> None:
    """Tell the node at work, if there is one, what an answer of a model has cost."""
    meter = METER.get()
    if meter is not None:
        meter.add(usage, model)
