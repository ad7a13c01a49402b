"""What a mission is written with, by pydantic-graph's names: nodes with their policies, the end, and durable steps.

    @dataclass
    class Draft(BaseNode[Paper, Office, str], timeout=600, retries=2, on_error="Apologise"):
        topic: str
        writer: Dependency[Writer]

        async def run(self, ctx: GraphRunContext[Paper, Office]) -> Review | End[str]:
            text = await ctx.step("write", self.writer.write, self.topic, replay="idempotent")
            return Review(text)

A node is a dataclass whose `run` returns the node that follows, or `End`; its annotation gives the edges. A step is
journaled: that it may have its effect, before; its result, after. A node that runs again, in this process or the next,
is given the results of the steps that returned and does not have their effects twice; the code between steps runs
again, so it must come to the same steps. A step is known by its name and how often that was used before.
"""

import asyncio
import functools
import inspect
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from dataclasses import Field, dataclass, field, fields, is_dataclass
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    Generic,
    Never,
    ParamSpec,
    Protocol,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

from typing_extensions import TypeVar

from tenex.core.errors import StepFailed, UsageError, WorkflowError, kind_of
from tenex.core.messages import Usage
from tenex.workflows.kit.steps import ReplayName, spent

StateT = TypeVar("StateT", default=None)
DepsT = TypeVar("DepsT", default=None)
RunEndT = TypeVar("RunEndT", covariant=True, default=Any)  # noqa: PLC0105 - as pydantic-graph calls it
NodeRunEndT = TypeVar("NodeRunEndT", covariant=True, default=Never)  # noqa: PLC0105
"""Of a node: one that never returns `End` need not say what it ends with."""
P = ParamSpec("P")
T = TypeVar("T")

FROM_ANNOTATION: Any = object()
"""The type of a step's result is what its function is annotated to return."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What an agent or a workflow answered to a node; of a workflow also why it ended, and its variables."""

    text: str
    reason: str = ""
    context: dict[str, Any] = field(default_factory=dict)


class NodeSteps(Protocol):
    """What carries out the steps of one run of a node, and journals them; `runner.NodeTaskOf`."""

    async def step(self, name: str, call: Callable[[str], Any], replay: ReplayName, returns: Any, label: str) -> Any:
        """The result of a step: of `call` with its idempotency key, or of the run in which it returned."""
        ...

    async def ask(self, name: str, message: str, key: str) -> Answer:
        """What an agent or a workflow of the daemon answers."""
        ...

    async def pause(self, reason: str) -> None:
        """Pause the mission here."""
        ...


class GraphRunContext(Generic[StateT, DepsT]):
    """A running node's surroundings; `state` is recorded when a step returns and when the node does."""

    def __init__(self, state: StateT, deps: DepsT, steps: NodeSteps, *, mission: str, attempt: int) -> None:
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
        _check_step(name, fn, replay)

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
        for what, given in (("`name`", name), ("`message`", message)):
            if not isinstance(given, str):
                raise WorkflowError(f"{what} of what is asked is {kind_of(given)}; give a text.")

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
        """Pause the mission: nothing of it runs until a user continues it, and then it goes on from here."""
        await self._steps.pause(reason)


CURRENT: ContextVar[GraphRunContext[Any, Any] | None] = ContextVar("tenex_node", default=None)
"""Of the node that runs, for functions that are durable by themselves."""


def durable(
    function: None = None, /, *, replay: ReplayName = "once", name: str | None = None
) -> Callable[[Callable[P, Coroutine[Any, Any, T]]], Callable[P, Coroutine[Any, Any, T]]]:
    """Make an async function a durable step when a node calls it; called elsewhere it is unchanged.

    Args:
        function: none; given by who leaves out the parentheses, which is refused.
        replay: as for `GraphRunContext.step`.
        name: of the step; the function's own if not given.
    """
    if function is not None:
        raise UsageError("@durable needs its parentheses: write @durable().")
    if replay not in get_args(ReplayName):
        raise UsageError(f"@durable: `replay` is {replay!r}; it must be one of {', '.join(get_args(ReplayName))}.")

    def decorate(fn: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
        if not inspect.iscoroutinefunction(fn):
            raise UsageError(f"@durable is before {getattr(fn, '__name__', kind_of(fn))}, which is not async.")

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


def _check_step(name: object, fn: object, replay: object) -> None:
    """Refuse what cannot be a step; user code may not check types."""
    if not isinstance(name, str):
        raise WorkflowError(f"A step's name is {kind_of(name)}; it must be a text.")
    if inspect.iscoroutine(fn):
        fn.close()
        raise WorkflowError(f"The step {name} was given a coroutine; give the function, and its arguments after it.")
    if not callable(fn):
        raise WorkflowError(f"The step {name} was given {kind_of(fn)}; give a function, and its arguments after it.")
    if replay not in get_args(ReplayName):
        words = ", ".join(get_args(ReplayName))
        raise WorkflowError(f"`replay` of the step {name} is {replay!r}; it must be one of {words}.")


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


class Injected:
    """Marks the fields of a node that are given again in every process, and never journaled."""


Dependency = Annotated[T, Injected]
"""`writer: Dependency[Writer]`: the field is the attribute `writer` of the dependencies the graph is run with."""


@dataclass(frozen=True)
class NodeError:
    """Why a node failed for good; a node that others name in `on_error` may have a field `error: NodeError`."""

    node: str
    kind: str
    """The name of the exception's class, or `TimedOut`, `UndeclaredEdge`, `StepLeftOpen`, `TooManySteps`."""
    message: str
    attempts: int


@dataclass(frozen=True)
class Edge:
    """Labels an edge in the diagram: `-> Annotated[Review, Edge(label="a draft is there")]`."""

    label: str | None


@dataclass(frozen=True)
class End(Generic[RunEndT]):
    """Ends a mission, with its result."""

    data: RunEndT


@dataclass(frozen=True, kw_only=True)
class NodePolicy:
    """How long and how often a node may try, and what its failure leads to."""

    timeout: float | None = None
    """Seconds for a visit; waits for a retry, pauses and the time without a process do not count."""
    retries: int = 3
    on_error: str | None = None
    phase: str | None = None


class BaseNode(ABC, Generic[StateT, DepsT, NodeRunEndT]):
    """A node of a mission; subclass it as a dataclass: `BaseNode[State]`, `BaseNode[State, Deps]`, or all three.

    Class arguments: `timeout` in seconds; `retries` after failures that may pass; `on_error`, the node that follows a
    failure for good (else the mission ends as failed); `phase`, how a visit is called in `current_phase`.
    """

    policy: ClassVar[NodePolicy] = NodePolicy()

    def __init_subclass__(
        cls,
        *,
        timeout: float | None = None,
        retries: int | None = None,
        on_error: "str | type[Any] | None" = None,
        phase: str | None = None,
        **kwargs: Any,
    ) -> None:
        try:
            super().__init_subclass__(**kwargs)
        except TypeError as fault:
            if not kwargs:
                raise
            known = "timeout, retries, on_error and phase"
            raise UsageError(f"{cls.__name__}: a node's class takes {known}, not {', '.join(kwargs)}.") from fault
        target = on_error.__name__ if isinstance(on_error, type) else on_error
        before = cls.policy
        cls.policy = NodePolicy(
            timeout=before.timeout if timeout is None else timeout,
            retries=before.retries if retries is None else retries,
            on_error=before.on_error if target is None else target,
            phase=phase,
        )

    @abstractmethod
    async def run(self, ctx: "GraphRunContext[StateT, DepsT]") -> "BaseNode[StateT, DepsT, Any] | End[NodeRunEndT]":
        """Do this node's work and return what follows it."""
        ...

    @classmethod
    def get_node_id(cls) -> str:
        """The node's name in the graph, the journal and diagrams."""
        return cls.__name__

    @classmethod
    def phase_name(cls) -> str:
        """The value of `current_phase` during a visit: the class's name without `Node`, in snake case."""
        name = cls.get_node_id().removesuffix("Node") or cls.get_node_id()
        return cls.policy.phase or re.sub("[A-Z]", lambda capital: f"_{capital[0].lower()}", name).removeprefix("_")


def specs_of(node: Any) -> "tuple[Field[Any], ...]":
    """The fields of a node's class; none if it is no dataclass."""
    return fields(node) if is_dataclass(node) else ()


def injected(node: type[BaseNode[Any, Any, Any]]) -> frozenset[str]:
    """The fields of a node that are dependencies.

    Raises:
        NameError: an annotation names what cannot be found.
    """
    hints = get_type_hints(node, localns={"Dependency": Dependency}, include_extras=True)
    marks = {name: get_args(hint)[1:] for name, hint in hints.items() if get_origin(hint) is Annotated}
    return frozenset(spec.name for spec in specs_of(node) if Injected in marks.get(spec.name, ()))


# ---- which failures are retried --------------------------------------------------------------------------------------

_BUSY = frozenset({408, 425, 429, 500, 502, 503, 504, 529})
"""HTTP statuses of a busy server."""

LONGEST_PAUSE: Final = 3600
"""Seconds: a longer `retry_after`, by mistake or in malice, is cut."""


def may_pass(error: BaseException) -> bool:
    """Whether a retry may succeed: an error with `retryable`, a network's, a server's that is busy or fails.

    Of a group all must.
    """
    if isinstance(error, StepFailed):
        return error.may_pass
    if isinstance(error, BaseExceptionGroup):
        return all(map(may_pass, error.exceptions))
    retryable = getattr(error, "retryable", None)
    if isinstance(retryable, bool):
        return retryable
    if isinstance(error, ConnectionError | TimeoutError | asyncio.TimeoutError | BlockingIOError | InterruptedError):
        return True
    if any(kind.__name__ == "TransportError" and kind.__module__.startswith("httpx") for kind in type(error).__mro__):
        return True
    status: Any = getattr(error, "status_code", None) or getattr(error, "status", None)
    status = status or getattr(getattr(error, "response", None), "status_code", None)
    return isinstance(status, int) and status in _BUSY


def needs_operator(error: BaseException) -> bool:
    """Whether no try succeeds before somebody has acted, as with a wrong key; of a group, with one of them."""
    if isinstance(error, BaseExceptionGroup):
        return any(map(needs_operator, error.exceptions))
    return getattr(error, "needs_operator", None) is True


def retry_after(error: BaseException) -> int | None:
    """Return the ms to wait, an hour at most, where the error has `retry_after` in seconds."""
    after = getattr(error, "retry_after", None)
    return int(min(after, LONGEST_PAUSE) * 1000) if isinstance(after, int | float) and after >= 0 else None
