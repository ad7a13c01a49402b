"""What the tests of the model client share: requests in one line, and a client before a loopback server."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from tenex.core.errors import ModelRefused, ModelUnavailable
from tenex.core.ids import CallId, Slug
from tenex.core.messages import CallRequest, CallResult, Entry, ModelRequest, ModelStep, Note, ToolSpec, UserText
from tenex.core.router.answer import DECISION_SCHEMA, schema_of_possible
from tenex.llm.client import ModelClient
from tenex.llm.config import ModelClientConfig, Price, ProviderConfig
from tenex.llm.scripted import OfflineModel
from tests.fakes.modelprotocol import Json, Reply
from tests.fakes.modelserver import ModelServer, model_server

from .otherservers import Answering, Served, serving

NAME = "local:test"
WRITE = ToolSpec(
    name="write_file",
    description="Write a file.",
    parameters={"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
)


def work(*entries: Entry, tools: tuple[ToolSpec, ...] = (), system: str = "You are a test.") -> ModelRequest:
    return ModelRequest(
        purpose="work",
        agent=Slug("executor"),
        phase="execute",
        system=system,
        entries=entries or (UserText(author="Ada", text="Hello"),),
        tools=tools,
    )


def route() -> ModelRequest:
    return ModelRequest(
        purpose="route",
        agent=Slug("tenex"),
        phase="chat",
        system="You are the orchestrator of a test.",
        entries=(Note(title="routing", text='{"phase": "chat"}'),),
        output_schema=DECISION_SCHEMA,
        possible=schema_of_possible(["executor"], ["chat", "execute"]),
    )


def called(*ids: str, text: str = "", vendor: Any = None) -> ModelStep:
    calls = tuple(CallRequest(id=CallId(name), tool="write_file", arguments={"path": name}) for name in ids)
    return ModelStep(text=text, calls=calls, vendor=vendor)


def result(name: str, content: str = "done", *, ok: bool = True) -> CallResult:
    return CallResult(id=CallId(name), tool="write_file", ok=ok, content=content)


def provider(server: ModelServer, **settings: Any) -> ProviderConfig:
    given = {"name": "local", "kind": "openai", "base_url": server.url, "api_key": server.key, **settings}
    return ProviderConfig(**given)


def client_for(
    *providers: ProviderConfig,
    chain: tuple[str, ...] = (NAME,),
    prices: Mapping[str, Price] | None = None,
    **settings: Any,
) -> ModelClient:
    config = ModelClientConfig(providers={one.name: one for one in providers}, prices=prices or {}, **settings)
    return ModelClient(config, lambda _purpose, _agent, _phase: chain, OfflineModel())


@asynccontextmanager
async def talking(
    respond: Callable[[Json], Reply] | list[Any] | Reply, **settings: Any
) -> AsyncIterator[tuple[ModelClient, ModelServer]]:
    """A client of one model that gives this answer, one of a list at a time, or what a function of the request gives.

    `provider_*` are settings of the provider.
    """
    own = {
        name.removeprefix("provider_"): settings.pop(name) for name in list(settings) if name.startswith("provider_")
    }

    def script(request: Json) -> Reply:
        if callable(respond):
            return respond(request)
        return respond.pop(0) if isinstance(respond, list) else respond

    async with model_server(script) as server:
        client = client_for(provider(server, **own), **settings)
        try:
            yield client, server
        finally:
            await client.close()


async def asked(respond: Any, *requests: ModelRequest, **settings: Any) -> tuple[list[Any], ModelServer]:
    """The steps or failures of such a client for these requests, one for work if none is given, and its server."""
    found: list[Any] = []
    async with talking(respond, **settings) as (client, server):
        for request in requests or (work(),):
            try:
                found.append(await client.step(request))
            except (ModelUnavailable, ModelRefused) as error:
                found.append(error)
    return found, server


@asynccontextmanager
async def vendor(
    answering: Answering, kind: str, model: str = "some-model", **settings: Any
) -> AsyncIterator[tuple[ModelClient, Served]]:
    """A client of one model of a vendor, before a server that speaks the vendor's own protocol."""
    async with serving(answering) as served:
        own = ProviderConfig(name=kind, base_url=served.url, api_key="sk-very-secret")
        client = client_for(own, chain=(f"{kind}:{model}",), **settings)
        yield client, served
        await client.close()
