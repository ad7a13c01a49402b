"""What somebody writes a mission of: nodes, the end, and the policies of a node.

The names are pydantic-graph's. A node is a dataclass whose `run` returns the node that follows, or `End`; what it may
return is read from the annotation of `run`.

    @dataclass
    class Draft(BaseNode[Paper, Office, str], timeout=600, retries=2, on_error="Apologise"):
        topic: str
        writer: Dependency[Writer]

        async def run(self, ctx: GraphRunContext[Paper, Office]) -> Review | End[str]: ...
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import Field, dataclass, fields, is_dataclass
from typing import Annotated, Any, ClassVar, Final, Generic, TypeVar, get_args, get_origin, get_type_hints

from tenex.core.errors import StepFailed

from .steps import GraphRunContext

StateT = TypeVar("StateT")
DepsT = TypeVar("DepsT")
RunEndT = TypeVar("RunEndT", covariant=True)  # noqa: PLC0105 - as pydantic-graph calls it
T = TypeVar("T")


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


class BaseNode(ABC, Generic[StateT, DepsT, RunEndT]):
    """A node of a mission; subclass it as a dataclass.

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
        super().__init_subclass__(**kwargs)
        target = on_error.__name__ if isinstance(on_error, type) else on_error
        before = cls.policy
        cls.policy = NodePolicy(
            timeout=before.timeout if timeout is None else timeout,
            retries=before.retries if retries is None else retries,
            on_error=before.on_error if target is None else target,
            phase=phase,
        )

    @abstractmethod
    async def run(self, ctx: "GraphRunContext[StateT, DepsT]") -> "BaseNode[StateT, DepsT, Any] | End[RunEndT]":
        """Do this node's work and return what follows it."""
        ...

    @classmethod
    def get_node_id(cls) -> str:
        """The node's name in the graph, the journal and diagrams."""
        return cls.__name__

    @classmethod
    def phase_name(cls) -> str:
        """The value of `current_phase` during a visit: the class's name without `Node`, in snake case."""
        return cls.policy.phase or _snake(cls.get_node_id().removesuffix("Node") or cls.get_node_id())


def specs_of(node: Any) -> "tuple[Field[Any], ...]":
    """The fields of a node's class; none if it is no dataclass."""
    return fields(node) if is_dataclass(node) else ()


def injected(node: type[BaseNode[Any, Any, Any]]) -> frozenset[str]:
    """The fields of a node that are dependencies.

    Raises:
        NameError: an annotation names what cannot be found.
    """
    hints = get_type_hints(node, localns={"Dependency": Dependency}, include_extras=True)
    return frozenset(spec.name for spec in specs_of(node) if _is_injected(hints[spec.name]))


def _is_injected(hint: Any) -> bool:
    return get_origin(hint) is Annotated and any(mark is Injected for mark in get_args(hint)[1:])


def _snake(name: str) -> str:
    words = "".join(f"_{char.lower()}" if char.isupper() else char for char in name)
    return words.removeprefix("_")


# ---- which failures are retried --------------------------------------------------------------------------------------

Classify = Callable[[Exception], bool | None]
"""Whether an error may pass; None leaves it to `may_pass`."""

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
    return _status(error) in _BUSY


def retry_after(error: BaseException) -> int | None:
    """Return the ms to wait, an hour at most, where the error has `retry_after` in seconds."""
    after = getattr(error, "retry_after", None)
    return int(min(after, LONGEST_PAUSE) * 1000) if isinstance(after, int | float) and after >= 0 else None


def _status(error: BaseException) -> Any:
    response: Any = getattr(error, "response", None)
    found: Any = getattr(error, "status_code", None) or getattr(error, "status", None)
    found = found or getattr(response, "status_code", None)
    return found if isinstance(found, int) else None
