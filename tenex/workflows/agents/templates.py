"""An agent's system message and input template, rendered from its phase and state: in a sandbox, strictly.

{{ phase }}  {{ plan }}  {{ state.plan }}  {{ state.history }}  {{ conversation.phase }}  {{ user_message }}
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError, meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

from tenex.core.agent_phases.program import AgentPhaseState
from tenex.core.errors import ConfigurationError
from tenex.core.phases import Phase

MESSAGE: Final = "user_message"
GIVEN: Final = ("phase", "state", "conversation")
"""The names of a template besides the fields of state."""

_MISTAKES = (TemplateError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What an expression in a template can raise."""


class _Sandbox(ImmutableSandboxedEnvironment):
    """Takes `state.items` for the field of that name before it is Python's method."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Return the value of an attribute."""
        return obj[attribute] if isinstance(obj, Mapping) and attribute in obj else super().getattr(obj, attribute)


def _environment() -> _Sandbox:
    made = _Sandbox(undefined=StrictUndefined, autoescape=False, trim_blocks=True, lstrip_blocks=True)
    made.globals.clear()  # a prompt needs values, filters and loops, no functions
    return made


_ENVIRONMENT: Final = _environment()


def template_faults(text: str, where: str, names: Iterable[str]) -> list[str]:
    """Return the syntax errors and unknown names of a template."""
    known = {*GIVEN, *names}
    try:
        unknown = sorted(meta.find_undeclared_variables(_ENVIRONMENT.parse(text)) - known)
    except TemplateSyntaxError as error:
        return [f"`{where}`, line {error.lineno}: {error.message}."]
    there = ", ".join(sorted(known))
    return [f"`{where}`: there is no variable {name}. There are: {there}." for name in unknown]


def shows_state(text: str) -> bool:
    """Whether a template without faults shows more than the agent's phase."""
    return not meta.find_undeclared_variables(_ENVIRONMENT.parse(text)) <= {"phase", "conversation"}


def render(text: str, where: str, agent_state: AgentPhaseState, conversation: Phase | None, **more: Any) -> str:
    """The text with its values, without space around it.

    Raises:
        ConfigurationError: an expression of it failed; names the place.
    """
    history = [{"source": move.source, "target": move.target, "at": move.at} for move in agent_state.history]
    state = {**agent_state.values, "phase": agent_state.phase, "history": history}
    talk = {"phase": None if conversation is None else str(conversation)}
    values = {**agent_state.values, **more, "phase": agent_state.phase, "state": state, "conversation": talk}
    try:
        return _ENVIRONMENT.from_string(text).render(values).strip()
    except _MISTAKES as error:
        raise ConfigurationError([f"{where} cannot be rendered: {error}."]) from error
