"""`tenex mcp serve`: driven by the official client beside a daemon and a real relay, and by HTTP with its checks."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from . import person
from .conftest import WORDS
from .kit import PATIENCE, ROOT, TENEX, Folder, Process, daemon, environment, ordered, running, tags, tenex

MODES = ("auto", "legacy", "2026-07-28")
"""Both eras of the protocol, and the choice between them."""

TOOLS = {
    "list_conversations",
    "search_conversations",
    "read_conversation",
    "send_message",
    "wait_for_messages",
    "answer_question",
}

Shown = dict[str, Any]


def serving(folder: Folder) -> list[str]:
    return [*TENEX, "mcp", "serve", "--data", str(folder.data)]


@asynccontextmanager
async def connected(folder: Folder, mode: str = "auto") -> AsyncIterator[Client]:
    """A client of a server of its own, on standard input and output."""
    command, *arguments = serving(folder)
    server = StdioServerParameters(command=command, args=arguments, env=environment(), cwd=ROOT)
    with (folder.marks / "mcp-errors").open("w") as errors:
        async with Client(stdio_client(server, errlog=errors), mode=mode, read_timeout_seconds=PATIENCE) as client:
            yield client
    assert (folder.marks / "mcp-errors").read_text() == ""


async def asked(client: Client, tool: str, **arguments: Any) -> Shown:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    shown: Shown = result.structured_content or {}
    assert json.loads(getattr(result.content[0], "text", "")) == shown, "models read the text, programs the structure"
    return shown


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result.structured_content
    return str(getattr(result.content[0], "text", ""))


async def waited(client: Client, sent: Shown, status: str) -> tuple[Shown, list[Shown]]:
    """Wait as a client does until a conversation has that status; its last situation, and all messages since."""
    messages: list[Shown] = []
    after = sent["after"]
    while True:
        shown = await asked(client, "wait_for_messages", conversation=sent["conversation"], after=after, seconds=50)
        messages += shown["messages"]
        after = shown["next"]
        if shown["status"] == status and not shown["working"]:
            return shown, messages


@pytest.mark.parametrize("mode", MODES)
async def test_a_conversation_is_begun_followed_to_its_end_and_read(folder: Folder, mode: str) -> None:
    async with daemon(folder), connected(folder, mode) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS
        sent = await asked(client, "send_message", text=WORDS)
        shown, messages = await waited(client, sent, "ended")
        assert (folder.workspace / "zebra.py").exists()
        assert (messages[0]["person"], messages[0]["text"]) == (True, WORDS)
        assert any("zebra.py" in message["text"] for message in messages if not message["person"])
        assert (shown["waitingFor"], shown["openQuestions"], shown["working"]) == (None, [], [])

        name = sent["conversation"]
        newest = await asked(client, "read_conversation", conversation=name[:12], limit=1)
        whole = await asked(client, "read_conversation", conversation=name)
        earlier = await asked(client, "read_conversation", conversation=name, before=newest["earlier"])
        texts = [message["text"] for message in messages]
        assert [message["text"] for message in whole["messages"]] == texts
        assert [message["text"] for message in (*earlier["messages"], *newest["messages"])] == texts
        assert (whole["earlier"], earlier["earlier"]) == (None, None)

        listed = await asked(client, "list_conversations", status="ended")
        assert [row["id"] for row in listed["conversations"]] == [name]
        matches = await asked(client, "search_conversations", query="xylophone")
        assert [row["id"] for row in matches["conversations"]] == [name]
        (resource,) = (await client.list_resources()).resources
        view = (await client.read_resource(str(resource.uri))).contents[0]
        facts = json.loads(getattr(view, "text", ""))
        assert (facts["id"], facts["status"]) == (name, "ended")
        assert {message["text"] for message in facts["messages"]} <= set(texts)
        with pytest.raises(MCPError, match="No conversation begins with"):
            await client.read_resource(f"tenex://conversations/{'e' * 64}/conversation.json")

    (event,) = await person.stored(folder.url, ids=[sent["message"]])
    assert (event["pubkey"], event["kind"]) == (folder.owner.public, 1)
    assert ["l", "by-program", "tenex"] in event["tags"]
    assert tags(event)["p"] == folder.project.public


async def test_a_question_of_an_agent_is_answered_by_its_event_and_any_text_is_text(folder: Folder) -> None:
    async with ordered(folder, model="asker"), connected(folder) as client:
        sent = await asked(client, "send_message", text="Paint the door")
        shown, _ = await waited(client, sent, "waiting")
        (question,) = shown["openQuestions"]
        assert (question["agent"], question["text"]) == ("executor", "Which colour?")
        name = sent["conversation"]
        sentence = await refused(client, "answer_question", conversation=name, question="e" * 64, text="blue")
        assert f"Open questions: {question['question']}" in sentence
        assert "Only a person decides" in sentence
        answered = await asked(
            client, "answer_question", conversation=name, question=question["question"], text="/quick"
        )
        _, messages = await waited(client, answered, "waiting")
        assert [message["text"] for message in messages] == [
            "/quick",
            "I paint it /quick.\n\nNo file was changed and nothing was run.",
        ]
        assert not folder.state(name).kinds["phases"].waivers


def has_said(folder: Folder, name: str, text: str) -> bool:
    """Whether a conversation has a message with this text."""
    return text in [message.text for message in folder.state(name).memory.recent]


async def test_a_conversation_is_continued_in_its_own_form(folder: Folder) -> None:
    """A thread of kind 11 is answered by a comment, as its clients write; a note by a note."""
    thread = person.note(folder.owner, "hello", ["title", "A thread"], ["p", folder.project.public], kind=11)
    async with daemon(folder), connected(folder) as client:
        begun = await asked(client, "send_message", text="hello")
        await person.publish(folder.url, thread)
        await folder.until(str(thread["id"]), "waiting")
        for name, kind in ((begun["conversation"], 1), (str(thread["id"]), 1111)):
            await folder.until(name, "waiting")
            sent = await asked(client, "send_message", text="hello again", conversation=name)
            await waited(client, sent, "waiting")
            (event,) = await person.stored(folder.url, ids=[sent["message"]])
            assert event["kind"] == kind
            await person.until(partial(has_said, folder, name, "hello again"))


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("/quick", "/quick"),
        ("**/approve**", "/approve"),
        ("Do it\n/skip verification", "/skip"),
        ("/nonsense", "/nonsense"),
    ],
)
async def test_commands_are_not_sent(folder: Folder, text: str, word: str) -> None:
    async with connected(folder) as client:
        sentence = await refused(client, "send_message", text=text)
        assert f"Nothing was sent: {word} is a command. Only a person decides that" in sentence
    assert await person.stored(folder.url, authors=[folder.owner.public]) == []


async def test_without_a_daemon_a_message_waits_on_the_relay_and_is_said_to(folder: Folder) -> None:
    async with connected(folder) as client:
        sent = await asked(client, "send_message", text=WORDS)
        assert "No daemon runs" in sent["note"]
        nothing = await asked(client, "wait_for_messages", conversation=sent["conversation"], seconds=0)
        assert (nothing["messages"], nothing["next"]) == ([], 0)
        async with daemon(folder):
            _, messages = await waited(client, sent, "ended")
            assert messages[0]["text"] == WORDS


async def test_a_relay_that_is_away_is_an_error_that_says_nothing_was_sent(folder: Folder) -> None:
    folder.edit(folder.url, "ws://127.0.0.1:1")
    async with connected(folder) as client:
        assert "Nothing was sent" in await refused(client, "send_message", text="hello")


async def test_standard_output_is_for_the_protocol_alone(folder: Folder) -> None:
    code, out, _ = await tenex(*serving(folder)[3:])
    assert (code, out) == (0, "")


# ---- HTTP ------------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def http_server(folder: Folder) -> AsyncIterator[tuple[str, str]]:
    """The address of a server by HTTP, and its token."""
    async with running([*serving(folder), "--http", "0"]) as process:
        url = await address_of(process)
        file = folder.data / "keys" / "mcp.token"
        assert file.stat().st_mode & 0o777 == 0o600
        assert str(file) in process.stderr
        token = file.read_text().strip()
        assert token not in process.stderr
        yield url, token


async def address_of(process: Process) -> str:
    def printed() -> str:
        shown = re.search(r"http://127\.0\.0\.1:\d+/mcp", process.stderr)
        return shown[0] if shown and "Authorization" in process.stderr else ""

    return str(await person.until(printed))


@pytest.mark.parametrize("mode", MODES)
async def test_http_serves_who_has_the_token(folder: Folder, mode: str) -> None:
    async with http_server(folder) as (url, token):
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http,
            Client(streamable_http_client(url, http_client=http), mode=mode) as client,
        ):
            assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS
            assert await asked(client, "list_conversations") == {"conversations": []}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Authorization": ""}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Host": "evil.example"}, 421),
        ({"Host": "localhost.evil.example"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({}, 200),
    ],
)
async def test_http_refuses_another_token_host_or_origin(folder: Folder, headers: dict[str, str], status: int) -> None:
    """A page that a person visits can send requests to loopback; it knows no token, and its name is another."""
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}}
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    async with http_server(folder) as (url, token), httpx2.AsyncClient(timeout=PATIENCE) as http:
        accept = {"Accept": "application/json, text/event-stream", "Authorization": f"Bearer {token}"}
        answer = await http.post(url, json=request, headers={**accept, **headers})
        assert answer.status_code == status, answer.text


async def test_the_token_stays_and_one_that_others_may_read_is_refused(folder: Folder) -> None:
    async with http_server(folder) as (_, first):
        pass
    async with http_server(folder) as (_, second):
        assert second == first
    file = folder.data / "keys" / "mcp.token"
    file.chmod(0o644)
    code, _, err = await tenex(*serving(folder)[3:], "--http", "0")
    assert code == 3
    assert f"chmod 600 {file}" in err
