"""The pauses between tries."""

from collections.abc import Callable


def _whole(_: float, ceiling: float) -> float:
    return ceiling


class Backoff:
    """Pauses that double up to a ceiling; `draw` may take each from the range below it, such as `Random.uniform`."""

    __slots__ = ("_draw", "_first", "_most", "tries")

    def __init__(self, first: float, most: float, draw: Callable[[float, float], float] = _whole) -> None:
        self._first = first
        self._most = most
        self._draw = draw
        self.tries = 0

    def next(self) -> float:
        """The next pause, in seconds."""
        ceiling = min(self._most, self._first * 2 ** min(self.tries, 32))  # 2**32 is beyond any ceiling
        self.tries += 1
        return self._draw(0, ceiling)

    def reset(self) -> None:
        """Start again at the first pause."""
        self.tries = 0
