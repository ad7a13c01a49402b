"""Times as people read them: how long ago, with the exact time and its zone behind.

A script of ours (`static/times.js`) writes both again in the zone of the reader, with the same rules.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from markupsafe import Markup

MINUTE: Final = 60
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
WEEK: Final = 7 * DAY


def when(at: int) -> Markup:
    """How long ago a time in ms was."""
    return _time(at, "when", lambda moment: ago(time.time() - at / 1000, moment))


def clock(at: int) -> Markup:
    """The time of day of a time in ms."""
    return _time(at, "clock", lambda moment: f"{moment.astimezone():%H:%M:%S}")


def due(at: int) -> Markup:
    """The day and the time of day of a time in ms, which may lie ahead."""
    return _time(at, "due", lambda moment: f"{moment.astimezone():%Y-%m-%d %H:%M}")


def _time(at: int, kind: str, text: Callable[[datetime], str]) -> Markup:
    """A time in some form, with the exact one behind; the number where no calendar has it."""
    try:
        moment = datetime.fromtimestamp(at / 1000, UTC)
        exact = moment.astimezone().strftime("%A, %d %B %Y, %H:%M:%S %Z")
    except (OverflowError, ValueError, OSError):
        return Markup("{}").format(at)
    return Markup('<time class="{}" datetime="{}" title="{}">{}</time>').format(
        kind, moment.isoformat(timespec="seconds"), exact, text(moment)
    )


def ago(seconds: float, moment: datetime) -> str:
    """A time that was so many seconds ago, in a word or two; the day where that says more."""
    if seconds < MINUTE:
        return "now"
    for end, unit, name in ((HOUR, MINUTE, "min"), (DAY, HOUR, "h"), (WEEK, DAY, "d")):
        if seconds < end:
            return f"{int(seconds // unit)} {name} ago"
    return moment.astimezone().strftime("%-d %b %Y")
