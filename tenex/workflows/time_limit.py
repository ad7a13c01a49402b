"""Asks code that somebody wrote for a condition or a target, and gives it up where it does not return.

Such code is asked in the midst of a decision, where everything else waits for it. So it is asked in the thread of the
event loop, the main one, under an alarm: it is cut off wherever it is, in a loop or asleep, and has failed as if it had
raised. In any other thread nothing can cut it off, and it is asked as it is.
"""

import signal
import threading
from collections.abc import Callable
from typing import Any, Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

LONGEST: Final = 1.0
"""Seconds: a condition looks at values and takes microseconds; no decision should wait longer for one."""
AGAIN: Final = 0.05
"""Seconds until code that has caught the alarm gets it again."""


class _Alarm(BaseException):
    """Cuts code off; no `except Exception` of its own catches that."""


def in_time(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What a function returns; whatever alarm the process had set is set again afterwards.

    Raises:
        TimeoutError: it took longer than `LONGEST` and was cut off.
    """
    if threading.current_thread() is not threading.main_thread():
        return function(*args, **kwargs)
    is_on = True
    has_rung = False

    def ring(_number: int, _frame: Any) -> None:
        nonlocal has_rung
        if is_on:
            has_rung = True
            raise _Alarm

    handler, timer = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)
    try:
        try:
            signal.signal(signal.SIGALRM, ring)
            signal.setitimer(signal.ITIMER_REAL, LONGEST, AGAIN)
            return function(*args, **kwargs)
        finally:
            is_on = False
    except (_Alarm, Exception):  # cut off within its own cleanup, code may fail in another way
        if not has_rung:
            raise
        raise TimeoutError(f"it took longer than {LONGEST:g} s and was given up") from None
    finally:
        is_on = False  # the alarm may have come before the line above that sets it
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, handler)
