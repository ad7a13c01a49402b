"""What a server was given as a secret is in no sentence about it, whatever it prints or answers."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tenex.mcp.config import ServerConfig, read_servers
from tenex.mcp.connection import CallFailed, ServerLost
from tenex.mcp.hidden import Hidden
from tenex.mcp.stdio import ErrorOutput
from tests.fakes import mcp_hostile as hostile
from tests.fakes.mcp_hostile import Exchange, hostile_server
from tests.service.person import until

from .conftest import SCRIPT, connection_to, running, text_of

TOKEN = "correct horse-battery/staple"
"""Of no form that is known as a key's."""


def read(environment: dict[str, str] | None = None, **server: Any) -> ServerConfig:
    (config,) = read_servers(None, {"leaky": server}, environment or {}, "tenex.toml").servers
    return config


def leaky(**more: Any) -> ServerConfig:
    program = {"command": sys.executable, "args": ["-I", "-S", str(SCRIPT), "--leaks"], "sandbox": False}
    return read({"SECRET": TOKEN}, **program, **{"env": {"TOKEN": "${SECRET}"}, **more})


@pytest.mark.parametrize(
    ("server", "text", "hidden"),
    [
        ({"env": {"TOKEN": TOKEN}}, f"bad token {TOKEN}.", "bad token [redacted]."),
        ({"env": {"TOKEN": "${SECRET}"}}, "wrong: s3cret-value", "wrong: [redacted]"),
        ({"headers": {"Authorization": "Bearer abcdefgh12"}}, "no user for abcdefgh12", "no user for [redacted]"),
        ({"headers": {"X-Key": "a b%c-d e"}}, "GET /?key=a%20b%25c-d%20e", "GET /?key=[redacted]"),
        ({"env": {"CONFIG": '{"key": "abcdefgh12345678"}'}}, "abcdefgh12345678?", "[redacted]?"),
        ({"env": {"DB": "postgres://user:pa55word@db/x"}}, "pa55word of postgres db", "[redacted] of postgres db"),
        ({"args": ["--key=${SECRET}"]}, "--key=s3cret-value", "--key=[redacted]"),
        ({"env": {"TOKEN": 'with "quotes"'}}, json.dumps('with "quotes"'), '"[redacted]"'),
    ],
)
def test_the_values_that_a_server_was_given_are_taken_out(server: dict[str, Any], text: str, hidden: str) -> None:
    kind = {"url": "https://x.example/mcp"} if "headers" in server else {"command": "x"}
    config = read({"SECRET": "s3cret-value"}, **kind, **server)
    assert config.hidden(text) == hidden
    assert "s3cret-value" not in repr(config)


def test_what_is_no_secret_stays() -> None:
    """Folders, addresses and short words are in results that agents work with."""
    variables = {"HOME": "/home/someone", "PROJECT": sys.prefix}
    given = {"PATH": "/opt/some/where/bin", "ROOT": sys.prefix, "MODE": "strict", "API": "https://api.example.com"}
    args = ["--root", "${PROJECT}", "${HOME}"]
    config = read(variables, command="x", args=args, env=given)
    text = f"/home/someone {sys.prefix} /opt/some/where/bin strict https://api.example.com"
    assert config.hidden(text) == text
    served = read(url="https://x.example/mcp?key=abcdefgh1234", headers={"Accept": "application/json"})
    assert served.hidden("application/json abcdefgh1234") == "application/json [redacted]"


def test_a_value_that_is_named_like_no_secret_stays_in_results_and_not_in_errors() -> None:
    """A name of an author is in each commit that an agent reads."""
    config = read({"VAULT": "from the daemon"}, command="x", env={"AUTHOR": "Somebody Else", "V": "${VAULT}"})
    assert config.hidden.taken_out("by Somebody Else") == "by Somebody Else"
    assert config.hidden("by Somebody Else") == "by [redacted]"
    assert config.hidden.taken_out("it is from the daemon") == "it is [redacted]"


def test_a_secret_that_was_cut_is_not_shown_in_part() -> None:
    secret = "0123456789abcdef"
    errors = ErrorOutput(Hidden((secret,), (secret,)))
    errors.add(b"x" * 500 + secret.encode() + b"y" * 2_008)
    assert "y" * 100 in errors.last_line
    assert not any(secret[start:] in errors.last_line for start in range(len(secret) - 1))


async def test_last_words_and_answers_of_a_program_are_without_its_secret(tmp_path: Path) -> None:
    async with running(connection_to(leaky(), tmp_path)) as connection:
        assert TOKEN in text_of(await connection.call("fail", {})), "the server does print it"
        with pytest.raises(ServerLost):
            await connection.call("die", {})
        await until(lambda: connection.why)
        assert connection.why == "it ended: refused: [redacted]"


async def test_errors_of_a_server_at_an_address_are_without_the_key_of_its_headers(tmp_path: Path) -> None:
    async def refuses(exchange: Exchange) -> None:
        await exchange.head("application/json", status="400 Bad Request")
        error = {"code": -32602, "message": f"the key {TOKEN} has expired"}
        await exchange.send(json.dumps({"jsonrpc": "2.0", "id": exchange.message["id"], "error": error}).encode())

    async def no_json(exchange: Exchange) -> None:
        await exchange.head("application/json")
        await exchange.send(f"<p>Forbidden for {TOKEN}".encode())

    async with hostile_server(tools_call=refuses) as server:
        config = read(url=server.url, headers={"Authorization": f"Bearer {TOKEN}"})
        async with running(connection_to(config, tmp_path)) as connection:
            with pytest.raises(CallFailed) as refusal:
                await connection.call("use", {})
            assert str(refusal.value) == "the key [redacted] has expired"
    async with hostile_server(tools_list=no_json) as server:
        config = read(url=server.url, headers={"Authorization": f"Bearer {TOKEN}"})
        async with running(connection_to(config, tmp_path)) as connection:
            await connection.is_settled.wait()
            assert connection.why
            assert not [word for word in TOKEN.split("-") if word in connection.why]


async def test_descriptions_and_schemas_are_without_it(tmp_path: Path) -> None:
    async def listed(exchange: Exchange) -> None:
        schema = {"type": "object", "properties": {"a": {"type": "string", "description": f"not {TOKEN}"}}}
        await exchange.result({"tools": [{"name": "use", "description": f"for {TOKEN}", "inputSchema": schema}]})

    async with hostile_server(tools_list=listed, tools_call=hostile.text("done")) as server:
        config = read(url=server.url, headers={"Authorization": TOKEN})
        async with running(connection_to(config, tmp_path)) as connection:
            await connection.wait()
            (tool,) = connection.tools
            assert tool.description == "for [redacted]"
            assert tool.schema["properties"]["a"]["description"] == "not [redacted]"
