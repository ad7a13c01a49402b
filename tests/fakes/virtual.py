"""Virtual time: an event loop whose clock jumps to the next timer when nothing else is to do.

Only for flows without sockets and threads: whatever waits for the real world would be overtaken by time.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from tenex.core.ids import Millis

P = ParamSpec("P")
T = TypeVar("T")


class _Jump(selectors.SelectSelector):
    loop: "VirtualLoop"

    def select(self, timeout: float | None = None) -> Any:
        events = super().select(0)
        if not events and timeout:
            self.loop.elapsed += timeout
        if not events and timeout is None:
            raise RuntimeError("nothing will ever happen again in this loop")
        return events


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        selector = _Jump()
        selector.loop = self
        self.elapsed = 0.0
        super().__init__(selector)

    def time(self) -> float:
        return self.elapsed


class VirtualClock:
    def __init__(self, epoch: int = 1_700_000_000_000) -> None:
        self.epoch = epoch

    def now(self) -> Millis:
        return Millis(self.epoch + int(asyncio.get_running_loop().time() * 1000))

    async def sleep_until(self, due: Millis) -> None:
        await asyncio.sleep(max(0, due - self.now()) / 1000)


def run(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main())


def virtual_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    @wraps(test)
    def on_virtual_time(*args: P.args, **kwargs: P.kwargs) -> None:
        run(lambda: test(*args, **kwargs))

    return on_virtual_time
