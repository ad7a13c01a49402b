"""Sub-agents an agent may call like tools: which of them are there now, and what one that is called is shown.

    link      what is configured: a sub-agent, what it is there for, when it may be called (`state.agent.Link`)
    caller    the run whose call began another; the chain of a run is itself, its caller, that one's caller ...

A sub-agent sees the message of the call and not the conversation: the caller knows what it needs, and what is not
shown costs nothing and leads no one astray.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from tenex.core.agent_phases.program import AgentPhaseState, Ask, Link, Program
from tenex.core.config import Agent, AgentKind, Policy
from tenex.core.functions.verdicts import FunctionQuestion, Unanswered, Verdict, answer
from tenex.core.memory.window import MESSAGE_CHARACTERS
from tenex.core.messages import AgentText, Entry, Note, ToolSpec, cut
from tenex.core.phases import Phase
from tenex.core.state import State
from tenex.core.work.run import Run

MESSAGE: Final = "message"
"""The one argument of such a call."""


def link_of(agent: Agent, tool: str) -> Link | None:
    """The link that a tool's name means, if the agent has one of that name."""
    return agent.program.links.get(tool) if agent.program is not None else None


def asker(state: State, run: Run) -> Ask:
    """Gives the recorded verdicts of the functions of a run's agent."""

    def ask(function: str, given: str, code: Any, call: Callable[[], Any]) -> Verdict:
        name = f"{run.agent} {function}"
        return answer(
            state.work.verdicts, FunctionQuestion(owner=run.state_key, function=name, given=given, code=code, call=call)
        )

    return ask


def agent_state_of(state: State, run: Run, program: Program) -> AgentPhaseState:
    """The state of a run's agent, by its program as configured now."""
    return program.fitted(state.memory.agent_states.get(run.state_key), asker(state, run))


def link_specs(state: State, run: Run, policy: Policy, *, is_final: bool = False) -> tuple[ToolSpec, ...]:
    """The sub-agents a run may call now, as tools, in the order in which they are configured.

    Raises:
        Unanswered: it depends on a function without a verdict; with `is_final` that one is left out.
    """
    agent = policy.roster.get(run.agent)
    specs: list[ToolSpec] = []
    for tool, link in agent.program.links.items() if agent is not None and agent.program is not None else ():
        try:
            if agent is not None and refusal(state, run, agent, tool, link, policy) is None:
                specs.append(ToolSpec(name=tool, description=link.description, parameters=_PARAMETERS))
        except Unanswered:
            if not is_final:
                raise
    return tuple(specs)


_PARAMETERS: Final = {
    "type": "object",
    "properties": {
        MESSAGE: {
            "type": "string",
            "description": "What you want of them, with all they need to know: they see this and not the conversation.",
        }
    },
    "required": [MESSAGE],
    "additionalProperties": False,
}


def refusal(state: State, run: Run, agent: Agent, tool: str, link: Link, policy: Policy) -> str | None:
    """Why a sub-agent may not be called now, as a sentence the model can act on; None if it may.

    Asked when tools are listed, and again when one is called.
    """
    if state.cycle.phase is Phase.REFLECTION:
        return f"{tool} may not be called in the reflection phase; nothing was done."
    called = policy.roster.get(link.agent)
    if called is None:
        return f"{tool} is not there: no agent is called {link.agent} any more. Do without."
    if agent.kind is AgentKind.EXPERT and called.kind is not AgentKind.EXPERT:
        return f"{tool} may not be called by {agent.slug}, who advises: {called.slug} may change and run things."
    above = [caller.agent for caller in chain(state, run)]
    if link.agent in above:
        return f"{tool} cannot be called from here: {link.agent} waits for what you do. Answer with what you have."
    if len(above) > (most := policy.limits.link_depth):
        return f"{tool} is not called: sub-agents call each other {most} deep at most. Do it yourself."
    if agent.program is None:
        return None
    agent_state = agent_state_of(state, run, agent.program)
    withheld = agent.program.withheld(tool, agent_state, state.cycle.phase, asker(state, run))
    here = f" You are in your phase {agent_state.phase}." if agent_state.phase else ""
    return (
        f"The sub-agent {tool} is not available to you now: {withheld}; nothing was done.{here}" if withheld else None
    )


def chain(state: State, run: Run) -> Iterator[Run]:
    """A run, its caller, that one's caller, and so on."""
    at: Run | None = run
    while at is not None:
        yield at
        at = state.work.runs.get(at.parent) if at.parent is not None else None


def entries_of_called(state: State, run: Run, changed: str) -> tuple[Entry, ...]:
    """What a called run is shown when it begins: whose call it serves, the files `changed`, the call's message."""
    caller = state.work.runs.get(run.parent) if run.parent is not None else None
    if caller is None:
        return ()
    part = (
        f"{caller.name} has called you. Do what the message below asks, as far as your instructions and the phase "
        f"permit. Your final text goes back to {caller.name}, and to no one else."
    )
    return (
        Note(title="Your part", text=f"{part}{changed}"),
        AgentText(author=caller.name, text=message_to(state, run)),
    )


def message_to(state: State, run: Run) -> str:
    """The message of the call that began a run, cut; empty for one that no one called."""
    caller = state.work.runs.get(run.parent) if run.parent is not None else None
    call = next((call for call in caller.calls if call.request.id == run.call), None) if caller is not None else None
    return cut(str(call.request.arguments.get(MESSAGE, "")), MESSAGE_CHARACTERS) if call is not None else ""
