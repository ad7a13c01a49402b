"""Whom the daemon notifies, by the service manager's variables."""

import os

import pytest

from tenex.service.notify import Notifier

OURS, OTHER = str(os.getpid()), "1"


@pytest.mark.parametrize(
    ("environment", "is_connected", "watchdog"),
    [
        ({}, False, None),
        ({"NOTIFY_SOCKET": ""}, False, None),
        ({"NOTIFY_SOCKET": "/run/notify"}, True, None),
        ({"NOTIFY_SOCKET": "@notify"}, True, None),
        ({"NOTIFY_SOCKET": "vsock:2:1234"}, False, None),
        ({"NOTIFY_SOCKET": "/run/notify", "WATCHDOG_USEC": "60000000"}, True, 60.0),
        ({"NOTIFY_SOCKET": "/run/notify", "WATCHDOG_USEC": "500000", "WATCHDOG_PID": OURS}, True, 0.5),
        ({"NOTIFY_SOCKET": "/run/notify", "WATCHDOG_USEC": "500000", "WATCHDOG_PID": OTHER}, True, None),
        ({"NOTIFY_SOCKET": "/run/notify", "WATCHDOG_USEC": "0"}, True, None),
        ({"NOTIFY_SOCKET": "/run/notify", "WATCHDOG_USEC": "soon"}, True, None),
        ({"WATCHDOG_USEC": "60000000"}, False, None),
    ],
)
def test_the_environment_names_the_listener(
    environment: dict[str, str], is_connected: bool, watchdog: float | None
) -> None:
    notifier = Notifier.from_environment(environment, os.getpid())
    assert (notifier.is_connected, notifier.watchdog) == (is_connected, watchdog)


async def test_nothing_is_done_without_a_listener() -> None:
    """No notification, no task that stays, no look at the status."""

    def line() -> str:
        raise AssertionError("not to be called")

    notifier = Notifier()
    notifier.ready("well")
    notifier.reloading()
    notifier.stopping(within=10)
    await notifier.keep_up(line)
