"""Published limits of relays are clamped, and canonical URLs."""

import asyncio

import pytest

from tenex.nostr.relay_info import DocumentUnread, RelayLimits, limits_of, read_limits
from tenex.nostr.urls import is_loopback, normalise_url
from tests.fakes.faultrelay import FaultRelay


@pytest.mark.parametrize("document", [None, 5, [], {}, {"limitation": None}, {"limitation": [1]}])
def test_a_document_without_limits_gives_none(document: object) -> None:
    assert limits_of(document) is None


def test_limits_are_believed_within_reason() -> None:
    limits = {"max_limit": 1, "max_subscriptions": 10_000, "max_message_length": 65536, "max_filters": "x"}
    assert limits_of({"limitation": limits}) == RelayLimits(
        max_limit=10, max_subscriptions=500, max_message_length=65536
    )
    assert limits_of({"limitation": {"max_content_length": 5}}) == RelayLimits(max_content_length=1024)
    assert limits_of({"limitation": {"max_limit": 20}}) == RelayLimits(max_limit=20)
    assert limits_of({"limitation": {"max_limit": True, "max_subscriptions": -1}}) == RelayLimits()


def test_only_a_relay_of_rooms_that_names_its_key_has_rooms() -> None:
    key = "a" * 64
    limits = limits_of({"supported_nips": [1, 29], "self": key})
    assert limits == RelayLimits(rooms_key=key)
    for document in ({"supported_nips": [1], "self": key}, {"supported_nips": [29], "self": "x"}, {"self": key}):
        assert limits_of(document) is None
    assert limits_of({"supported_nips": [29], "self": 5, "limitation": {}}) == RelayLimits()


async def test_the_document_is_read_over_http(fault: FaultRelay) -> None:
    fault.document = {"name": "x", "limitation": {"max_limit": 77}}
    assert await read_limits(fault.url, 5) == RelayLimits(max_limit=77)
    fault.document = None
    assert await read_limits(fault.url, 5) is None


@pytest.mark.parametrize(
    ("answers", "tries", "came"),
    [
        ([503, 429, 200], 3, RelayLimits(max_limit=77)),
        ([404, 200], 1, None),
        ([503, 503, 503, 200], 3, "unread"),
    ],
)
async def test_a_busy_server_is_asked_again_a_bounded_number_of_times(
    answers: list[int], tries: int, came: RelayLimits | str | None
) -> None:
    asked: list[int] = []
    limits: RelayLimits | str | None

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.append(answers[len(asked)])
        body = b'{"limitation": {"max_limit": 77}}'
        writer.write(
            b"HTTP/1.1 %d X\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b" % (asked[-1], len(body), body)
        )
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1") as server:
        host, port = server.sockets[0].getsockname()
        url = f"ws://{host}:{port}"
        try:
            limits = await read_limits(url, 30)
        except DocumentUnread:
            limits = "unread"
    assert limits == came
    assert len(asked) == tries


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("wss://Relay.Example/", "wss://relay.example"),
        ("WS://relay.example:80", "ws://relay.example"),
        ("wss://relay.example:443/Path?a=B#c", "wss://relay.example/Path?a=B"),
        ("ws://[::1]:7000", "ws://[::1]:7000"),
        (" wss://bücher.example ", "wss://xn--bcher-kva.example"),
    ],
)
def test_urls_have_one_spelling(written: str, meant: str) -> None:
    assert normalise_url(written) == meant
    assert normalise_url(meant) == meant


@pytest.mark.parametrize(
    "url",
    [
        "http://x",
        "relay.example",
        "wss://",
        "ws://a b",
        "wss://me:secret@x",
        "ws://x:99999",
        "ws://x:0",
        "wss://a.example,wss://b.example",
        "wss://a.example;wss://b.example",
        "wss://a.example/,wss://b.example",
        "[wss://a.example]",
        "wss://[a.example]",
        "wss://wss://a.example",
        "wss://https://a.example",
        "wss://<a.example>",
        "'wss://a.example'",
        "wss://a.example|b",
    ],
)
def test_a_url_that_is_not_a_relays_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ValueError, match="relay") as refused:
        normalise_url(url)
    assert "secret" not in str(refused.value)


def test_this_machine_is_known_by_all_its_names() -> None:
    own = ["localhost", "127.0.0.1", "127.8.8.8", "[::1]", "a.localhost"]
    others = ["relay.example", "10.0.0.1", "localhost.example"]
    assert [host for host in (*own, *others) if is_loopback(f"ws://{host}:1")] == own
