"""Points in time as people type them: `2026-11-21`, `2026-11-21 14:30`, `today`, `yesterday`, `2 days ago`, `90m`.

A time without a zone is the local one.
"""

import re
from datetime import datetime, timedelta
from typing import Final

from tenex.core.errors import UsageError
from tenex.core.ids import Millis

EXAMPLES: Final = "2026-11-21, '2026-11-21 14:30', today, yesterday, '2 days ago', 90m"

_DAY: Final = timedelta(days=1)
_AGO: Final = re.compile(
    r"(\d+)\s*(m|min|minutes?|h|hours?|d|days?|w|weeks?)(\s+ago)?", re.IGNORECASE | re.ASCII
)  # no months: nobody means the same number of days by one
_DATE: Final = re.compile(
    r"\d{4}-\d\d-\d\d(?P<time>[ t]\d\d:\d\d(?P<second>:\d\d(\.\d{1,6})?)?(z|[+-]\d\d:\d\d)?)?", re.ASCII
)
_UNITS: Final = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": _DAY, "w": timedelta(weeks=1)}


def since(text: str, now: datetime) -> Millis:
    """When it begins, what somebody typed: a day begins at its midnight.

    Raises:
        UsageError: that is no point in time.
    """
    return _millis(text, _read(text, now)[0])


def until(text: str, now: datetime) -> Millis:
    """When it is over, what somebody typed: a day is meant with all its hours, a minute with all its seconds.

    Raises:
        UsageError: that is no point in time.
    """
    start, length = _read(text, now)
    try:
        return _millis(text, start + length)
    except OverflowError as fault:
        raise _no_time(text) from fault


def _read(text: str, now: datetime) -> tuple[datetime, timedelta]:
    """A local time, and how long what was named lasts."""
    words = " ".join(text.split()).lower()
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    named = {"now": (now, timedelta(0)), "today": (midnight, _DAY), "yesterday": (midnight - _DAY, _DAY)}
    if words in named:
        return named[words]
    date = _DATE.fullmatch(words)
    try:
        if ago := _AGO.fullmatch(words):
            return now - int(ago[1]) * _UNITS[ago[2][0]], timedelta(0)
        if date:
            length = timedelta(seconds=1) if date["second"] else timedelta(minutes=1) if date["time"] else _DAY
            return datetime.fromisoformat(words.upper()), length
    except (ValueError, OverflowError) as fault:
        raise _no_time(text) from fault
    raise _no_time(text)


def _millis(text: str, moment: datetime) -> Millis:
    try:
        return Millis(int(moment.timestamp() * 1000))
    except (ValueError, OverflowError, OSError) as fault:
        raise _no_time(text) from fault


def _no_time(text: str) -> UsageError:
    return UsageError(f"{text[:40]!r} is no point in time; give one like {EXAMPLES}.")
