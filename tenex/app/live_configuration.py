"""The configuration in force, behind the ports: what begins after a reload goes by the new one."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from tenex.configuration.build import Configuration
from tenex.core.config import Policy
from tenex.core.conversation import Conversation, Run
from tenex.core.effects import NodeRun
from tenex.core.ids import Slug
from tenex.core.messages import ModelRequest, ModelStep, Quote, ToolSpec
from tenex.core.phases import Phase
from tenex.core.ports import ExecutionContext, NodeTask, OnText, Prompt, ToolResult, ignore_text
from tenex.core.signals import Signal
from tenex.llm.client import ModelClient
from tenex.runtime.daily_limits import quote_tokens


class LiveConfiguration:
    """`Model`, `Tools`, `Prompter` and `Missions` of whichever configuration is in force (`core.ports`)."""

    def __init__(self, first: Configuration) -> None:
        self.now = first
        self._closing: set[asyncio.Task[None]] = set()

    def change(self, configuration: Configuration) -> None:
        """Put another in force; calls under way end with the model client they began with, which is then closed."""
        before, self.now = self.now.model, configuration
        if isinstance(before, ModelClient) and before is not configuration.model:
            task = asyncio.create_task(before.close(), name="close models of a reload")
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def providers(self) -> list[dict[str, Any]]:
        """How busy each provider of models is."""
        model = self.now.model
        return [asdict(status) for status in model.status()] if isinstance(model, ModelClient) else []

    async def close(self) -> None:
        """Close every model client."""
        model = self.now.model
        if isinstance(model, ModelClient):
            await model.close()
        await asyncio.gather(*self._closing, return_exceptions=True)

    def rules(self) -> Policy:
        """What is decided by."""
        return self.now.rules

    async def step(self, request: ModelRequest, on_text: OnText = ignore_text) -> ModelStep:
        """Ask the model."""
        return await self.now.model.step(request, on_text)

    def quote(self, request: ModelRequest) -> Quote:
        """What a call may take."""
        model = self.now.model
        return model.quote(request) if isinstance(model, ModelClient) else quote_tokens(request)

    def specs(self, phase: Phase, agent: Slug) -> tuple[ToolSpec, ...]:
        """What an agent is offered."""
        return self.now.tools.specs(phase, agent)

    async def call(self, name: str, arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        """Run a call."""
        return await self.now.tools.call(name, arguments, context)

    def prepare(self, effect: NodeRun, post: Callable[[Signal], None]) -> NodeTask:
        """Run a mission's node, by the code there is when it begins."""
        return self.now.missions.prepare(effect, post)

    def work(self, conversation: Conversation, run: Run) -> Prompt:
        """Tell an agent what it is about."""
        return self.now.prompter.work(conversation, run)

    def route(self, conversation: Conversation) -> ModelRequest:
        """Ask the router's question."""
        return self.now.prompter.route(conversation)
