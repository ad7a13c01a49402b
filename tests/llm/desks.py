"""What the tests of the model desk share: requests in one line, and a desk before a loopback server."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from tenex.core.ids import CallId, Slug
from tenex.core.routing import DECISION_SCHEMA
from tenex.core.steps import CallRequest, CallResult, Entry, ModelRequest, ModelStep, Note, PersonText, ToolSpec
from tenex.llm.config import DeskConfig, Price, ProviderConfig
from tenex.llm.desk import ModelDesk
from tenex.llm.offline import OfflineModel
from tenex.llm.report import CallReport
from tests.fakes.modelprotocol import Json, Reply
from tests.fakes.modelserver import ModelServer, model_server

NAME = "local:test"
WRITE = ToolSpec(
    name="write_file", description="Write a file.",
    parameters={"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
)  # fmt: skip


def work(*entries: Entry, tools: tuple[ToolSpec, ...] = (), system: str = "You are a test.") -> ModelRequest:
    return ModelRequest(
        purpose="work", agent=Slug("executor"), phase="execute", system=system,
        entries=entries or (PersonText(author="Ada", text="Hello"),), tools=tools,
    )  # fmt: skip


def route() -> ModelRequest:
    return ModelRequest(
        purpose="route", agent=Slug("tenex"), phase="chat", system="You are the orchestrator of a test.",
        entries=(Note(title="routing", text='{"phase": "chat"}'),), output_schema=DECISION_SCHEMA,
    )  # fmt: skip


def called(*ids: str, text: str = "", vendor: Any = None) -> ModelStep:
    calls = tuple(CallRequest(id=CallId(name), tool="write_file", arguments={"path": name}) for name in ids)
    return ModelStep(text=text, calls=calls, vendor=vendor)


def result(name: str, content: str = "done", *, ok: bool = True) -> CallResult:
    return CallResult(id=CallId(name), tool="write_file", ok=ok, content=content)


def provider(server: ModelServer, **settings: Any) -> ProviderConfig:
    given = {"name": "local", "kind": "openai", "base_url": server.url, "api_key": server.key, **settings}
    return ProviderConfig(**given)


def desk_for(
    *providers: ProviderConfig, chain: tuple[str, ...] = (NAME,), prices: Mapping[str, Price] | None = None,
    observe: Callable[[CallReport], None] = lambda _report: None, **settings: Any,
) -> ModelDesk:  # fmt: skip
    config = DeskConfig(providers={one.name: one for one in providers}, prices=prices or {}, **settings)
    return ModelDesk(config, lambda _purpose, _agent, _phase: chain, OfflineModel(), observe)


@asynccontextmanager
async def talking(mind: Callable[[Json], Reply], **settings: Any) -> AsyncIterator[tuple[ModelDesk, ModelServer]]:
    """A desk whose only model is the mind, behind real HTTP. Settings of the provider are given as `provider_*`."""
    own = {
        name.removeprefix("provider_"): settings.pop(name) for name in list(settings) if name.startswith("provider_")
    }
    async with model_server(mind) as server:
        desk = desk_for(provider(server, **own), **settings)
        try:
            yield desk, server
        finally:
            await desk.close()
