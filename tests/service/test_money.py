"""The limits of a day in a real daemon, before a model's server that counts tokens."""

import asyncio
import json
import signal
from dataclasses import replace
from pathlib import Path

from tenex.core.conversation import Conversation
from tenex.core.work import holds
from tenex.nostr.keys import SecretKey
from tests.fakes.modelprotocol import Answer, Json, Reply
from tests.fakes.modelscripts import Team
from tests.fakes.modelserver import ModelServer, model_server

from . import person
from .kit import Folder, tenex_here
from .loopback import folder_with_model, serving

MOST = 12_000
CONVERSATIONS = 15
"""A member may write thirty messages a minute."""
LIMIT = f"\n[limits]\ntokens_per_member_day = {MOST}\n"


def one_answer(question: Json) -> Json:
    """An orchestrator that has one agent answer, and then waits."""
    if question["turns"]:
        return {"agents": ["USER"], "reason": "it was answered"}
    return {"agents": ["project-manager"], "reason": "somebody has to answer"}


def thinking(request: Json) -> Reply:
    """Answers that take a little while, as a model's do."""
    reply = Team(one_answer, lambda asked: Answer(text="Yes."))(request)
    return replace(reply, delay=0.2) if isinstance(reply, Answer) else reply


def tokens(server: ModelServer) -> int:
    return server.tokens().input + server.tokens().output


async def without_open_work(folder: Folder, names: list[str]) -> list[Conversation]:
    """The conversations, once each has been answered or is limited."""

    def there() -> list[Conversation]:
        states = [folder.state(name) for name in names]
        return states if all(state.cycle.status == "waiting" or holds.on_hold(state) for state in states) else []

    states: list[Conversation] = await person.until(there)
    return states


async def test_conversations_of_a_member_cost_no_more_than_the_limit_of_a_day(tmp_path: Path, relay: str) -> None:
    member = SecretKey.generate()
    async with model_server(thinking) as server:
        folder = folder_with_model(tmp_path / "data", relay, server, LIMIT)
        known = {"TENEX_PEOPLE__MEMBERS": json.dumps([member.npub])}
        async with serving(folder, server, **known) as process:
            asked = (folder.write(f"Question {number}?", by=member) for number in range(CONVERSATIONS))
            names = list(await asyncio.gather(*asked))
            states = await without_open_work(folder, names)
            assert any(state.cycle.status == "waiting" for state in states), "some were answered"
            assert any(holds.on_hold(state) for state in states), "and some are limited"
            spent = tokens(server)
            assert MOST / 2 < spent <= MOST
            await process.die()
        async with serving(folder, server, **known) as process:
            today = (await folder.facts("status"))["today"]
            assert today["tokens"] == spent, "what the day has cost is known after a restart"
            (near,) = today["people"]
            assert (near["npub"], near["who"], near["tokens"]) == (member.npub, "member", spent)
            _, out, _ = await tenex_here("status", "--data", folder.data)
            assert f"member {member.npub}" in out
            late = await folder.write("One more?", by=member)
            (state,) = await without_open_work(folder, [late])
            assert holds.on_hold(state)
            assert tokens(server) == spent
            (own,) = await without_open_work(folder, [await folder.write("And me?")])
            assert own.cycle.status == "waiting", "an owner has a limit of their own"
            folder.edit(f"day = {MOST}", f"day = {100 * MOST}")
            process.signal(signal.SIGHUP)
            for name in [*names, late]:
                await folder.until(name, "waiting")
        assert not process.errors
