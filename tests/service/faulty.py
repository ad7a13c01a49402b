"""A daemon with a fault of a chosen kind: `python -m tests.service.faulty DATA MARKS KIND`.

    stuck   its model writes the file `held` into MARKS and blocks the whole loop until there is a file `go`
    away    its model cannot be reached until there is a file `go`
    hung    while there is a file `hang`, its disk takes no flush and gives no answer; it writes the file `held`

It waits for relays a second where others wait a quarter of a minute, so that a deaf one is soon found out.
"""

import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from tenex.cli.run import FORCED, serve
from tenex.core.errors import ModelUnavailable
from tenex.core.messages import ModelRequest, ModelStep
from tenex.core.ports import OnText, ignore_text
from tenex.llm.scripted import OfflineModel
from tenex.nostr import pool
from tenex.nostr.keys import parse_public_key
from tenex.nostr.timeouts import RelayTimeouts
from tenex.settings import load
from tenex.store.disk import Disk


class Faulty:
    """Answers as the offline model does, once it is let."""

    def __init__(self, marks: Path, kind: str) -> None:
        self._marks, self._kind = marks, kind
        self._inner = OfflineModel()

    async def step(self, request: ModelRequest, on_text: OnText = ignore_text) -> ModelStep:
        go = self._marks / "go"
        if self._kind == "away" and not go.exists():
            raise ModelUnavailable("connection refused by the model's server")
        if self._kind == "stuck":
            (self._marks / "held").touch()
            while not go.exists():
                time.sleep(0.01)  # noqa: ASYNC251  (that is the point)
        return await self._inner.step(request, on_text)


def flush(marks: Path, descriptor: int) -> None:
    while (marks / "hang").exists():
        (marks / "held").touch()
        time.sleep(0.01)  # a thread of the store waits in the kernel like this
    os.fdatasync(descriptor)


def main() -> int:
    """Serve; the exit code is that of `tenex run`."""
    data, marks, kind = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    setattr(pool, "RelayTimeouts", partial(RelayTimeouts, probe_timeout=1.0, eose_timeout=1.0))  # noqa: B010  (for mypy)
    if kind == "hung":
        defaults: dict[str, Any] = Disk.__init__.__kwdefaults__  # type: ignore[assignment]  # each test's own process
        defaults["sync"] = partial(flush, marks)
    settings = load(None, data, env={}, parse_key=parse_public_key)
    return 0 if serve(settings, model=Faulty(marks, kind)) else FORCED


if __name__ == "__main__":
    sys.exit(main())
