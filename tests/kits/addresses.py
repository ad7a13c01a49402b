"""Addresses of this machine and its network in all their spellings, names that lead to them, and a server of names."""

import asyncio
import json
import socket
from typing import Any

from tests.nostr.kit import ALICE

from .connections import ends_with_its_test

PRIVATE = [
    "127.0.0.1",
    "127.1",
    "127.8.8.8:7447",
    "2130706433",
    "0x7f000001",
    "0177.0.0.1",
    "017700000001",
    "0x7f.1",
    "0",
    "0.0.0.0",
    "10.1.2.3",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "224.0.0.1",
    "255.255.255.255",
    "[::1]",
    "[::]",
    "[fc00::1]",
    "[fd12:3456::1]",
    "[fe80::1]",
    "[fec0::1]",
    "[ff02::1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:a00:1]",
    "[::127.0.0.1]",
    "[64:ff9b::10.0.0.1]",
    "[2002:7f00:1::]",
    "localhost",
    "LOCALHOST.",
    "relay.localhost",
    "printer.local",
    "metadata.google.internal",
    "router.lan",
    "nas.home.arpa",
    "intranet",
    "expyuzz4wqqyqhjn.onion",
    "１２７.0.0.1",
    "127。0。0。1",
]


def resolving_to(*found: str) -> Any:
    """A resolver that finds these addresses for every name."""

    async def getaddrinfo(host: str, port: int, **_: object) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in found]

    return getaddrinfo


NAMES = {"names": {"alice": ALICE.public, "_": ALICE.public, "broken": "npub1x", "listed": [ALICE.public]}}


class Server:
    """A web server for one domain, on loopback, that gives one answer to everything."""

    def __init__(self) -> None:
        self.status = "200 OK"
        self.head = ""
        self.body = json.dumps(NAMES).encode()
        self.asked: list[str] = []
        self.answers = True

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await ends_with_its_test(self._answer)(reader, writer)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.asked.append(head)
        if not self.answers:
            await reader.read()
            return
        size = f"Content-Length: {len(self.body)}\r\n"
        answer = f"HTTP/1.1 {self.status}\r\n{self.head}{size}Connection: close\r\n\r\n"
        writer.write(answer.encode() + self.body)
