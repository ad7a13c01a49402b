"""A proxy in front of a provider's server, on an ordinary port of loopback or in the network of a turn."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from tenex.core.ids import CallId
from tenex.core.messages import CallResult, ToolSpec
from tenex.features.acp_agents.proxy import Proxy, Remaining
from tenex.llm.config import ModelClientConfig, Price, ProviderConfig
from tenex.llm.rate_limit import ProviderQueue

from .vendor_server import KEY, VendorServer

CHAT = "gpt:test-chat"
CLAUDE = "claude:test-claude"
SMALL = "claude:test-small"
GEMINI = "gemini:test-gemini"
MODELS = (CHAT, CLAUDE, SMALL, GEMINI)

PRICE = Price(input=1.0, cached_input=0.5, output=10.0)
COST = (600 * 1.0 + 400 * 0.5 + 50 * 10.0) / 1_000_000
"""Dollars of one answer of the server."""

ASK = ToolSpec(
    name="ask",
    description="Asks a person.",
    parameters={"type": "object", "properties": {"question": {"type": "string"}}, "required": ["question"]},
)


def config_for(server: VendorServer, key: str = KEY, **more: Any) -> ModelClientConfig:
    """The settings of providers at that server."""
    providers = [
        ProviderConfig(name="gpt", kind="openai", base_url=f"{server.url}/v1", api_key=key),
        ProviderConfig(name="claude", kind="anthropic", base_url=server.url, api_key=key),
        ProviderConfig(name="gemini", kind="google", base_url=server.url, api_key=key),
    ]
    return ModelClientConfig(
        **{
            "providers": {provider.name: provider for provider in providers},
            "prices": dict.fromkeys(MODELS, PRICE),
            **more,
        }
    )


class Calls:
    """The calls of tools that came over the bridge; they wait for `answer`, unless it is set before."""

    def __init__(self) -> None:
        self.asked: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue()
        self.answer: asyncio.Future[CallResult] = asyncio.get_running_loop().create_future()
        self.cancelled = asyncio.Event()

    async def __call__(self, name: str, arguments: Mapping[str, Any]) -> CallResult:
        self.asked.put_nowait((name, dict(arguments)))
        try:
            return await asyncio.shield(self.answer)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


def result(content: str, *, ok: bool = True) -> CallResult:
    return CallResult(id=CallId("call-1"), tool="ask", ok=ok, content=content)


def listener() -> socket.socket:
    """An ordinary listening socket of this machine."""
    made = socket.create_server(("127.0.0.1", 0))
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


@asynccontextmanager
async def proxy(
    config: ModelClientConfig,
    *,
    listeners: Sequence[socket.socket] | None = None,
    remaining: Remaining = Remaining(),  # noqa: B008 - frozen
    models: Sequence[str] = MODELS,
    tools: Sequence[ToolSpec] = (ASK,),
    hosts: Sequence[str] = (),
    calls: Calls | None = None,
    queue_of: Callable[[str], ProviderQueue] | None = None,
) -> AsyncIterator[Proxy]:
    """A proxy for as long as the block lasts."""
    made = Proxy(
        listeners or [listener(), *([listener()] if hosts else [])],
        config,
        models,
        remaining=lambda: remaining,
        tools=lambda: tools,
        on_tool_call=calls or Calls(),
        queue_of=queue_of,
        hosts=hosts,
    )
    await made.start()
    try:
        yield made
    finally:
        await made.close()


def with_provider(config: ModelClientConfig, name: str, **changes: Any) -> ModelClientConfig:
    """The same settings with another provider of that name."""
    return replace(config, providers={**config.providers, name: replace(config.providers[name], **changes)})
