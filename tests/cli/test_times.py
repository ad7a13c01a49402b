"""Points in time as people type them."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import pytest

from tenex.cli.shared.times import since, until
from tenex.core.errors import UsageError

OTHER_FORMS = ("11/21", "20261121", "2026-11-21 14", "3 months ago")
NOW = datetime(2026, 11, 21, 15, 30, 12, tzinfo=timezone(timedelta(hours=1)))


@pytest.fixture(autouse=True)
def _berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Europe/Berlin")
        time.tzset()
        yield
    time.tzset()


def utc(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%d %H:%M:%S")


@pytest.mark.parametrize(
    ("text", "begins", "is_over"),
    [
        ("2026-11-21", "20 23:00:00", "21 23:00:00"),
        ("2026-07-01", "30 22:00:00", "01 22:00:00"),
        ("2026-11-21 14:30", "21 13:30:00", "21 13:31:00"),
        ("2026-11-21T14:30Z", "21 14:30:00", "21 14:31:00"),
        ("2026-11-21 14:30:05.5+02:00", "21 12:30:05", "21 12:30:06"),
        (" Yesterday ", "19 23:00:00", "20 23:00:00"),
        ("now", "21 14:30:12", "21 14:30:12"),
        ("2 days ago", "19 14:30:12", "19 14:30:12"),
        ("90m", "21 13:00:12", "21 13:00:12"),
        ("3 Hours", "21 11:30:12", "21 11:30:12"),
    ],
)
def test_what_is_named_begins_and_is_over(text: str, begins: str, is_over: str) -> None:
    assert (utc(since(text, NOW)), utc(until(text, NOW))) == (begins, is_over)


@pytest.mark.parametrize("text", ["", "soon", *OTHER_FORMS, "2026-02-30", "9999-12-31", "99999999999 days ago"])
def test_what_is_no_time_is_refused_with_examples(text: str) -> None:
    with pytest.raises(UsageError, match=r"is not a point in time\. Examples: 2026-11-21"):
        until(text, NOW)
