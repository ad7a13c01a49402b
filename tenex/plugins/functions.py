"""Makes a tool of a function with `@tool`: its schema, its texts, and a call that can fail without ending the run."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from tenex.core.errors import ConfigurationError, UsageError
from tenex.core.phases import Access
from tenex.core.ports import ExecutionContext, ToolResult
from tenex.log import get_logger
from tenex.runtime.functions import in_thread
from tenex.tools.tool import Refusal, Tool, log_fields
from tenex.tools.write_policy import is_confined
from tenex.workflows.agents.invoke import call_function, result_of
from tenex.workflows.agents.tools import Method, ToolMark, read_method, signature_of

from .api import MARK, PluginMark, ToolContext
from .loops import PluginLoop
from .output import captured

GRACE: Final = 5.0
"""Seconds above a tool's own limit after which the registry's would end it: the tool's own error names it."""

_ACCESS: Final = (Access.READ, Access.CHANGE, Access.RUN)
"""What a plugin may declare: words to users are the daemon's, and lessons too."""

log = get_logger(__name__)


def tool_of(name: str, function: Callable[..., Any], loop: PluginLoop, workspace: Path) -> Tool:
    """The tool that a function is.

    Args:
        name: what models call it.
        function: marked by `@tool`.
        loop: where it runs, if it is async.
        workspace: named in its `ToolContext`.

    Raises:
        ConfigurationError: everything that is wrong with it.
    """
    mark: PluginMark = getattr(function, MARK)
    faults: list[str] = []
    description, texts = described(function)
    method = read_method(
        name,
        function,
        ToolMark(
            description=description,
            phases=(),
            condition=None,
            replay=mark.replay,
            access=mark.access,
            timeout=mark.timeout,
        ),
        faults,
        given_by_model=_after_context,
        texts=texts,
        access=_ACCESS,
    )
    if mark.approve not in ("never", "ask"):
        faults.append(f"the tool {name}: `approve` is {mark.approve!r}; it must be never or ask.")
    if faults or method is None:
        raise ConfigurationError(faults)
    called = _Called(method, loop, workspace, takes_context=_takes_context(function))
    return Tool(
        name=name,
        description=method.description,
        parameters=method.parameters.schema,
        access=method.access,
        replay=method.replay,
        time_cap=method.timeout + GRACE,
        asks=mark.approve == "ask",
        why="its definition says so",
        body=called,
    )


def described(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """The text of a docstring in Google's style without its sections, and the texts of parameters by their names."""
    from griffe import Docstring, DocstringSectionKind, DocstringSectionParameters, GoogleOptions

    options = GoogleOptions(returns_named_value=False, returns_multiple_items=False, warnings=False)
    docstring = Docstring(inspect.getdoc(function) or "", lineno=1, parser="google", parser_options=options)
    paragraphs: list[str] = []
    texts: dict[str, str] = {}
    for section in docstring.parse():
        if isinstance(section, DocstringSectionParameters):
            texts |= {parameter.name: parameter.description for parameter in section.value}
        elif section.kind is DocstringSectionKind.text:
            paragraphs.append(section.value)
    return "\n\n".join(paragraphs).strip(), texts


def _takes_context(function: Callable[..., Any]) -> bool:
    parameters = signature_of(function)
    return bool(parameters) and parameters[0].annotation is ToolContext


def _after_context(function: Callable[..., Any]) -> list[inspect.Parameter]:
    parameters = signature_of(function)
    own = parameters[1:] if _takes_context(function) else parameters
    if any(parameter.annotation is ToolContext for parameter in own):
        raise UsageError("the parameter of type ToolContext must be the first.")
    return own


@dataclass(frozen=True, slots=True)
class _Called:
    """The body of a tool that is a function."""

    method: Method
    loop: PluginLoop
    workspace: Path
    takes_context: bool

    async def __call__(self, arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        method = self.method
        if method.access is Access.CHANGE and is_confined(context.phase):
            raise Refusal(
                f"{method.name} may not be used in the {context.phase} phase: which files it changes is not known."
            )
        about = ToolContext(
            conversation=context.conversation_id,
            agent=context.agent,
            phase=context.phase,
            workspace=self.workspace,
            call=context.idempotency_key,
        )
        first = (about,) if self.takes_context else ()
        has_begun = False

        async def run(given: dict[str, Any]) -> Any:
            nonlocal has_begun
            has_begun = True
            if inspect.iscoroutinefunction(method.function):
                return await self.loop.run(method.name, lambda: method.function(*first, **given))
            return await in_thread(lambda: method.function(*first, **given))

        with captured() as printed:
            try:
                result = await call_function(
                    method,
                    arguments,
                    key=context.idempotency_key,
                    run=run,
                    result=lambda value: result_of(method, value),
                )
            finally:
                about.cancelled.set()
        if printed:
            log.debug("plugin.printed", tool=method.name, text="".join(printed)[:200], **log_fields(context))
        may_have_changed = has_begun and method.access is not Access.READ  # also where it failed on the way
        return replace(result, has_outside_effect=may_have_changed)
