"""Notifies the service manager of the daemon's state: `sd_notify(3)` over $NOTIFY_SOCKET.

Our own, because the protocol is one datagram of text; the packages for it load a C library or ask for systemd's.
"""

import socket
import time
from asyncio import sleep
from collections.abc import Callable, Mapping
from typing import Final, Self

from tenex.log import get_logger

log = get_logger(__name__)

STATUS_CHARACTERS: Final = 200
"""`systemctl status` shows one line."""
STATUS_EVERY: Final = 5.0
"""Seconds between two updates of the status line, which only humans read."""
PATIENCE: Final = 0.5
"""Seconds a full queue of the manager may hold us up: a READY that is dropped would cost the start."""


class Notifier:
    """The connection to the service manager; does nothing if there is none."""

    def __init__(self, address: str = "", watchdog: float | None = None) -> None:
        """Prepare.

        Args:
            address: a path, or a name that begins with `@` (abstract); empty: there is no service manager.
            watchdog: seconds after which the daemon is killed without a sign of life; None: never.
        """
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self.watchdog = watchdog
        self._is_failing = False

    @classmethod
    def from_environment(cls, environment: Mapping[str, str], pid: int) -> Self:
        """Listen to what systemd put into the environment; its watchdog may be meant for another process."""
        address = environment.get("NOTIFY_SOCKET", "")
        if address[:1] not in ("/", "@"):  # vsock and the like: not used for daemons
            return cls()
        usec = environment.get("WATCHDOG_USEC", "")
        whose = environment.get("WATCHDOG_PID", "")
        is_ours = usec.isdecimal() and int(usec) > 0 and whose in ("", str(pid))
        return cls(address, int(usec) / 1e6 if is_ours else None)

    @property
    def is_connected(self) -> bool:
        """Whether a service manager listens."""
        return bool(self._address)

    def ready(self, status: str = "") -> None:
        """Report that the daemon serves; also ends a reload, failed or not."""
        self._send("READY=1", *_status(status))

    def reloading(self) -> None:
        """Report that the configuration is being reloaded; `ready` must follow. `notify-reload` needs the time."""
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        self._send("RELOADING=1", f"MONOTONIC_USEC={now // 1000}", *_status("reloading the configuration"))

    def stopping(self, within: float) -> None:
        """Report that the daemon stops, and ask for so many seconds: its deadline may be later than the manager's."""
        self._send("STOPPING=1", f"EXTEND_TIMEOUT_USEC={int(within * 1e6)}", *_status("stopping in stages"))

    async def keep_up(self, status: Callable[[], str]) -> None:
        """Pet the watchdog and keep the status line true, until cancelled; returns at once without a service manager.

        To be run on the loop the daemon works on, and to be cancelled when its work ends: all of the flow is tasks of
        one group there, which live and die together. A loop that hangs is silent, and is ended by the service manager.

        Args:
            status: returns the status line, without blocking.
        """
        sent = ""
        while self.is_connected:
            line = _line(status)
            words = _status(line) if line != sent else []
            sent = line
            if self.watchdog is not None:
                words.append("WATCHDOG=1")
            self._send(*words)
            # at half of its time, as sd_watchdog_enabled(3) advises
            await sleep(STATUS_EVERY if self.watchdog is None else min(STATUS_EVERY, self.watchdog / 2))

    def _send(self, *words: str) -> None:
        if not words or not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out:
                out.settimeout(PATIENCE)
                out.sendto("\n".join(words).encode("utf-8", "replace"), self._address)
        except OSError as fault:  # the manager is gone or does not read: it will notice by itself
            if not self._is_failing:
                log.warning("notify.failed", reason=fault.strerror or str(fault))
            self._is_failing = True
        else:
            self._is_failing = False


def _line(status: Callable[[], str]) -> str:
    try:
        return status()
    except Exception:  # a status line must not end the daemon
        log.exception("notify.no_status")
        return ""


def _status(text: str) -> list[str]:
    line = " ".join(text.split())[:STATUS_CHARACTERS]
    return [f"STATUS={line}"] if line else []
