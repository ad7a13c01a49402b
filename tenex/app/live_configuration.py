"""The configuration in force, behind the ports, and its reload: what begins after a reload uses the new one."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from typing import Any

from tenex.configuration.build import Configuration
from tenex.core.config import Policy
from tenex.core.conversation import Conversation, Run
from tenex.core.cycle.checks import CheckResult, Inspection
from tenex.core.effects import Check, Inspect, KindEffect
from tenex.core.errors import ConfigurationError, TenexError
from tenex.core.ids import Slug
from tenex.core.messages import ModelRequest, ModelStep, Quote, ToolSpec
from tenex.core.phases import Phase
from tenex.core.ports import Checks, Clock, ExecutionContext, KindTask, OnText, Prompt, ToolResult, ignore_text
from tenex.core.signals import Signal
from tenex.llm.client import ModelClient
from tenex.log import get_logger
from tenex.operations.status import Reloaded
from tenex.runtime.daily_limits import quote_tokens
from tenex.runtime.executors import NoChecks

log = get_logger(__name__)


class LiveConfiguration:
    """`Model`, `Tools`, `Prompter` and `KindRunner` (`core.ports`) by the current configuration."""

    def __init__(self, first: Configuration) -> None:
        self.now = first
        self._daemons = 1
        self._closing: set[asyncio.Task[None]] = set()

    def change(self, configuration: Configuration) -> None:
        """Replace the configuration; running calls keep the model client they began with, which is then closed."""
        before = self.now.model
        self.now = configuration
        self.share(self._daemons)
        if isinstance(before, ModelClient) and before is not configuration.model:
            task = asyncio.create_task(before.close(), name="close models of a reload")
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def share(self, daemons: int) -> None:
        """Have so many daemons, of which this is one, share the limits of the model providers."""
        is_changed = daemons != self._daemons or daemons > 1
        self._daemons = daemons
        model = self.now.model
        if is_changed and isinstance(model, ModelClient):
            model.share(daemons)

    def providers(self) -> list[dict[str, Any]]:
        """The load of each model provider."""
        model = self.now.model
        return [asdict(status) for status in model.status()] if isinstance(model, ModelClient) else []

    async def close(self) -> None:
        """Close every model client."""
        model = self.now.model
        if isinstance(model, ModelClient):
            await model.close()
        await asyncio.gather(*self._closing, return_exceptions=True)

    def policy(self) -> Policy:
        """The current policy."""
        return self.now.policy

    async def step(self, request: ModelRequest, on_text: OnText = ignore_text) -> ModelStep:
        """Call the model."""
        return await self.now.model.step(request, on_text)

    def quote(self, request: ModelRequest) -> Quote:
        """The most a call may use."""
        model = self.now.model
        return model.quote(request) if isinstance(model, ModelClient) else quote_tokens(request)

    def specs(self, phase: Phase | None, agent: Slug) -> tuple[ToolSpec, ...]:
        """The tools an agent is offered."""
        return self.now.tools.specs(phase, agent)

    async def call(self, name: str, arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        """Run a call."""
        return await self.now.tools.call(name, arguments, context)

    def prepare(self, effect: KindEffect, post: Callable[[Signal], None]) -> KindTask:
        """Prepare the work of a kind; it uses the code that is loaded when it begins."""
        return self.now.missions.prepare(effect, post)

    def work(self, conversation: Conversation, run: Run) -> Prompt:
        """The prompt of a run."""
        return self.now.prompter.work(conversation, run)

    def route(self, conversation: Conversation) -> ModelRequest:
        """The request to the router."""
        return self.now.prompter.route(conversation)


class LiveChecks:
    """`Checks` (`core.ports`) by the current configuration; a check that runs keeps the one it began with."""

    def __init__(self, current: LiveConfiguration) -> None:
        self._current = current

    @property
    def _now(self) -> Checks:
        return self._current.now.checks or NoChecks()

    async def inspect(self, effect: Inspect) -> Inspection:
        """Look at the workspace."""
        return await self._now.inspect(effect)

    async def run(self, effect: Check) -> CheckResult:
        """Run a check."""
        return await self._now.run(effect)


class Reloading:
    """Call it to reload the configuration."""

    def __init__(self, work: Callable[[], Awaitable[list[str]]], clock: Clock) -> None:
        """Use `work`, which replaces the configuration and returns what needs a restart, or raises."""
        self._work = work
        self._clock = clock
        self._turn = asyncio.Lock()
        self.last: Reloaded | None = None
        """The last result; None before the first reload."""

    async def __call__(self) -> list[str]:
        """Reload; returns a sentence for each change that needs a restart.

        Raises:
            ConfigurationError: with every fault; the old configuration is still in force.
        """
        async with self._turn:
            try:
                needs_restart = await self._work()
            except TenexError as fault:
                faults = fault.faults if isinstance(fault, ConfigurationError) else (str(fault),)
                self.last = Reloaded(at=self._clock.now(), faults=tuple(faults))
                log.error("configuration.refused", faults=list(faults), still="the configuration before it")
                raise
            self.last = Reloaded(at=self._clock.now(), needs_restart=tuple(needs_restart))
            log.info("configuration.reloaded", needs_restart=needs_restart)
            return needs_restart
