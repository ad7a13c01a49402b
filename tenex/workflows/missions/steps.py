"""What a node is given while it runs: the state, the dependencies, and durable steps.

    await ctx.step("pay", pay, order, replay="idempotent")

A step is journaled: that it may have its effect, before; its result, after. A node that runs again, in this process or
the next, is given the results of the steps that returned and does not have their effects twice; the code between
steps runs again, so it must come to the same steps. A step is known by its name and how often that was used before.
"""

import functools
import inspect
import math
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, ParamSpec, Protocol, TypeVar, get_args, get_origin, overload

from tenex.core.errors import WorkflowError
from tenex.core.messages import Usage

StateT = TypeVar("StateT")
DepsT = TypeVar("DepsT")
P = ParamSpec("P")
T = TypeVar("T")

ReplayName = Literal["read", "idempotent", "once"]
FROM_ANNOTATION: Any = object()
"""The type of a step's result is what its function is annotated to return."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What an agent or a workflow answered to a node; of a workflow also why it ended, and its variables."""

    text: str
    reason: str = ""
    context: dict[str, Any] = field(default_factory=dict)


class Steps(Protocol):
    """Has steps journaled, for one run of a node."""

    async def step(self, name: str, call: Callable[[str], Any], replay: ReplayName, returns: Any, label: str) -> Any:
        """The result of a step: journaled, or of `call`, which is given the idempotency key."""
        ...

    async def ask(self, name: str, message: str, key: str) -> Answer:
        """What an agent or a workflow of the daemon answers."""
        ...

    async def pause(self, reason: str) -> None:
        """Pause the mission here."""
        ...


class GraphRunContext(Generic[StateT, DepsT]):
    """A running node's surroundings; `state` is recorded when a step returns and when the node does."""

    def __init__(self, state: StateT, deps: DepsT, steps: Steps, *, mission: str, attempt: int) -> None:
        self.state = state
        self.deps = deps
        self.mission = mission
        """The id of the mission."""
        self.attempt = attempt
        """Tries of this visit that failed before."""
        self._steps = steps

    @overload
    async def step(
        self,
        name: str,
        fn: Callable[..., Awaitable[T]],
        /,
        *args: Any,
        replay: ReplayName = ...,
        returns: Any = ...,
        **kwargs: Any,
    ) -> T: ...

    @overload
    async def step(
        self,
        name: str,
        fn: Callable[..., T],
        /,
        *args: Any,
        replay: ReplayName = ...,
        returns: Any = ...,
        **kwargs: Any,
    ) -> T: ...

    async def step(
        self,
        name: str,
        fn: Callable[..., Any],
        /,
        *args: Any,
        replay: ReplayName = "once",
        returns: Any = FROM_ANNOTATION,
        **kwargs: Any,
    ) -> Any:
        """Have an effect at most once, or get the result it had.

        Args:
            name: of the step; used again in the same visit, it is another step.
            fn: what has the effect, async or not; one that blocks belongs into `asyncio.to_thread`. If it has a
                parameter `idempotency_key` it is given one: the same, however often it runs.
            args: for `fn`.
            replay: what may happen where the result was lost: `read` and `idempotent` run again, `once` never does.
            returns: the type of the result, where `fn` is not annotated with it.
            kwargs: for `fn`.

        Raises:
            StepFailed: `fn` raised, now or before a restart; or it is unknown what it did (`is_unknown`).
        """

        def call(key: str) -> Any:
            given = {**kwargs, "idempotency_key": key} if _wants_key(fn) else kwargs
            return fn(*args, **given)

        kind = _annotated(fn) if returns is FROM_ANNOTATION else returns
        return await self._steps.step(name, call, replay, kind, getattr(fn, "__qualname__", str(fn)))

    async def ask(self, name: str, message: str, *, replay: ReplayName = "once") -> Answer:
        """Ask an agent or a workflow of speakers of the daemon by its name: a step, whose result is the answer.

        Other messages are not kept; what the models cost counts for the mission.

        Raises:
            StepFailed: there is none of that name, it gave no answer, it asks a person; or as for `step`.
        """

        async def asked(idempotency_key: str) -> Answer:
            return await self._steps.ask(name, message, idempotency_key)

        return await self.step(f"ask {name}", asked, replay=replay)

    def spend(
        self, model: str, *, input_tokens: int = 0, output_tokens: int = 0, cost_usd: float | None = None
    ) -> None:
        """Report the cost of an answer that your own client has asked for; a `BaseAgent` reports its own.

        It counts for the mission as soon as the step returns, or the node.

        Raises:
            WorkflowError: something of it is no cost.
        """
        name: object = model  # user code may not check types
        if not isinstance(name, str) or not name:
            raise WorkflowError("`model` of what was spent must be the name of a model.")
        for what, given in (("input_tokens", input_tokens), ("output_tokens", output_tokens)):
            if type(given) is not int or given < 0:
                raise WorkflowError(f"`{what}` of what was spent is {given!r}; it must be a whole number, 0 or more.")
        if cost_usd is not None and (type(cost_usd) not in (int, float) or not 0 <= cost_usd < math.inf):
            raise WorkflowError(f"`cost_usd` of what was spent is {cost_usd!r}; it must be a number, 0 or more.")
        spent(Usage(input_tokens=input_tokens, output_tokens=output_tokens, cost_usd=cost_usd), model)

    async def pause(self, reason: str = "") -> None:
        """Pause the mission: nothing of it runs until somebody lets it go on, and then it goes on from here."""
        await self._steps.pause(reason)


CURRENT: ContextVar[GraphRunContext[Any, Any] | None] = ContextVar("tenex_node", default=None)
"""Of the node that runs, for functions that are durable by themselves."""


def durable(
    *, replay: ReplayName = "once", name: str | None = None
) -> Callable[[Callable[P, Coroutine[Any, Any, T]]], Callable[P, Coroutine[Any, Any, T]]]:
    """Make an async function a durable step wherever a node calls it; elsewhere it is what it was.

    Args:
        replay: as for `GraphRunContext.step`.
        name: of the step; the function's own if not given.
    """

    def decorate(fn: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
        @functools.wraps(fn)
        async def call(*args: P.args, **kwargs: P.kwargs) -> T:
            ctx = CURRENT.get()
            if ctx is None:
                return await fn(*args, **kwargs)
            step: Any = functools.partial(ctx.step, name or fn.__qualname__, fn, replay=replay)
            result: T = await step(*args, **kwargs)
            return result

        return call

    return decorate


def _wants_key(fn: Callable[..., Any]) -> bool:
    try:
        return "idempotency_key" in inspect.signature(fn).parameters
    except (TypeError, ValueError):  # a builtin without a signature
        return False


def _annotated(fn: Callable[..., Any]) -> Any:
    try:
        kind = inspect.signature(fn, eval_str=True).return_annotation
    except (TypeError, ValueError, NameError):
        return Any
    if get_origin(kind) in (Awaitable, Coroutine):
        kind = get_args(kind)[-1]
    return Any if kind is inspect.Signature.empty else kind


# ---- what models cost ------------------------------------------------------------------------------------------------

METER: ContextVar["CostMeter | None"] = ContextVar("tenex_meter", default=None)
"""Of the node that runs, also for the tasks it begins."""


class CostMeter:
    """What was paid since it was last read, by model."""

    def __init__(self, outer: "CostMeter | None" = None) -> None:
        """Begin at nothing; what is added here is added to `outer` too."""
        self._outer = outer
        self._spent: dict[str, Usage] = {}

    def add(self, usage: Usage, model: str) -> None:
        """Something was paid."""
        if self._outer is not None:
            self._outer.add(usage, model)
        if usage.calls:
            self._spent[model] = self._spent[model] + usage if model in self._spent else usage

    def read(self) -> dict[str, Usage]:
        """What was paid; it counts from nothing again."""
        spent, self._spent = self._spent, {}
        return spent


def spent(usage: Usage, model: str) -> None:
    """Report the cost of an answer to the running node, if there is one."""
    meter = METER.get()
    if meter is not None:
        meter.add(usage, model)
