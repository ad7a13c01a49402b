"""The daemon of the benchmark, in a process of its own: `python -m tests.benchmarks.daemon DATA URL NPUB`.

Put together as `tenex run` does it, with a model that answers at once. Prints READY and the project's npub, once it
listens to the relay if there is one, and in the end how often it connected to it.
"""

import asyncio
import json
import signal
import sys
from pathlib import Path

import structlog

from tenex.app import open_application
from tenex.cli.run import tune_gc
from tenex.core.messages import ModelRequest, ModelStep, Note, Usage
from tenex.core.ports import OnText, ignore_text
from tenex.feature import extensions_of
from tenex.main import FEATURES
from tenex.nostr.keys import KeyRing, parse_public_key
from tenex.settings import Settings, load, resolve_paths

from .rig import NOWHERE

TURN, MESSAGE = '"turn": "', '"from": "'
"""What each turn and each message has in the history of the router's question."""


class Instant:
    """A model that answers at once: the project manager after a message, the user after the project manager."""

    async def step(self, request: ModelRequest, on_text: OnText = ignore_text) -> ModelStep:
        usage = Usage(input_tokens=100, output_tokens=20, cost_usd=0.0)
        if request.purpose == "work":
            return ModelStep(text="This is the answer to your message. " * 2, model="instant", usage=usage)
        note = next(entry for entry in request.entries if isinstance(entry, Note))
        # found, not parsed: what a model takes is no part of what is measured
        is_answered = note.text.rfind(TURN) > note.text.rfind(MESSAGE)
        who = "USER" if is_answered else "project-manager"
        return ModelStep(text=json.dumps({"agents": [who], "reason": "talk"}), model="instant", usage=usage)


def prepared(data: Path, url: str, owner: str, *, store: str = "", keys: Path | None = None) -> Settings:
    """The settings of a folder in which a daemon can start: one relay, one owner, and no limit in the way."""
    overrides = {
        "relays": {"urls": [url]},
        "people": {"owners": [owner]},
        "limits": {"tokens_per_cycle": 1_000_000_000},
        "store": store,
        "paths": {"keys": str(keys)} if keys is not None else {},
    }
    settings = load(None, data, env={}, parse_key=parse_public_key, overrides=overrides)
    KeyRing(resolve_paths(settings).keys).get_or_create("project")
    return settings


async def serve(data: Path, url: str, owner: str) -> None:
    """Serve until SIGTERM."""
    settings = prepared(data, url, owner)
    async with open_application(settings, model=Instant(), extensions=extensions_of(FEATURES)) as app:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, app.runtime.stop)

        async def ready() -> None:
            if url != NOWHERE:
                await app.pool.listening("addressed", 10)
            tune_gc()
            print("READY", app.project.npub, flush=True)

        await app.serve(ready)
        print(sum(status.counters.get("sessions", 0) for status in app.pool.status()), flush=True)


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    asyncio.run(serve(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
