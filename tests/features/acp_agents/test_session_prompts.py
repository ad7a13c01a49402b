"""What comes of a prompt: text, calls, permissions, and how it ends, with an agent that does each of them wrong."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tenex.core.errors import InternalError
from tenex.features.acp_agents import session as session_module
from tenex.features.acp_agents.session_events import (
    CallSeen,
    Deadlines,
    Died,
    ModeSeen,
    PermissionAsked,
    PermissionWithdrawn,
    PlanSeen,
    PromptEnded,
    PromptFailed,
    TextPiece,
    UsageSeen,
)
from tests.features.acp_agents.plain_process import Faulty, HeldClock, faulty, text_of

CALL = {"toolCallId": "c1", "title": "make test", "kind": "execute", "rawInput": {"command": "make test"}}
BARE = {"toolCallId": "c1", "title": "make test", "kind": "execute", "rawInput": {}}
CANCELLED = {"outcome": {"outcome": "cancelled"}}
ONCE = {"outcome": {"outcome": "selected", "optionId": "once"}}
NO = {"outcome": {"outcome": "selected", "optionId": "no"}}


def call_update(**fields: Any) -> list[Any]:
    return ["update", {"sessionUpdate": "tool_call_update", "toolCallId": "c1", **fields}]


def began(call: dict[str, Any]) -> list[Any]:
    return ["update", {"sessionUpdate": "tool_call", **call}]


async def test_text_thoughts_plan_and_usage_come_in_their_order(tmp_path: Path) -> None:
    async with faulty(tmp_path, "prints") as agent:
        await agent.begin()
        await agent.prompt(
            ["text", "Look"],
            ["text", "ing"],
            ["update", {"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "hm"}}],
            ["update", {"sessionUpdate": "plan", "entries": [{"content": "fix", "status": "pending"}]}],
            [
                "update",
                {"sessionUpdate": "usage_update", "used": 5, "size": 9, "cost": {"amount": 0.5, "currency": "USD"}},
            ],
            ["end", "end_turn", {"usage": {"inputTokens": 3, "x": "y"}}],
        )
        events = await agent.rest()
    assert text_of(events) == "Looking"
    others = [event for event in events if not (isinstance(event, TextPiece) and not event.is_thought)]
    assert others == [
        TextPiece(text="hm", is_thought=True),
        PlanSeen(entries=(("fix", "pending"),)),
        UsageSeen(used=5, size=9, cost=0.5, currency="USD"),
        PromptEnded(stop_reason="end_turn", usage={"inputTokens": 3}),
    ]


async def test_what_is_unknown_or_has_another_shape_is_skipped(tmp_path: Path) -> None:
    async with faulty(tmp_path) as agent:
        await agent.begin()
        await agent.prompt(
            ["update", {"sessionUpdate": "fireworks", "content": 3}],
            ["update", {"sessionUpdate": "agent_message_chunk", "content": ["x"]}],
            ["update", {"sessionUpdate": "tool_call", "title": "without an id"}],
            ["update", {"sessionUpdate": "plan", "entries": "none"}],
            ["raw", "[1, 2]"],
            ["raw", "{" * 100_000],
            ["raw", '{"jsonrpc": "2.0", "method": "session/update", "params": 7}'],
            ["raw", '{"jsonrpc": "2.0", "method": "_of/its/own", "params": {}}'],
            ["raw", '{"jsonrpc": "2.0", "id": 777, "result": {}}'],
            ["text", "half of a pair: \ud83d"],
            ["end", "tired"],
        )
        events = await agent.rest()
    assert text_of(events) == "half of a pair: \ufffd"
    assert events[-1] == PromptEnded(stop_reason="tired")
    assert len(events) == 3, "an empty plan is one too"


async def test_a_message_of_20_mb_is_read(tmp_path: Path) -> None:
    async with faulty(tmp_path) as agent:
        await agent.begin()
        await agent.prompt(["large", 20], ["end"])
        assert len(text_of(await agent.rest())) == 20 * 1024**2


@pytest.mark.parametrize("action", [["large", 65], ["flood", 65]])
async def test_an_agent_that_sends_too_much_is_ended(action: list[Any], tmp_path: Path) -> None:
    async with faulty(tmp_path) as agent:
        await agent.begin()
        await agent.prompt(action, ["hang"])
        await asyncio.wait_for(agent.process.wait(), 60)
        events = [await agent.next()]
        while not isinstance(events[-1], Died):
            events.append(await agent.next())
    assert "more than" in events[-1].why


async def test_a_call_is_one_event_with_its_arguments_and_one_for_each_change(tmp_path: Path) -> None:
    async with faulty(tmp_path) as agent:
        await agent.begin()
        await agent.prompt(
            began(BARE),
            call_update(rawInput={"command": "make test"}, locations=[{"path": "/w/a"}, {"line": 3}]),
            ["begin_asking", CALL],
            ["write_answer", 1],
            call_update(status="in_progress"),
            call_update(
                status="completed",
                content=[
                    {"type": "content", "content": {"type": "text", "text": "2 passed"}},
                    {"type": "diff", "path": "/w/b", "oldText": "", "newText": "x"},
                ],
                rawOutput={"exit": 0},
            ),
            ["end"],
        )
        first = await agent.next()
        asked = await agent.next()
        assert isinstance(asked, PermissionAsked)
        assert await agent.session.allow(asked)
        rest = [event for event in await agent.rest() if isinstance(event, CallSeen)]
    seen = CallSeen(
        id="c1",
        kind="execute",
        title="make test",
        arguments={"command": "make test"},
        locations=("/w/a",),
        status="pending",
    )
    assert first == asked.call == seen
    end = rest[-1]
    assert (end.status, end.output, end.locations) == ("completed", "2 passed", ("/w/a", "/w/b"))
    assert (end.arguments, end.has_ended) == (seen.arguments, True)


async def test_a_call_whose_arguments_never_come_is_seen_after_half_a_second(tmp_path: Path) -> None:
    clock = HeldClock()
    async with faulty(tmp_path, clock=clock) as agent:
        await agent.begin()
        await agent.prompt(began(BARE), ["text", "after it"], ["hang"])
        following = asyncio.create_task(agent.next())
        await clock.until_awaited(session_module.ARGUMENTS_WITHIN)
        assert not following.done()
        clock.advance(session_module.ARGUMENTS_WITHIN)
        assert await following == CallSeen(id="c1", kind="execute", title="make test")
        assert await agent.next() == TextPiece(text="after it")


async def test_arguments_that_come_after_the_request_for_permission_are_in_it(tmp_path: Path) -> None:
    async with faulty(tmp_path) as agent:
        await agent.begin()
        await agent.prompt(
            began(BARE),
            ["begin_asking", {"toolCallId": "c1", "title": "server_tool"}],
            call_update(rawInput={"query": "x"}),
            ["write_answer", 1],
            ["end"],
        )
        events = [await agent.next()]
        while not isinstance(events[-1], PermissionAsked):
            events.append(await agent.next())
        assert events[-1].call.arguments == {"query": "x"}
        assert await agent.session.refuse(events[-1])
        assert json.loads(text_of(await agent.rest())) == NO


async def test_permission_for_a_call_of_another_id_or_none_is_asked(tmp_path: Path) -> None:
    async with faulty(tmp_path) as agent:
        await agent.begin()
        await agent.prompt(
            ["ask", {"toolCallId": "other", "title": "rm", "rawInput": "rm x"}],
            ["ask", {"title": "y", "rawInput": 1}],
            ["end"],
        )
        for arguments in ({"value": "rm x"}, {"value": 1}):
            asked = await agent.next()
            while not isinstance(asked, PermissionAsked):
                asked = await agent.next()
            assert asked.call.arguments == arguments
            assert await agent.session.allow(asked)
        await agent.rest()


async def test_permissions_are_delivered_one_at_a_time(tmp_path: Path) -> None:
    other = {**CALL, "toolCallId": "c2", "title": "make lint"}
    async with faulty(tmp_path) as agent:
        await agent.begin()
        await agent.prompt(
            ["begin_asking", CALL], ["begin_asking", other], ["write_answer", 1], ["write_answer", 2], ["end"]
        )
        first = await asked_by(agent)
        following = asyncio.create_task(agent.next())
        await until_received(agent, "session/request_permission", 0)
        done, _ = await asyncio.wait({following}, timeout=0)
        assert not done
        assert await agent.session.allow(first)
        second = await following
        assert isinstance(second, PermissionAsked)
        assert (first.call.title, second.call.title) == ("make test", "make lint")
        assert await agent.session.refuse(second)
        assert not await agent.session.allow(first), "a yes is used once"
        assert text_of(await agent.rest()) == json.dumps(ONCE) + json.dumps(NO)


async def test_the_same_question_twice_at_once_is_one_and_both_get_its_answer(tmp_path: Path) -> None:
    async with faulty(tmp_path) as agent:
        await agent.begin()
        await agent.prompt(
            ["begin_asking", CALL],
            ["begin_asking", CALL],
            ["text", "x"],
            ["write_answer", 1],
            ["write_answer", 2],
            ["end"],
        )
        asked = await asked_by(agent)
        assert await agent.next() == TextPiece(text="x")
        assert await agent.session.allow(asked)
        events = await agent.rest()
        assert text_of(events) == json.dumps(ONCE) * 2
        assert not any(isinstance(event, PermissionAsked) for event in events)


async def test_the_same_question_after_its_answer_is_asked_again(tmp_path: Path) -> None:
    async with faulty(tmp_path) as agent:
        await agent.begin()
        await agent.prompt(["ask", CALL], ["ask", CALL], ["end"])
        assert await agent.session.allow(await asked_by(agent))
        assert await agent.session.refuse(await asked_by(agent))
        await agent.rest()


@pytest.mark.parametrize(
    ("options", "kind", "can_be_allowed", "is_usual"),
    [
        (None, "execute", True, True),
        (None, "switch_mode", True, False),
        (
            [{"optionId": "a", "name": "A", "kind": "allow_once"}, {"optionId": "u", "name": "U", "kind": "open_url"}],
            "fetch",
            True,
            False,
        ),
        ([{"optionId": "a", "name": "A", "kind": "allow_always"}], "execute", False, False),
        ([], "execute", False, False),
    ],
)
async def test_only_allow_once_is_ever_a_yes(
    options: list[dict[str, str]] | None, kind: str, *, can_be_allowed: bool, is_usual: bool, tmp_path: Path
) -> None:
    async with faulty(tmp_path) as agent:
        await agent.begin()
        await agent.prompt(["ask", {**CALL, "kind": kind}, options], ["end"])
        asked = await asked_by(agent)
        assert (asked.can_be_allowed, asked.is_usual) == (can_be_allowed, is_usual)
        assert await agent.session.allow(asked) == can_be_allowed
        answer = json.loads(text_of(await agent.rest()))
    assert answer["outcome"].get("optionId", "cancelled") in ({"once", "a"} if can_be_allowed else {"cancelled"})


async def test_a_question_that_is_withdrawn_is_answered_and_no_yes_reaches_it(tmp_path: Path) -> None:
    async with faulty(tmp_path) as agent:
        await agent.begin()
        await agent.prompt(
            ["begin_asking", CALL], ["request", "any/method", {}], ["withdraw", 1], ["write_answer", 1], ["end"]
        )
        asked = await asked_by(agent)
        events = await agent.rest()
        assert PermissionWithdrawn(id=asked.id) in events
        assert json.dumps(CANCELLED) in text_of(events)
        assert not await agent.session.allow(asked)


async def test_a_prompt_that_ends_with_a_question_open_withdraws_it(tmp_path: Path) -> None:
    async with faulty(tmp_path) as agent:
        await agent.begin()
        await agent.prompt(["begin_asking", CALL], ["until_there", str(tmp_path / "asked")], ["end"])
        asked = await asked_by(agent)
        (tmp_path / "asked").touch()
        assert (await agent.rest())[-2:] == [PermissionWithdrawn(id=asked.id), PromptEnded(stop_reason="end_turn")]
        await agent.prompt(["write_answer", 1], ["end"])
        assert json.loads(text_of(await agent.rest())) == CANCELLED


async def test_files_and_terminals_are_refused(tmp_path: Path) -> None:
    async with faulty(tmp_path) as agent:
        await agent.begin()
        for method in ("fs/write_text_file", "fs/read_text_file", "terminal/create", "elicitation/create"):
            await agent.prompt(["request", method, {"path": str(tmp_path / "x"), "content": "x"}], ["end"])
            refused = json.loads(text_of(await agent.rest()))
            assert (refused["code"], refused["message"]) == (-32601, "Method not found")
    assert not (tmp_path / "x").exists()


async def test_cancelling_answers_what_is_open_and_the_session_goes_on(tmp_path: Path) -> None:
    async with faulty(tmp_path) as agent:
        await agent.begin()
        await agent.prompt(
            ["begin_asking", CALL],
            ["begin_asking", {**CALL, "toolCallId": "c2"}],
            ["until_cancelled"],
            ["begin_asking", {**CALL, "toolCallId": "c3"}],
            *[["write_answer", number] for number in (1, 2, 3)],
            ["end", "cancelled"],
        )
        asked = await asked_by(agent)
        assert await agent.session.cancel()
        events = await agent.rest()
        assert text_of(events) == json.dumps(CANCELLED) * 3
        assert events[-1] == PromptEnded(stop_reason="cancelled")
        assert not any(isinstance(event, PermissionAsked) for event in events)
        assert not await agent.session.allow(asked)
        await agent.prompt(["ask", CALL], ["end"])
        assert await agent.session.allow(await asked_by(agent))
        assert text_of(await agent.rest()) == json.dumps(ONCE)


async def test_an_agent_that_does_not_stop_is_reported_in_time(tmp_path: Path) -> None:
    clock = HeldClock()
    async with faulty(tmp_path, clock=clock) as agent:
        await agent.begin()
        await agent.prompt(["text", "x"], ["hang"])
        await agent.next()
        cancelling = asyncio.create_task(agent.session.cancel())
        await clock.until_awaited(Deadlines().cancel)
        clock.advance(Deadlines().cancel)
        assert not await cancelling


async def test_a_second_prompt_is_not_sent_before_the_first_has_ended(tmp_path: Path) -> None:
    async with faulty(tmp_path) as agent:
        await agent.begin()
        await agent.prompt(["until_cancelled"], ["end", "cancelled"])
        with pytest.raises(InternalError):
            await agent.prompt(["end"])
        await agent.session.cancel()
        await agent.rest()
        assert len(agent.received("session/prompt")) == 1


async def test_text_right_after_the_answer_belongs_to_it(tmp_path: Path) -> None:
    clock = HeldClock()
    async with faulty(tmp_path, clock=clock) as agent:
        await agent.begin()
        await agent.prompt(["text", "almost "], ["end"], ["ask", CALL], ["text", "done"])
        events = [await agent.next()]
        while not text_of(events).endswith("done"):
            events.append(await agent.next())
        assert text_of(events) == f"almost {json.dumps(CANCELLED)}done", "a question after the end is about nothing"
        ending = asyncio.create_task(agent.next())
        await clock.until_awaited(session_module.LAST_TEXT_WITHIN)
        clock.advance(session_module.LAST_TEXT_WITHIN)
        assert await ending == PromptEnded(stop_reason="end_turn")


async def test_updates_after_the_end_are_kept_apart_from_the_next_prompt(tmp_path: Path) -> None:
    ended = tmp_path / "ended"
    async with faulty(tmp_path) as agent:
        await agent.begin()
        await agent.prompt(
            began(CALL),
            ["end"],
            ["until_there", str(ended)],
            call_update(status="completed"),
            ["ask", {**CALL, "toolCallId": "c2"}],
        )
        assert [type(event) for event in await agent.rest()] == [CallSeen, PromptEnded]
        ended.touch()
        await until_received(agent, "", 1)
        assert agent.received("")[0]["result"] == CANCELLED
        await agent.prompt(["text", "next"], ["end"])
        assert [event.status for event in agent.session.take_late() if isinstance(event, CallSeen)] == ["completed"]
        assert agent.session.take_late() == ()
        assert text_of(await agent.rest()).endswith("next")


async def test_a_change_of_mode_by_the_agent_itself_is_seen(tmp_path: Path) -> None:
    async with faulty(tmp_path) as agent:
        await agent.begin(mode="plan")
        await agent.prompt(["update", {"sessionUpdate": "current_mode_update", "currentModeId": "auto"}], ["end"])
        assert await agent.rest() == [ModeSeen(mode="auto"), PromptEnded(stop_reason="end_turn")]


async def test_an_error_as_the_answer_is_an_event_and_the_session_lives(tmp_path: Path) -> None:
    async with faulty(tmp_path) as agent:
        await agent.begin()
        await agent.prompt(["fail", -32000, "Authentication required"])
        failed = await agent.next()
        assert failed == PromptFailed(code=-32000, why="Authentication required")
        assert failed.needs_login
        await agent.prompt(["end"])
        await agent.rest()


@pytest.mark.parametrize(
    ("action", "why"), [(["die", 3], "it ended with status 3"), (["close_output"], "it closed its output")]
)
async def test_an_agent_that_dies_in_a_prompt_with_a_question_open(action: list[Any], why: str, tmp_path: Path) -> None:
    async with faulty(tmp_path) as agent:
        await agent.begin()
        await agent.prompt(["text", "so far"], ["begin_asking", CALL], ["request", "any/method", {}], action, ["hang"])
        events = [await agent.next()]
        while not isinstance(events[-1], Died):
            events.append(await agent.next())
        assert why in events[-1].why
        assert text_of(events).startswith("so far")
        assert await agent.next() == events[-1]
        (asked,) = [event for event in events if isinstance(event, PermissionAsked)]
        assert not await agent.session.allow(asked)
        assert await agent.session.cancel()
        await asyncio.wait_for(agent.process.wait(), 60)


async def test_a_killed_agent_is_seen_and_its_session_resumed_by_another_process(tmp_path: Path) -> None:
    async with faulty(tmp_path) as agent:
        session = (await agent.begin()).session_id
        await agent.prompt(["text", "x"], ["hang"])
        await agent.next()
        agent.process.kill()
        assert isinstance(await agent.next(), Died)
    async with faulty(tmp_path) as later:
        assert (await later.begin(session=session)).how == "resumed"


async def test_an_agent_that_dies_between_prompts_is_reported_by_the_next(tmp_path: Path) -> None:
    async with faulty(tmp_path) as agent:
        await agent.begin()
        agent.process.kill()
        await agent.process.wait()
        await agent.prompt(["end"])
        assert isinstance(await agent.next(), Died)


async def test_silence_ends_a_session_later_in_a_call_and_never_while_it_asks(tmp_path: Path) -> None:
    clock = HeldClock()
    limits = Deadlines()
    async with faulty(tmp_path, clock=clock) as agent:
        await agent.begin()
        await agent.prompt(
            ["ask", CALL],
            call_update(status="completed"),
            began({**CALL, "toolCallId": "c2", "status": "in_progress"}),
            ["text", "x"],
            ["hang"],
        )
        asked = await asked_by(agent)
        waiting = asyncio.create_task(agent.next())
        clock.advance(10 * limits.silence_in_call)
        await asyncio.sleep(0)
        assert not waiting.done()
        await agent.session.allow(asked)
        events = [await waiting]
        while text_of(events)[-1:] != "x":
            events.append(await agent.next())
        waiting = asyncio.create_task(agent.next())
        await clock.until_awaited(limits.silence_in_call)
        clock.set(3600 * 24)
        clock.advance(limits.silence_in_call - 1)
        await asyncio.sleep(0)
        assert not waiting.done(), "a clock that is set is no silence"
        clock.advance(1)
        died = await waiting
        assert isinstance(died, Died)
        assert died.was_silent
        await asyncio.wait_for(agent.process.wait(), 60)


async def test_silence_without_a_call_and_activity_that_is_noted(tmp_path: Path) -> None:
    clock = HeldClock()
    limits = Deadlines()
    async with faulty(tmp_path, clock=clock) as agent:
        await agent.begin()
        await agent.prompt(["text", "x"], ["hang"])
        await agent.next()
        waiting = asyncio.create_task(agent.next())
        await clock.until_awaited(limits.silence)
        clock.advance(limits.silence - 1)
        agent.session.note_activity()
        await clock.until_awaited(limits.silence)
        clock.advance(limits.silence)
        assert isinstance(await waiting, Died)


async def test_closing_ends_the_process(tmp_path: Path) -> None:
    async with faulty(tmp_path) as agent:
        await agent.begin()
        await agent.prompt(["hang"])
        await agent.session.close(0)
        await agent.process.wait()  # it was killed, or it has ended first, since its input was closed
        assert await agent.next() == Died(why="it was closed")
    async with faulty(tmp_path) as agent:
        await agent.begin()
        await agent.session.close(60)
        assert await agent.process.wait() == 0, "its input was closed, and it had time to end"


async def asked_by(agent: Faulty) -> PermissionAsked:
    """The next request for permission."""
    while not isinstance(event := await agent.next(), PermissionAsked):
        pass
    return event


async def until_received(agent: Faulty, method: str, number: int) -> None:
    """Return once the agent has received so many messages of a method."""
    async with asyncio.timeout(60):
        while len(agent.received(method)) < number:
            await asyncio.sleep(0.01)
