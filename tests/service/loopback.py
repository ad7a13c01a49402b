"""A daemon whose models answer over HTTP on loopback: how it is configured, and what both sides counted."""

from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tenex.core import records as r
from tenex.core.conversation import Conversation, fold
from tenex.core.ids import ConversationId
from tenex.core.messages import Usage
from tenex.core.records import Record
from tests.fakes.modelserver import Exchange, ModelScript, ModelServer, model_server

from . import person
from .kit import Folder, Process, daemon, of_kind

MODEL = "local:test"
INPUT, OUTPUT = 2.0, 8.0
"""US dollars per million tokens; binary fractions, so that sums are exact to the last place a view shows."""
QUICK = """
[limits]
retry_delays = [0.05, 0.1, 0.2]
hold_for = 1
"""
"""The retry table, short enough for tests."""


def folder_with_model(data: Path, relay: str, server: ModelServer, settings: str = "") -> Folder:
    """A data folder that knows the server as the provider `local`."""
    provider = f'\n[models.providers.local]\nkind = "openai"\nbase_url = "{server.url}"\napi_key_env = "LOCAL_KEY"\n'
    price = f'[models.prices."{MODEL}"]\ninput = {INPUT}\noutput = {OUTPUT}\n'
    return Folder(data, relay, f"{provider}{price}{settings}")


@asynccontextmanager
async def serving(folder: Folder, server: ModelServer, **env: str) -> AsyncIterator[Process]:
    """`tenex run` on such a folder, with the server's model for everything, once it is ready."""
    given: dict[str, Any] = {"TENEX_MODELS__DEFAULT": MODEL, "LOCAL_KEY": server.key, **env}
    async with daemon(folder, **given) as process:
        yield process


@asynccontextmanager
async def at_work(
    place: Path, relay: str, model: ModelScript, settings: str = "", **env: str
) -> AsyncIterator[tuple[Folder, ModelServer]]:
    """A daemon on a new folder, and the server of its model; it stops at the end of the block, and no one complains."""
    async with model_server(model) as server:
        folder = folder_with_model(place / "data", relay, server, settings)
        async with serving(folder, server, **env) as process:
            yield folder, server
    assert not process.errors
    assert server.refused == [], "every request was one that OpenAI's server takes"


async def settled(folder: Folder, name: str, status: str = "ended", *, messages: int = 1, within: float = 90.0) -> Any:
    """Wait until so many messages of the person were taken in and the conversation rests in that status."""
    seen = 0

    def there() -> Conversation | None:
        nonlocal seen
        size = _size(folder, name)
        if size == seen:
            return None  # unchanged since the last look
        seen = size
        records = folder.records(name)
        if len(of_kind(records, r.MessageRecorded)) < messages:
            return None
        state = fold(ConversationId(name), records)
        return state if state.cycle.status == status and state.work.turn is None and not state.delivery.outbox else None

    return await person.until(there, within)


def _size(folder: Folder, name: str) -> int:
    try:
        return (folder.conversation(name) / "journal.jsonl").stat().st_size
    except FileNotFoundError:
        return 0


def spent(records: Iterable[Record]) -> list[Usage]:
    """What each answer cost, as the journal has it; a call that broke off unmetered counts there without tokens."""
    usages = [
        record.step.usage if isinstance(record, r.ModelResponded) else getattr(record, "usage", None)
        for record in records
    ]
    return [usage for usage in usages if usage is not None and usage.input_tokens]


def priced(calls: int, input_tokens: int, output_tokens: int) -> dict[str, Any]:
    """A usage as `conversation.json` shows it, at the prices of these tests."""
    cost = (input_tokens * INPUT + output_tokens * OUTPUT) / 1_000_000
    return {"calls": calls, "inputTokens": input_tokens, "outputTokens": output_tokens, "costUsd": cost}


def rounded(usage: dict[str, Any]) -> dict[str, Any]:
    """Its four figures, the cost to a billionth: a sum of floats depends on its order."""
    figures = {name: usage[name] for name in ("calls", "inputTokens", "outputTokens")}
    return {**figures, "costUsd": round(usage["costUsd"], 9)}


def billed(exchanges: Iterable[Exchange]) -> dict[str, Any]:
    """What answers cost by the server's log, as `rounded` gives it."""
    each = list(exchanges)
    return rounded(priced(len(each), sum(e.input_tokens for e in each), sum(e.output_tokens for e in each)))


def agree(server: ModelServer, usages: Iterable[Usage]) -> None:
    """Every answer the server delivered is in our books once, with its tokens, and nothing else is."""
    theirs = Counter((exchange.input_tokens, exchange.output_tokens) for exchange in server.delivered())
    # what a stream took that broke off is an estimate of ours, which the server's log does not have
    ours = Counter((usage.input_tokens, usage.output_tokens) for usage in usages if not usage.estimated)
    assert ours == theirs
