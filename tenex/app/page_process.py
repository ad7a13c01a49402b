"""The process that serves the pages where `web.enabled` is set: kept running, and gone with the daemon.

It is `tenex web`, as anyone may start it, below the supervisor of agents' programs (`tools/process.py`): so it ends
with the daemon, also where that is killed. Its own end changes nothing here. It is started again after a pause, which
grows while starts fail; why it does not run is in `tenex status`, the doctor and the log.
"""

import asyncio
import math
import os
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import tenex
from tenex.core.backoff import Backoff
from tenex.core.text.foreign import printable, redact
from tenex.log import get_logger
from tenex.settings import ProjectPaths
from tenex.tools import process

FIRST_PAUSE: Final = 0.5
MOST_PAUSE: Final = 60.0
LEAST_PAUSE: Final = 0.1
STABLE: Final = 60.0
"""Seconds after which a process that ends counts as one that has worked."""
MOST_OUTPUT: Final = 16 * 1024
"""Bytes kept of what it prints, which says why it ended."""
MOST_REASON: Final = 300
NO_LIMITS: Final = process.ProcessLimits(file=0, address_space=0, data=0, processes=0)
"""It is our own program."""

log = get_logger(__name__)


def command_of(places: ProjectPaths) -> list[str]:
    """What serves the pages of a data folder; it prints its address, and no link."""
    config = ["--config", str(places.config)] if places.config is not None else []
    # -P: no module of the folder it is started in is taken for ours
    return [sys.executable, "-P", "-m", "tenex", *config, "web", "--data", str(places.data), "--quiet"]


class PageProcess:
    """Keeps the process running, by a task of its own."""

    def __init__(
        self, command: Sequence[str], folder: Path, *, draw: Callable[[float, float], float] = random.uniform
    ) -> None:
        """Take what is run, and where; `run` starts it."""
        self.state = "starting"
        """`starting`, `running`, `waiting` for its next start, or `stopped`."""
        self.address = ""
        self.why = ""
        """Why it does not run, or ended last."""
        self.starts = 0
        """Times that it was ready."""
        self.losses = 0
        """Times that it ended, or could not be started."""
        self._command = command
        self._folder = folder
        self._backoff = Backoff(FIRST_PAUSE, MOST_PAUSE, draw)

    async def run(self) -> None:
        """Keep it running until cancelled; raises nothing else."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                began = loop.time()
                self.state = "starting"
                self.address = ""
                why = await self._live()
                if why != self.why:  # one that cannot start is named once, and not at each try
                    log.warning("pages.lost", reason=why)
                self.why = why
                self.state = "waiting"
                self.losses += 1
                if loop.time() - began > STABLE:
                    self._backoff.reset()
                await asyncio.sleep(max(LEAST_PAUSE, self._backoff.next()))
        finally:
            self.state = "stopped"

    async def _live(self) -> str:
        """Run it to its end; returns why it ended."""
        home = str(Path(tenex.__file__).parents[1])
        paths = [home, *filter(None, [os.environ.get("PYTHONPATH", "")])]
        try:
            outcome = await process.run(
                self._command,
                cwd=self._folder,
                environment={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
                deadline=math.inf,
                most_output=MOST_OUTPUT,
                limits=NO_LIMITS,
                on_output=self._on_output,
            )
        except OSError as error:
            return f"it cannot be started: {error.strerror or error}"
        except Exception:  # whatever happens to it, the daemon goes on
            log.exception("pages.failed")
            return "an internal error; see the daemon's log"
        lines = [line.strip() for line in outcome.output.splitlines()]
        last = next((line for line in reversed(lines) if line and line != self.address), "")
        status = outcome.status or 0
        ended = f"it was ended by signal {-status}" if status < 0 else "it ended"
        return printable(redact(last or ended))[:MOST_REASON]

    def _on_output(self, data: bytes) -> None:
        """Take the line with its address, which it prints once it listens there."""
        lines = data.decode("utf-8", "replace").splitlines()
        address = next((line.strip() for line in lines if line.startswith(("http://", "https://"))), "")
        if self.state == "starting" and address:
            self.address = address
            self.state = "running"
            self.why = ""
            self.starts += 1
            log.info("pages.served", address=address)

    def status(self) -> dict[str, Any]:
        """Its state, for `tenex status`."""
        return {
            "state": self.state,
            "address": self.address,
            "why": self.why,
            "starts": self.starts,
            "losses": self.losses,
        }
