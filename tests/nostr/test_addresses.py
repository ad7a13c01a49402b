"""Relays that others name are connected to only at public addresses, however these are written."""

import asyncio
from typing import Any

import pytest

from tenex.nostr import addresses as module
from tenex.nostr.addresses import PrivateAddress, is_private, public_address
from tenex.nostr.urls import normalise_url
from tests.fakes.faultrelay import FaultRelay
from tests.kits.addresses import PRIVATE, resolving_to

from .kit import ALICE, FAST, note, pool, read, running, written

PUBLIC = ["relay.example", "local.example", "8.8.8.8", "172.32.0.1", "[2606:4700::1111]", "134744072", "onion.example"]


def url_of(host: str) -> str:
    return normalise_url(f"ws://{host}")


@pytest.mark.parametrize("host", PRIVATE)
async def test_a_host_that_is_not_public_is_known_by_its_name(host: str) -> None:
    assert is_private(url_of(host))
    with pytest.raises(PrivateAddress, match=r"`relays\.urls`"):
        await public_address(url_of(host))


@pytest.mark.parametrize("host", PUBLIC)
def test_a_public_host_is_none_of_them(host: str) -> None:
    assert not is_private(url_of(host))


@pytest.mark.parametrize("found", [["10.0.0.1"], ["8.8.8.8", "127.0.0.1"], ["::ffff:127.0.0.1"], ["fe80::1%eth0"], []])
async def test_a_name_that_resolves_to_a_private_address_is_refused(
    found: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolving_to(*found))
    with pytest.raises(PrivateAddress):
        await public_address("wss://rebind.example")


async def test_a_public_name_gives_the_address_that_was_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolving_to("8.8.8.8", "2606:4700::1111"))
    assert await public_address("wss://relay.example") == "8.8.8.8"


def test_private_hints_of_a_message_take_no_place_of_public_ones() -> None:
    hosts = [*PRIVATE, "one.example", "[::1]:7447", "two.example"]
    incoming = read(written(*(["p", ALICE.public, f"ws://{host}"] for host in hosts)))
    assert incoming.origin["hints"] == ["ws://one.example", "ws://two.example"]
    assert "hints" not in read(written(["p", ALICE.public, "ws://127.0.0.1:7447"])).origin


async def test_a_private_relay_is_published_to_only_if_the_operator_has_named_it() -> None:
    """Both are on loopback; the one that no one has configured is not connected to."""
    async with FaultRelay() as own, FaultRelay() as other:
        relays = pool(own.url, others_must_be_public=True)
        async with running(relays):
            refused = await relays.publish(note(), other.url)
            assert not refused.accepted
            assert "only relays of `relays.urls`" in refused.detail
            assert (await relays.publish(note(), own.url + "/")).accepted
        assert other.connections == 0
        assert [status.url for status in relays.status()] == [own.url]


async def test_a_name_that_resolves_to_another_address_later_is_not_connected_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first answer is public, the one for the connection is this machine."""
    answers = [resolving_to("8.8.8.8"), resolving_to("127.0.0.1")]

    async def getaddrinfo(host: str, port: int, **options: object) -> Any:
        return await (answers.pop(0) if len(answers) > 1 else answers[0])(host, port, **options)

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
    async with FaultRelay() as other:
        relays = pool("ws://127.0.0.1:9", others_must_be_public=True)
        async with running(relays):
            publishing = asyncio.create_task(relays.publish(note(), f"ws://rebind.example:{other.port}"))
            async with asyncio.timeout(20):
                while not any("not at a public address" in status.fault for status in relays.status()):
                    await asyncio.sleep(FAST.retry_first)
            publishing.cancel()
        assert other.connections == 0


async def test_a_public_hint_is_connected_to_at_the_checked_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here the only address to be had counts as public; the handshake still names the host."""
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolving_to("127.0.0.1"))
    monkeypatch.setattr(module, "is_public", lambda _: True)
    async with FaultRelay() as other:
        relays = pool("ws://127.0.0.1:9", others_must_be_public=True)
        async with running(relays):
            assert (await relays.publish(note(), f"ws://relay.example:{other.port}")).accepted
        assert other.connections == 1
