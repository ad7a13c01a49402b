"""An agent's own words as templates: only for one whose front matter gives it phases or state.

They see its phase, its state by name and as `state.x`, and `conversation.phase`; the template of its part sees the part
as `message` too.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import structlog
from jinja2 import Template, meta

from tenex.core.phases import Phase
from tenex.core.state.agent import AgentPhaseState, Program

from .agent_phases import values
from .templates import MISTAKES, Source, Templates, sandbox

log = structlog.get_logger(__name__)

_ENVIRONMENT: Final = sandbox()


def is_template(program: Program | None) -> bool:
    """Whether the words of an agent with that program are templates."""
    return program is not None and (program.graph is not None or bool(program.defaults))


def shows_state(words: Iterable[str]) -> bool:
    """Whether templates that have no faults show more of where an agent stands than its phase."""
    named = set().union(*(meta.find_undeclared_variables(_ENVIRONMENT.parse(text)) for text in words))
    return not named <= {"phase", "conversation"}


def rendered(text: str, standing: AgentPhaseState, conversation: Phase, **more: Any) -> str:
    """The words, filled in; as they were written where that cannot be done with this standing."""
    try:
        return _compiled(text).render({**values(standing, conversation), **more}).strip()
    except MISTAKES as error:  # its state is not what the samples of `faults_of_words` were
        log.warning("prompt.not_rendered", reason=str(error), phase=standing.phase)
        return text


@lru_cache(maxsize=256)
def _compiled(text: str) -> Template:
    return _ENVIRONMENT.from_string(text)


def faults_of_words(program: Program, source: str, words: Mapping[str, tuple[str, int]]) -> Iterator[str]:
    """What is wrong with words, each given with the line where it begins: tried in every phase, with the defaults."""
    nodes = program.graph.nodes if program.graph is not None else ("",)
    samples = [
        {**values(AgentPhaseState(phase=node, values=program.defaults), phase), "message": "Words."}
        for node in nodes
        for phase in Phase
    ]
    texts = Templates({name: Source("\n" * (line - 1) + text, source) for name, (text, line) in words.items()})
    for name in words:
        yield from texts.faults(name, samples if name == "input" else [_without(sample) for sample in samples])


def _without(sample: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in sample.items() if name != "message"}
