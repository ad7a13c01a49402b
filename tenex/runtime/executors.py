"""Executors: each carries out one kind of effect and returns one signal, whatever happens.

Broad `except` on purpose: an internal error in an executor becomes a failure signal and does not end the daemon.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, assert_never

from tenex.core.agent_phases.decide import offered
from tenex.core.config import Policy
from tenex.core.conversation import Conversation
from tenex.core.cycle.checks import CheckResult, Inspection
from tenex.core.effects import (
    Check,
    Effect,
    Evaluate,
    Inspect,
    KindEffect,
    ModelCall,
    Publish,
    Route,
    Show,
    Timer,
    ToolCall,
    Undo,
)
from tenex.core.errors import ModelRefused, ModelUnavailable, TenexError
from tenex.core.ids import ConversationId
from tenex.core.memory.window import CONTEXT_TOKENS, fitted
from tenex.core.messages import ModelRequest, ModelStep, Usage, with_usable_calls
from tenex.core.port_values import ShowOutcome, UndoOutcome
from tenex.core.ports import Checks, Clock, KindRunner, Model, OnText, Prompter, ToolResult, Tools, ignore_text
from tenex.core.signals import (
    Checked,
    DayLimitReached,
    FilesChanged,
    Inspected,
    KindSignal,
    ModelAnswered,
    ModelCallInterrupted,
    ModelFailed,
    Published,
    RouteAnswered,
    ShowReturned,
    Signal,
    TimerFired,
    ToolReturned,
    UndoReturned,
)
from tenex.core.values import replace
from tenex.core.work.runs import possible_completion
from tenex.log import get_logger

from .daily_limits import DailyLimits
from .functions import FunctionCalls
from .outbox import Outbox
from .reconciler import Task
from .run_tools import RunTools

log = get_logger(__name__)


LEAST_TIME: Final = 1.0
"""Seconds that a model has for an answer that begins when an agent's time is up."""


def _ignore(signal: Signal) -> None:
    """Drop an intermediate signal."""


async def _names_no_files(_: str, __: Mapping[str, Any]) -> Mapping[str, str]:
    return {}


async def _shows_nothing(_: Show) -> ShowOutcome:
    return ShowOutcome(text="Files cannot be shown here.")


async def _no_files(_: Undo) -> UndoOutcome:
    return UndoOutcome(fault="earlier files are not known here.")


class NoChecks:
    """Checks where nothing is known of a workspace."""

    async def inspect(self, effect: Inspect) -> Inspection:
        """Nothing is known to differ."""
        del effect
        return Inspection(fault="there are no checkpoints")

    async def run(self, effect: Check) -> CheckResult:
        """There is none."""
        return CheckResult(name=effect.name, command="", tree=effect.tree, outcome="missing", reason="no such check")


@dataclass(frozen=True, slots=True, kw_only=True)
class Executors:
    """Everything that carries out effects; one object for all conversations."""

    clock: Clock
    model: Model
    tools: Tools
    prompter: Prompter
    outbox: Outbox
    daily: DailyLimits
    policy: Callable[[], Policy]
    budget: Callable[[], int] = lambda: CONTEXT_TOKENS
    """Estimated tokens of a request, as configured now."""
    on_text: Callable[[Conversation, ModelCall], OnText] = lambda _conversation, _call: ignore_text
    kind_runner: KindRunner | None = None
    checks: Checks = field(default_factory=NoChecks)
    undo: Callable[[Undo], Awaitable[UndoOutcome]] = _no_files
    """Lists or puts back what a conversation changed in the workspace."""
    show: Callable[[Show], Awaitable[ShowOutcome]] = _shows_nothing
    """Reads a file of the workspace for a user."""
    named_files: Callable[[str, Mapping[str, Any]], Awaitable[Mapping[str, str]]] = _names_no_files
    """Gives the files of the workspace that a call of a tool names, with their digests."""
    functions: FunctionCalls = field(default_factory=FunctionCalls)
    run_tools: RunTools = field(default_factory=RunTools)

    def prepare(  # noqa: C901 one case an effect: flat, and complete
        self, conversation: Conversation, effect: Effect, post: Callable[[Signal], None] = _ignore
    ) -> Task:
        """Capture what an effect needs of the current state; the task carries it out later, or never.

        `post` receives a mission's intermediate signals and the cost of cancelled calls.
        """
        match effect:
            case Route():
                return partial(self._ask, conversation, effect, ignore_text, post)
            case ModelCall():
                return partial(self._ask, conversation, effect, self.on_text(conversation, effect), post)
            case ToolCall():
                return partial(self._call, effect)
            case Publish():
                return partial(self._publish, conversation.id, effect)
            case Timer():
                return partial(self._sleep, effect)
            case Evaluate():
                return partial(self._evaluate, conversation, effect)
            case Undo():
                return partial(self._undo, effect)
            case Show():
                return partial(self._show, effect)
            case Inspect():
                return partial(self._inspect, effect)
            case Check():
                return partial(self._check, effect)
            case KindEffect(key=key):
                reached = self.daily.reached(key, conversation.on_behalf_of)
                if reached is not None:
                    return partial(self._hold, reached)
                if self.kind_runner is not None:
                    return self.kind_runner.prepare(effect, post)
                return partial(self._refuse, effect)
            case _:
                assert_never(effect)

    def _request(self, conversation: Conversation, effect: Route | ModelCall) -> ModelRequest:
        if isinstance(effect, Route):
            return replace(self.prompter.route(conversation), is_urgent=effect.is_urgent)
        run = conversation.work.runs[effect.run]
        policy = self.policy()
        specs = self.run_tools.of(conversation.id, run, policy, self.tools.specs)
        tools = tuple(
            replace(tool, possible=possible_completion(tool.parameters, run)) if tool.name == "complete" else tool
            for tool in offered(conversation, run, policy, specs)
        )
        agent = policy.roster.get(run.agent)
        return ModelRequest(
            purpose="work",
            agent=run.agent,
            phase=run.phase,
            system=effect.system,
            tools=tools,
            entries=fitted(effect.system, effect.entries, tools, self.budget()),
            conversation=conversation.id,
            run=run.id,
            turn=conversation.work.turn.turn_id if conversation.work.turn is not None else "",
            cycle=conversation.cycle.number,
            idempotency_key=f"{conversation.id}:{effect.key.seq}",
            time_left=max((run.close_at - self.clock.now()) / 1000, LEAST_TIME),
            is_urgent=effect.is_urgent,
            methods=frozenset(agent.methods if agent is not None else ()),
        )

    async def _ask(
        self, conversation: Conversation, effect: Route | ModelCall, on_text: OnText, post: Callable[[Signal], None]
    ) -> Signal:
        key = effect.key
        run = effect.run if isinstance(effect, ModelCall) else None

        def paid(usage: Usage, model: str) -> None:
            if usage.tokens or usage.cost_usd:
                post(ModelCallInterrupted(run=run, usage=usage, model=model))

        try:
            person = conversation.on_behalf_of
            priority = self.daily.priority(person)
            asked = replace(self._request(conversation, effect), person=person, priority=priority, on_cancelled=paid)
            async with self.daily.call(conversation, key, asked) as call:
                if call.reached is not None:
                    return call.reached
                step = with_usable_calls(await self.model.step(asked, on_text))
                call.taken = step.usage
            if run is None:
                return RouteAnswered(key=key, step=step)
            return ModelAnswered(key=key, step=step, run=run, files=await self._named_files(step))
        except (ModelUnavailable, ModelRefused) as error:
            return ModelFailed.of(key, error, run)
        except Exception as error:  # a fault of one model's client ends one run, not the conversation
            log.exception("executor.failed", executor="model", key_seq=key.seq)
            return ModelFailed(key=key, run=run, message=f"an internal error: {type(error).__name__}", retryable=False)

    async def _named_files(self, step: ModelStep) -> tuple[Mapping[str, str], ...]:
        """The files that the calls of a step name, of those that a person may be asked about; () for none at all."""
        policy = self.policy()
        named = [
            await self.named_files(call.tool, call.arguments) if policy.may_ask(call.tool, call.arguments) else {}
            for call in step.calls
        ]
        return tuple(named) if any(named) else ()

    async def _call(self, effect: ToolCall) -> Signal:
        try:
            if effect.unchanged is not None:
                files = await self.named_files(effect.request.tool, effect.request.arguments)
                if files != effect.unchanged:
                    return FilesChanged(key=effect.key, files=files)
            result = await self.tools.call(effect.request.tool, effect.request.arguments, effect.context)
        except Exception as error:
            log.exception("executor.failed", executor="tool", tool=effect.request.tool)
            result = ToolResult(ok=False, content=f"The tool failed: {type(error).__name__}.")
        return ToolReturned(key=effect.key, result=result)

    async def _evaluate(self, conversation: Conversation, effect: Evaluate) -> Signal:
        return await self.functions.evaluate(conversation, effect, self.policy(), self.clock.now())

    async def _undo(self, effect: Undo) -> Signal:
        try:
            outcome = await self.undo(effect)
        except TenexError as error:
            outcome = UndoOutcome(fault=str(error))
        except Exception as error:
            log.exception("executor.failed", executor="undo")
            outcome = UndoOutcome(fault=f"an internal error: {type(error).__name__}")
        return UndoReturned(key=effect.key, outcome=outcome)

    async def _show(self, effect: Show) -> Signal:
        try:
            outcome = await self.show(effect)
        except Exception as error:
            log.exception("executor.failed", executor="show")
            outcome = ShowOutcome(text=f"{effect.path} was not sent: an internal error, {type(error).__name__}.")
        return ShowReturned(key=effect.key, outcome=outcome)

    async def _inspect(self, effect: Inspect) -> Signal:
        try:
            inspection = await self.checks.inspect(effect)
        except Exception as error:
            log.exception("executor.failed", executor="inspect")
            inspection = Inspection(fault=f"an internal error: {type(error).__name__}")
        return Inspected(key=effect.key, inspection=inspection)

    async def _check(self, effect: Check) -> Signal:
        try:
            result = await self.checks.run(effect)
        except Exception as error:
            log.exception("executor.failed", executor="check", check=effect.name)
            why = f"an internal error: {type(error).__name__}"
            result = CheckResult(name=effect.name, command="", tree=effect.tree, outcome="uncontained", reason=why)
        return Checked(key=effect.key, result=result)

    async def _publish(self, conversation: ConversationId, effect: Publish) -> Signal:
        outcome = await self.outbox.publish(conversation, effect.event, effect.relay)
        return Published(key=effect.key, outcome=outcome)

    async def _hold(self, reached: DayLimitReached) -> Signal:
        return reached

    async def _refuse(self, effect: KindEffect) -> Signal:
        refused: KindSignal = effect.cannot_run()
        return refused

    async def _sleep(self, effect: Timer) -> Signal:
        await self.clock.sleep_until(effect.due)
        return TimerFired(key=effect.key)
