"""What an agent's class declares beside its methods: typed state, and the agents it calls like tools.

plan: State[str] = State(default="")
data: State[list[str]] = State(default_factory=list)
planner: Link[Planner] = AgentLink(phases=["planning"])
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, NoReturn, TypeVar, overload

from tenex.core.errors import UsageError

T = TypeVar("T")

MISSING: Final[Any] = object()

AgentCondition = Callable[[Any], object]
"""Called with the agent; what it returns is taken as true or false."""


class State(Generic[T]):
    """A field of an agent's state: `self.plan` and `self.state.plan` are its value."""

    def __init__(
        self, *, default: T = MISSING, default_factory: Callable[[], T] | None = None, description: str = ""
    ) -> None:
        """Declare a field.

        Args:
            default: what it begins with; `0`, `False` and `""` are values like others.
            default_factory: makes what it begins with, in place of `default`.
            description: what it is, for people who inspect the agent.
        """
        self.default = default
        self.default_factory = default_factory
        self.description = description
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> "State[T]": ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: Any, owner: type) -> Any:
        return self if instance is None else instance._instance.get(self.name)

    def __set__(self, instance: Any, value: T) -> None:
        instance._instance.set(self.name, value)

    def begin(self) -> Any:
        """Return the initial value; MISSING where there is none."""
        return self.default if self.default_factory is None else self.default_factory()


class Link(Generic[T]):
    """An agent that this one calls like a tool, by the field's name."""

    def __init__(
        self,
        agent: str = "",
        *,
        phases: Sequence[str] = (),
        condition: AgentCondition | None = None,
        shared: bool = False,
        description: str = "",
    ) -> None:
        """Declare when a linked agent may be called, and how.

        Args:
            agent: the slug of an agent that is not written in Python; else it is the field's type.
            phases: of the agent that calls; none means all.
            condition: called with the agent that calls; must hold too.
            shared: whether it keeps its state from call to call; else each call finds it at its beginning.
            description: what the model reads of it; the linked agent's own by default.
        """
        self.agent = agent
        self.description = description
        self.phases = phases
        self.condition = condition
        self.shared = shared
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, _instance: object, _owner: type) -> "Link[T]":
        return self

    def __set__(self, instance: object, value: object) -> None:
        cls = type(instance).__name__
        raise UsageError(
            f"{cls}.{self.name} is a link, which cannot be set: the program makes the linked agent. Name its class "
            f"instead: `{self.name}: Link[{type(value).__name__}] = AgentLink()`."
        )

    def __call__(self, *_args: object, **_kwargs: object) -> NoReturn:
        """Refuse a call by code: the model calls a linked agent."""
        raise UsageError(f"{self.name} is a link: the agent's model calls it. Code runs an agent by its own `run`.")


AgentLink = Link
"""pyagentic's name for what a field of type `Link` is given."""
