"""A registry with one tool, which its one agent has, and a server with pages."""

import asyncio
import ssl
from dataclasses import dataclass, field, replace

from tenex.core.ids import Slug
from tenex.tools.registry import ToolRegistry
from tenex.tools.tool import Tool
from tests.kits.connections import ends_with_its_test
from tests.tools.conftest import ROSTER

DOMAIN = "pages.example"
PROXIES = ("https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")


def offering(tool: Tool) -> ToolRegistry:
    """A registry in which the executor has this tool."""
    executor = replace(ROSTER[Slug("executor")], tools=frozenset({tool.name}))
    return ToolRegistry([tool], {executor.slug: executor}.get)


@dataclass
class Site:
    """A server on loopback with pages by path, over TLS and without."""

    pages: dict[str, tuple[str, dict[str, str], bytes]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    https: str = ""
    http: str = ""
    is_silent: bool = False

    def page(self, path: str, body: bytes | str, kind: str = "text/html", status: str = "200 OK", **head: str) -> None:
        content = body.encode() if isinstance(body, str) else body
        fields = {name.replace("_", "-"): value for name, value in head.items()}
        self.pages[path] = (status, {**({"Content-Type": kind} if kind else {}), **fields}, content)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.asked.append(head)
        path = head.split()[1]
        if self.is_silent:
            await reader.read()
        elif path == "/endless":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
            while not writer.is_closing():
                writer.write(b"x" * 65536)
                try:
                    await writer.drain()
                except ConnectionError:
                    break
        else:
            status, fields, body = self.pages.get(path, ("404 Not Found", {}, b"gone"))
            lines = [f"{name}: {value}\r\n" for name, value in fields.items()]
            start = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n{''.join(lines)}\r\n"
            writer.write(start.encode() + body)


async def listen(site: Site, tls: ssl.SSLContext | None) -> tuple[asyncio.Server, int]:
    server = await asyncio.start_server(ends_with_its_test(site.handle), "127.0.0.1", 0, ssl=tls)
    return server, server.sockets[0].getsockname()[1]
