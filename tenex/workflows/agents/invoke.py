"""Carries out one call of a method: on a copy of the agent in its journaled state.

Whatever the method does, the end is a result: its text, and the fields of the state it has changed. One that raises,
or takes too long, has changed nothing.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import fields, replace
from typing import Any, Final

from pydantic_core import PydanticSerializationError, to_json

from tenex.core.agent_phases.program import AgentPhaseState
from tenex.core.config import Replay
from tenex.core.errors import SerializationError, UsageError, words_of
from tenex.core.phases import Access, Phase
from tenex.core.ports import ToolResult
from tenex.core.work.routes import Finish, Handoff
from tenex.log import get_logger
from tenex.runtime.functions import in_thread
from tenex.workflows.speakers.context import CHANGES, ContextChanges

from .definition import PhasedAgent, agent_at, blueprint
from .tools import KEY, Method

LONGEST: Final = 2_000
"""Characters of an exception's text that a model reads."""

log = get_logger(__name__)


async def call_method(
    agent: PhasedAgent,
    name: str,
    arguments: Mapping[str, Any],
    *,
    agent_state: AgentPhaseState,
    conversation: Phase | None,
    key: str,
) -> ToolResult:
    """Call a method as a model asked for it.

    Args:
        agent: whose method it is.
        name: of the method.
        arguments: as the model sent them.
        agent_state: phase and state, as journaled.
        conversation: the conversation's phase; None outside one.
        key: given to a method with the parameter `idempotency_key`.
    """
    method = blueprint(type(agent)).methods[name]
    placed = agent_at(agent, agent_state, conversation)
    changes = ContextChanges()
    token = CHANGES.set(changes)
    try:
        return await call_function(
            method,
            arguments,
            key=key,
            run=lambda given: _run(method, placed, given),
            result=lambda value: _returned(method, value, placed, changes),
        )
    finally:
        CHANGES.reset(token)


async def call_function(
    method: Method,
    arguments: Mapping[str, Any],
    *,
    key: str,
    run: Callable[[dict[str, Any]], Awaitable[Any]],
    result: Callable[[Any], ToolResult],
) -> ToolResult:
    """Call a method or a function as a model asked for it, within its time; whatever it raises is a failed result.

    Args:
        method: what is called.
        arguments: as the model sent them.
        key: given to one with the parameter `idempotency_key`.
        run: carries it out with its arguments.
        result: makes the result of what it returned.
    """
    name = method.name
    try:
        given = method.parameters.read(arguments)
    except UsageError as fault:
        return _failed(f"{name} was not called, because its arguments do not fit: {fault}.")
    if method.parameters.takes_key:
        given[KEY] = key
    limit = asyncio.timeout(method.timeout)
    try:
        async with limit:
            value = await run(given)
        return result(value)
    except TimeoutError as error:
        if not limit.expired():
            return _raised(name, error)
        return _failed(f"{name} did not end within {method.timeout:g} s and was given up; check before repeating.")
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return _raised(name, error)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever it raises is its failure, and logged there
        return _raised(name, error)


async def _run(method: Method, placed: PhasedAgent, given: dict[str, Any]) -> Any:
    if inspect.iscoroutinefunction(method.function):
        return await method.function(placed, **given)
    value = await in_thread(lambda: method.function(placed, **given))
    return await value if inspect.isawaitable(value) else value


def _returned(method: Method, value: Any, placed: PhasedAgent, changes: ContextChanges) -> ToolResult:
    instance = placed._instance
    try:
        values = instance.changed()
    except SerializationError as fault:
        return _failed(f"{method.name} left the state invalid: {fault}. Nothing of it was kept.")
    if method.replay is Replay.READ and (values or instance.moves_made):
        what = ", ".join(values) or "the phase"
        return _failed(f"{method.name} is declared as `read` and has changed {what}; nothing of it was kept.")
    route = value if isinstance(value, Handoff | Finish) else None
    if route is not None and not all(isinstance(getattr(route, field.name), str) for field in fields(route)):
        return _failed(f"{method.name} returned a {type(route).__name__} with a field that is no text.")
    return replace(
        result_of(method, value),
        values=values,
        moves=tuple(instance.moves_made),
        route=route,
        context=changes.set_,
        removed=tuple(changes.removed),
    )


def result_of(method: Method, value: Any) -> ToolResult:
    """What a method or a function returned, as a model reads it."""
    return ToolResult(
        ok=True,
        exit_status=0 if method.access is Access.RUN else None,
        has_outside_effect=method.access in (Access.CHANGE, Access.RUN),
        content=_text(value),
    )


def _text(value: Any) -> str:
    match value:
        case Handoff():
            return f"{value.target} speaks after you{f': {value.reason}' if value.reason else ''}."
        case Finish():
            return f"The workflow ends with your turn ({value.reason}). {value.summary}".strip()
    if isinstance(value, str):
        return value or "(It gave an empty text.)"
    if value is None:
        return "Done."
    try:
        return to_json(value).decode()
    except (PydanticSerializationError, ValueError):
        return str(value)


def _raised(name: str, error: BaseException) -> ToolResult:
    log.error("tool.raised", tool=name, error=type(error).__name__, exc_info=error)
    text = words_of(error)
    text = f"{text[:LONGEST]}…" if len(text) > LONGEST else text
    return _failed(f"{name} failed: {type(error).__name__}{f': {text}' if text else ''}")


def _failed(sentence: str) -> ToolResult:
    return ToolResult(ok=False, content=sentence)
