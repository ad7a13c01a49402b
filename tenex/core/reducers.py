"""How reducers are written: a function for one part of the state and the classes of record that change it."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from tenex.core.record import Record
from tenex.core.state import State

Part = TypeVar("Part")
R = TypeVar("R", bound=Record)

Reducer = Callable[[Part, R, State], Part]
"""The new value of a part, given the one before, the record, and the whole state before it.

No reducer sees what another has made of the same record, so their order has no meaning. Each costs the same however
long the history is.
"""


class Reducers(Generic[Part]):
    """What each class of record does to one part of the state."""

    __slots__ = ("_by_record", "part")

    def __init__(self, part: str) -> None:
        self.part = part
        """The name of the part in `State`."""
        self._by_record: dict[type[Record], Reducer[Part, Any]] = {}

    def on(self, *records: type[Record]) -> Callable[[Reducer[Part, Any]], Reducer[Part, Any]]:
        """Register the function below for these classes of record."""

        def register(reduce: Reducer[Part, Any]) -> Reducer[Part, Any]:
            for record in records:
                self.add(record, reduce)
            return reduce

        return register

    def add(self, record: type[Record], reduce: Reducer[Part, Any]) -> None:
        """Register a function for a class of record.

        Raises:
            ValueError: there is one already.
        """
        if record in self._by_record:
            raise ValueError(f"{self.part} has two reducers for {record.__name__}")
        self._by_record[record] = reduce

    def get(self, record: type[Record]) -> Reducer[Part, Any] | None:
        """The function for a class of record; None where it does not change the part."""
        return self._by_record.get(record)
