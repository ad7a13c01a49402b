"""The limits of a day in a real daemon, before a model's server that counts tokens."""

import asyncio
import json
import signal
from dataclasses import replace
from pathlib import Path

from tenex.core import records as r
from tenex.core.conversation import Conversation
from tenex.core.decide import daily_limits
from tenex.nostr.keys import SecretKey
from tests.fakes.modelprotocol import Answer, Json, Reply
from tests.fakes.modelscripts import Team
from tests.fakes.modelserver import ModelServer, model_server

from . import person
from .kit import Folder, of_kind, tenex_here
from .loopback import folder_with_model, serving

MOST = 20_000
CONVERSATIONS = 25
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
    """What the server has counted."""
    return sum(exchange.input_tokens + exchange.output_tokens for exchange in server.delivered())


def is_on_hold(state: Conversation) -> bool:
    """Whether a limit of the day holds it."""
    return bool(daily_limits.on_hold(state))


async def at_rest(folder: Folder, names: list[str]) -> list[Conversation]:
    """The conversations, once each has been answered or is on hold."""

    def there() -> list[Conversation]:
        states = [folder.state(name) for name in names]
        return states if all(state.status == "waiting" or is_on_hold(state) for state in states) else []

    states: list[Conversation] = await person.until(there)
    return states


async def test_conversations_of_a_member_cost_no_more_than_the_limit_of_a_day(tmp_path: Path, relay: str) -> None:
    """All begun at once; then a kill, a restart, a look at the status, an owner, and a higher limit."""
    member = SecretKey.generate()
    async with model_server(thinking) as server:
        folder = folder_with_model(tmp_path / "data", relay, server, LIMIT)
        known = {"TENEX_PEOPLE__MEMBERS": json.dumps([member.npub])}
        async with serving(folder, server, **known) as process:
            asked = (folder.write(f"Question {number}?", by=member) for number in range(CONVERSATIONS))
            names = list(await asyncio.gather(*asked))
            states = await at_rest(folder, names)
            assert any(state.status == "waiting" for state in states), "some were answered"
            assert any(is_on_hold(state) for state in states), "and some are on hold"
            spent = tokens(server)
            assert MOST / 2 < spent <= MOST
            process.signal(signal.SIGKILL)
            await process.ended()
        async with serving(folder, server, **known) as process:
            code, out, err = await tenex_here("status", "--data", folder.data, "--json")
            assert code == 0, err
            today = json.loads(out)["today"]
            assert today["tokens"] == spent, "what the day has cost is known after a restart"
            (near,) = today["people"]
            assert (near["npub"], near["who"], near["tokens"]) == (member.npub, "member", spent)
            _, out, _ = await tenex_here("status", "--data", folder.data)
            assert f"member {member.npub}" in out
            late = await folder.write("One more?", by=member)
            (state,) = await at_rest(folder, [late])
            assert is_on_hold(state)
            assert tokens(server) == spent
            (own,) = await at_rest(folder, [await folder.write("And me?")])
            assert own.status == "waiting", "an owner has a limit of their own"
            folder.file.write_text(folder.file.read_text().replace(f"day = {MOST}", f"day = {100 * MOST}"))
            process.signal(signal.SIGHUP)
            for name in [*names, late]:
                await folder.until(name, "waiting")
            assert await process.stop() == 0
            assert not [log for log in process.logs if log["level"] in ("error", "critical")]


async def test_an_owner_is_answered_before_a_members_burst(tmp_path: Path, relay: str) -> None:
    """The provider takes one call at a time, and the member's conversations have begun when the owner writes."""
    member = SecretKey.generate()
    async with model_server(thinking) as server:
        folder = folder_with_model(tmp_path / "data", relay, server)
        text = folder.file.read_text()
        folder.file.write_text(
            text.replace("[models.providers.local]\n", "[models.providers.local]\nconcurrency = 1\n")
        )
        async with serving(folder, server, TENEX_PEOPLE__MEMBERS=json.dumps([member.npub])) as process:
            names = [await folder.write(f"Question {number}?", by=member) for number in range(CONVERSATIONS)]
            await person.until(lambda: len(server.exchanges) > 2)
            own = await folder.write("And me?")
            await folder.until(own, "waiting")
            answered = [name for name in names if folder.state(name).status == "waiting"]
            assert len(answered) < CONVERSATIONS / 2, "most of the member's still wait"
            for name in names:
                await folder.until(name, "waiting")
            assert await process.stop() == 0


async def test_a_call_that_a_member_stops_counts_for_the_day(tmp_path: Path, relay: str) -> None:
    member = SecretKey.generate()
    async with model_server(lambda _: Answer(text="Yes.", delay=60)) as server:
        folder = folder_with_model(tmp_path / "data", relay, server)
        async with serving(folder, server, TENEX_PEOPLE__MEMBERS=json.dumps([member.npub])) as process:
            name = await folder.write("Question?", by=member)
            await person.until(lambda: server.exchanges)
            await folder.write("/stop", by=member, to=name)
            await person.until(lambda: of_kind(folder.records(name), r.ModelCallCancelled))
            (cut,) = of_kind(folder.records(name), r.ModelCallCancelled)
            assert cut.usage.tokens == cut.usage.estimated > 500, "the request, which the server had read"
            _, out, _ = await tenex_here("status", "--data", folder.data, "--json")
            assert json.loads(out)["today"]["tokens"] == cut.usage.tokens
            assert await process.stop() == 0
