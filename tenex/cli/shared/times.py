"""Points in time and durations: as users type them, and as commands print them.

A user types `2026-11-21`, `2026-11-21 14:30`, `today`, `yesterday`, `2 days ago` or `90m`; local time unless a zone is
given.
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
)  # no months: they differ in length
_DATE: Final = re.compile(
    r"\d{4}-\d\d-\d\d(?P<time>[ t]\d\d:\d\d(?P<second>:\d\d(\.\d{1,6})?)?(z|[+-]\d\d:\d\d)?)?", re.ASCII
)
_UNITS: Final = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": _DAY, "w": timedelta(weeks=1)}


def since(text: str, now: datetime) -> Millis:
    """The beginning of what was typed: a day begins at midnight.

    Raises:
        UsageError: it is not a point in time.
    """
    return _millis(text, _parse(text, now)[0])


def until(text: str, now: datetime) -> Millis:
    """The end of what was typed: a day counts with all its hours, a minute with all its seconds.

    Raises:
        UsageError: it is not a point in time.
    """
    start, length = _parse(text, now)
    try:
        return _millis(text, start + length)
    except OverflowError as error:
        raise _invalid(text) from error


def _parse(text: str, now: datetime) -> tuple[datetime, timedelta]:
    """A local time, and the duration of what was named."""
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
    except (ValueError, OverflowError) as error:
        raise _invalid(text) from error
    raise _invalid(text)


def _millis(text: str, moment: datetime) -> Millis:
    try:
        return Millis(int(moment.timestamp() * 1000))
    except (ValueError, OverflowError, OSError) as error:
        raise _invalid(text) from error


def _invalid(text: str) -> UsageError:
    return UsageError(f"{text[:40]!r} is not a point in time. Examples: {EXAMPLES}.")


def local_time(at: Millis, *, seconds: bool = False) -> str:
    """A time in the local zone; the number where a wrong clock made it unprintable."""
    try:
        return datetime.fromtimestamp(at / 1000).astimezone().strftime(f"%Y-%m-%d %H:%M{':%S' if seconds else ''}")
    except (OverflowError, ValueError, OSError):
        return str(at)
