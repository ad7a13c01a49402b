"""What an agent's program reaches beside its files: the models of its agent, our tools, and hosts by name."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, Final

from tenex.configuration.models import client_config
from tenex.core.config import Limits
from tenex.core.conversation import Conversation
from tenex.core.errors import ConfigurationError, ModelUnavailable
from tenex.core.ids import RunId
from tenex.core.messages import NO_USAGE, ToolSpec, Usage
from tenex.core.ports import ExecutionContext
from tenex.llm.client import ModelClient
from tenex.llm.config import OFFLINE
from tenex.prompting.agents import AcpProgram
from tenex.tools.shared_namespaces import CannotShare, SharedNamespaces, listen
from tenex.tools.tool import Refusal

from .bridge import OnToolCall
from .prompts import SERVER
from .proxy import Proxy, Remaining

if TYPE_CHECKING:
    from tenex.app import Application

_NOT_PROXIED: Final = "127.0.0.1,localhost"


class Links:
    """The proxy of one process; belongs to one event loop."""

    def __init__(self, proxy: Proxy, on_taken: Callable[[Usage], None] = lambda _: None) -> None:
        self._proxy = proxy
        self._on_taken = on_taken
        self.models: tuple[str, ...] = ()
        """Those that were used since the call of `taken` before the last."""

    @property
    def addresses(self) -> Mapping[str, str]:
        """Where models are served, by protocol."""
        return self._proxy.addresses

    @property
    def is_over_limit(self) -> bool:
        """Whether a request to a model was refused because too little is left of a limit."""
        return self._proxy.is_over_limit

    @property
    def variables(self) -> Mapping[str, str]:
        """Variables that the program needs to reach hosts by name."""
        proxy = self._proxy.addresses.get("proxy")
        if proxy is None:
            return {}
        names = dict.fromkeys(("HTTPS_PROXY", "https_proxy"), proxy)
        return {**names, **dict.fromkeys(("NO_PROXY", "no_proxy"), _NOT_PROXIED)}

    @property
    def mcp_servers(self) -> Sequence[Mapping[str, Any]]:
        """Where our tools are served, as `session/new` takes it."""
        return ({"type": "http", "name": SERVER, "url": self._proxy.addresses["mcp"], "headers": []},)

    def taken(self) -> Usage:
        """What its models have used since the last call."""
        used = self._proxy.taken()
        self.models = tuple(used)
        usage = reduce(add, used.values(), NO_USAGE)
        self._on_taken(usage)
        return usage

    async def close(self) -> None:
        """Close all of it; the process has ended before."""
        await self._proxy.close()


async def open_links(
    app: "Application",
    shared: SharedNamespaces,
    program: AcpProgram,
    context: ExecutionContext,
    tools: Sequence[ToolSpec],
    on_tool_call: OnToolCall,
) -> Links:
    """Serve models and tools in the network of a turn.

    Raises:
        ModelUnavailable: a model of the agent cannot be used by a program.
        Refusal: this machine does not permit it.
    """
    settings = app.current.now.settings
    member = app.policy.roster.get(context.agent)
    own = member.model if member is not None else ""
    models = [name for name in settings.models.for_agent(context.agent, context.phase, own or None) if name != OFFLINE]
    config, _ = await asyncio.to_thread(client_config, settings, app.places)
    client = app.current.now.model
    offered = [replace(tool, parameters=tool.possible or tool.parameters) for tool in tools]
    try:
        listeners = await asyncio.to_thread(listen, shared, 2 if program.hosts else 1)
    except CannotShare as error:
        raise Refusal(f"this machine does not permit ports in the network of a turn ({error})") from error
    left = _Left(app, context)
    try:
        proxy = Proxy(
            listeners,
            config,
            models,
            remaining=left.remaining,
            tools=lambda: offered,
            on_tool_call=on_tool_call,
            queue_of=client.queue if isinstance(client, ModelClient) else None,
            hosts=program.hosts,
        )
    except ConfigurationError as error:
        for listener in listeners:
            listener.close()
        raise ModelUnavailable(f"its program cannot be started: {error}", needs_operator=True) from error
    await proxy.start()
    return Links(proxy, left.take)


class _Left:
    """What is left of the limits of a run, its cycle and its conversation.

    The program goes on while a step of it is being recorded: what that step has used counts until it is.
    """

    def __init__(self, app: "Application", context: ExecutionContext) -> None:
        self._app = app
        self._context = context
        self._taken = NO_USAGE
        """By the newest step."""
        self._before = NO_USAGE
        """What was recorded of the run when that was taken."""

    def take(self, usage: Usage) -> None:
        """Count what a step takes, until it is recorded."""
        self._taken = usage
        self._before = self._recorded()

    def remaining(self) -> Remaining:
        """What is left now."""
        conversation = self._app.coordinator.conversation(self._context.conversation_id)
        if conversation is None:
            return Remaining()
        unrecorded = self._taken if self._recorded() == self._before else NO_USAGE
        return remaining(conversation, self._context.run, self._app.policy.limits, unrecorded)

    def _recorded(self) -> Usage:
        conversation = self._app.coordinator.conversation(self._context.conversation_id)
        run = conversation.work.runs.get(self._context.run) if conversation is not None else None
        return run.usage if run is not None else NO_USAGE


def remaining(conversation: Conversation, run: RunId, limits: Limits, unrecorded: Usage) -> Remaining:
    """The least that is left of the limits that a run is stopped by; `unrecorded` is used besides."""
    own = conversation.work.runs.get(run)
    cycle = NO_USAGE if conversation.is_talk else conversation.cycle.usage - conversation.cycle.talk_usage
    total = conversation.totals.usage - conversation.totals.granted
    bounds = (
        (own.usage if own is not None else NO_USAGE, limits.tokens_per_run, limits.cost_per_run_usd),
        (cycle, limits.tokens_per_cycle, limits.cost_per_cycle_usd),
        (total, limits.tokens_per_conversation, limits.cost_per_conversation_usd),
    )
    tokens = [most - (used + unrecorded).tokens for used, most, _ in bounds if most]
    costs = [most - ((used + unrecorded).cost_usd or 0.0) for used, _, most in bounds if most]
    return Remaining(tokens=min(tokens, default=None), cost_usd=min(costs, default=None))
