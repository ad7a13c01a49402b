"""The methods of an agent that its model may call: the decorator, and what is read off a method."""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticUserError

from tenex.core.config import Replay, ToolRule
from tenex.core.errors import UsageError, kind_of
from tenex.core.messages import ToolSpec
from tenex.core.phases import Access
from tenex.workflows.kit.steps import ReplayName

from .fields import AgentCondition

F = TypeVar("F", bound=Callable[..., Any])

MARK: Final = "__tenex_tool__"
KEY: Final = "idempotency_key"
"""A parameter of this name is given by the program and never offered: the same however often the call runs."""
TIMEOUT: Final = 30.0
"""Seconds a call may take unless its method sets another limit; the daemon's own tools have as many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolMark:
    """The arguments of the decorator; unchecked."""

    description: Any
    phases: Any
    condition: Any
    replay: Any
    access: Any
    timeout: Any


def tool(
    description: str,
    *,
    phases: Sequence[str] = (),
    condition: AgentCondition | None = None,
    replay: ReplayName = "once",
    access: str = "speak",
    timeout: float = TIMEOUT,
) -> Callable[[F], F]:
    """Let an agent's model call a method; async or not, and one that is not runs in a thread of its own.

    What the method raises is a failed result, and then what it changed of the state is dropped.

    Args:
        description: what the model reads.
        phases: of the agent, in which it is there; none means all.
        condition: called with the agent; must hold too.
        replay: what may happen where its result was lost: `read` and `idempotent` run again, `once` never does.
        access: what it does to the world, and so in which of a conversation's phases it may be used: `speak` (nothing
            but the agent's own state), `read`, `change` or `run`.
        timeout: seconds a call may take.
    """

    def mark(method: F) -> F:
        given: object = method  # user code may not check types
        if not callable(given) and not isinstance(given, classmethod):
            raise UsageError(f"@tool is before {kind_of(given)}; it must be before a method of an agent.")
        settings = ToolMark(
            description=description, phases=phases, condition=condition, replay=replay, access=access, timeout=timeout
        )
        setattr(method, MARK, settings)
        return method

    if callable(description):  # `@tool` without its parentheses
        raise UsageError(f"@tool on {getattr(description, '__name__', 'a method')} needs a description: @tool('...').")
    return mark


_POSITIONAL: Final = inspect.Parameter.POSITIONAL_ONLY
_EITHER: Final = inspect.Parameter.POSITIONAL_OR_KEYWORD


class Parameters:
    """Parameters of a function as a model is offered them, and a way back from what it sent."""

    def __init__(self, parameters: Sequence[inspect.Parameter], texts: Mapping[str, str] | None = None) -> None:
        """Read the parameters that a model gives; `texts` describe some of them.

        Raises:
            UsageError: they cannot be given by name; with all faults, one in a line.
        """
        faults: list[str] = []
        fields: dict[str, Any] = {}
        self.names: dict[str, str] = {}
        self.takes_key = False
        about = texts or {}
        for parameter in parameters:
            if parameter.name == KEY:
                self.takes_key = True
                continue
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                faults.append(f"`{parameter}` cannot be given by name; write out what it takes.")
            elif parameter.annotation is parameter.empty:
                faults.append(f"`{parameter.name}` has no annotation; give its type.")
            else:
                default = ... if parameter.default is parameter.empty else parameter.default
                field = f"p{len(fields)}"  # a name of its own may be one of pydantic's
                self.names[field] = parameter.name
                text: dict[str, Any] = {"description": about[parameter.name]} if about.get(parameter.name) else {}
                fields[field] = (parameter.annotation, Field(default, alias=parameter.name, **text))
        if faults:
            raise UsageError("\n".join(faults))
        config = ConfigDict(extra="forbid", arbitrary_types_allowed=False)
        try:
            self._model: type[BaseModel] = create_model("Arguments", __config__=config, **fields)
            self.schema: Mapping[str, Any] = _plain(self._model.model_json_schema())
        except PydanticUserError as fault:
            raise UsageError(f"a parameter is no JSON: {str(fault).splitlines()[0]}") from fault

    def read(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """What was sent, as the types that the method is annotated with; what was not sent is left to its defaults.

        Raises:
            UsageError: it does not fit; the message names the field and no value.
        """
        try:
            read = self._model.model_validate(dict(given))
        except ValidationError as fault:
            sentences = [f"`{'.'.join(map(str, error['loc']))}`: {error['msg']}" for error in fault.errors()[:8]]
            raise UsageError("; ".join(sentences)) from fault
        return {self.names[field]: getattr(read, field) for field in read.model_fields_set}


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """A method, or a function, that a model may call."""

    name: str
    description: str
    phases: frozenset[str]
    condition: AgentCondition | None
    replay: Replay
    access: Access
    timeout: float
    function: Callable[..., Any]

    parameters: Parameters

    @property
    def rule(self) -> ToolRule:
        """What the core goes by."""
        return ToolRule(name=self.name, access=self.access, replay=self.replay)

    @property
    def spec(self) -> ToolSpec:
        """How it is offered to a model."""
        return ToolSpec(name=self.name, description=self.description, parameters=self.parameters.schema)


def after_self(method: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters of a method without `self`.

    Raises:
        UsageError: it does not take `self` first, or its annotations cannot be read.
    """
    parameters = signature_of(method)
    if not parameters or parameters[0].kind not in (_POSITIONAL, _EITHER):
        raise UsageError("it must take `self` first.")
    return parameters[1:]


METHOD_ACCESS: Final = tuple(kind for kind in Access if kind is not Access.LEARN)
"""What a method may do to the world."""


def read_method(
    name: str,
    function: Callable[..., Any],
    mark: ToolMark,
    faults: list[str],
    *,
    given_by_model: Callable[[Callable[..., Any]], list[inspect.Parameter]] = after_self,
    texts: Mapping[str, str] | None = None,
    access: Sequence[Access] = METHOD_ACCESS,
) -> Method | None:
    """The method or function that a decorator has marked; what is wrong is added to `faults`, and then there is none.

    Args:
        name: of the tool.
        function: what is called.
        mark: the arguments of the decorator.
        faults: grows by a sentence for each fault.
        given_by_model: takes the function; its parameters without those that the program gives.
        texts: of its parameters, by their names.
        access: what may be declared.
    """
    found = len(faults)
    where = f"the tool {name}"
    if not isinstance(mark.description, str) or not mark.description.strip():
        faults.append(f"{where} has no description; the model goes by it.")
    phases = words(mark.phases, where, faults)
    if mark.condition is not None:
        faults.extend(faults_of_condition(mark.condition, where))
    if mark.replay not in get_args(ReplayName):
        faults.append(f"{where}: `replay` is {mark.replay!r}; it must be one of {', '.join(get_args(ReplayName))}.")
    kinds = [str(kind) for kind in access]
    if mark.access not in kinds:
        faults.append(f"{where}: `access` is {mark.access!r}; it must be one of {', '.join(kinds)}.")
    is_number = isinstance(mark.timeout, int | float) and not isinstance(mark.timeout, bool)
    if not is_number or not 0 < mark.timeout < math.inf:
        faults.append(f"{where}: `timeout` is {mark.timeout!r}; it must be seconds, more than 0.")
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        faults.append(f"{where} yields; it must return its result.")
    try:
        parameters = Parameters(given_by_model(function), texts)
    except UsageError as fault:
        faults.extend(f"{where}: {sentence}" for sentence in str(fault).splitlines())
        return None
    if len(faults) > found:
        return None
    return Method(
        name=name,
        description=mark.description,
        phases=phases,
        condition=mark.condition,
        replay=Replay(mark.replay),
        access=Access(mark.access),
        timeout=float(mark.timeout),
        function=function,
        parameters=parameters,
    )


def words(given: Any, where: str, faults: list[str]) -> frozenset[str]:
    """The names of phases; a text alone is a fault, for it would be read as its letters."""
    is_list = given is None or isinstance(given, list | tuple | set | frozenset)
    if not is_list or not all(isinstance(word, str) for word in given or ()):
        faults.append(f"{where}: `phases` must be a list of names, such as phases=['planning'].")
        return frozenset()
    return frozenset(given or ())


def faults_of_condition(condition: Any, where: str) -> list[str]:
    """Why something cannot be asked with the agent, each reason as a sentence."""
    if not callable(condition):
        return [f"{where}: its condition is {condition!r} and cannot be called; give a function of the agent."]
    if inspect.iscoroutinefunction(condition):
        return [f"{where}: its condition is async; it must answer at once."]
    try:
        inspect.signature(condition).bind(None)
    except TypeError:
        return [f"{where}: its condition must take the agent, and nothing else."]
    except ValueError:  # a builtin without a signature
        pass
    return []


def signature_of(method: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters of a function, their annotations evaluated.

    Raises:
        UsageError: they cannot be read.
    """
    try:
        signature = inspect.signature(method, eval_str=True)
    except (NameError, TypeError, ValueError, SyntaxError) as fault:
        raise UsageError(f"its annotations cannot be read: {fault}.") from fault
    return list(signature.parameters.values())


def _plain(schema: Any) -> Any:
    """The schema without the titles pydantic makes of names."""
    if isinstance(schema, list):
        return [_plain(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kept: dict[str, Any] = {}
    for key, value in schema.items():
        if key in ("properties", "$defs"):
            kept[key] = {name: _plain(part) for name, part in value.items()}
        elif key in ("default", "const", "enum", "examples"):
            kept[key] = value
        elif key != "title":
            kept[key] = _plain(value)
    return kept
