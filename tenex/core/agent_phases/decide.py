"""An agent's own phases at work: where it is, what it is offered there, and when it moves on.

Asked in three places with one answer: when tools are offered to a model, when they are in its prompt, and when a
call is about to start, because a call before it may have changed the phase.

Evaluated after each answer of its model, each result of a call and each sub-agent's end; what asks is `evaluate`.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from tenex.core import records as r
from tenex.core.config import Agent, Policy
from tenex.core.functions.verdicts import Unanswered
from tenex.core.ids import RunId, Slug
from tenex.core.kind import kind_of_conversation
from tenex.core.messages import ToolSpec
from tenex.core.permissions import may_use
from tenex.core.phases import Phase
from tenex.core.port_values import ToolResult
from tenex.core.state import State
from tenex.core.subagents.links import agent_state_of, asker, link_specs
from tenex.core.transaction import Transaction
from tenex.core.work.run import Call, Run

from .program import AgentPhaseState, Program
from .tools import APPEND, SET, change, every, names, refused_move, specs, target_of, unfit


def is_same_in_all_phases(state: State, run: Run, rules: Policy) -> bool:
    """Whether a run's system prompt and tools are those of its agent in every phase, so that providers cache them.

    What the phase permits is in a note then, and a call that it forbids is refused as ever. An agent with phases or
    state of its own has other tools and another prompt whenever those change, one with output states another grammar.
    """
    agent = rules.roster.get(run.agent)
    return state.has_phases and (agent is None or (agent.program is None and not agent.has_output_states))


def offered(
    state: State, run: Run, rules: Policy, specs: Callable[[Phase | None, Slug], Sequence[ToolSpec]]
) -> tuple[ToolSpec, ...]:
    """All a run is offered, in a stable order: what its agent has, then the tools of the kind of conversation.

    A sub-agent's run takes no part in the kind. What depends on a function is offered by its recorded verdict
    (`ask_what_is_offered`); without one, as after a reload, it is offered after the next decision. `specs` gives the
    tools of an agent in a phase, for None those of all phases.
    """
    own = () if run.parent is not None else kind_of_conversation(state).tool_specs(state, run, rules)
    tools = specs(None if is_same_in_all_phases(state, run, rules) else run.phase, run.agent)
    return (*_there_for(state, run, rules, tools), *own)


def _there_for(state: State, run: Run, rules: Policy, tools: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
    """Of these tools those the agent's own phase offers, then the calls about itself, then its sub-agents."""
    agent = rules.roster.get(run.agent)
    if agent is None or agent.program is None:
        return tuple(tools)
    program = agent.program
    try:
        agent_state = agent_state_of(state, run, program)
    except Unanswered:
        agent_state = AgentPhaseState(phase=program.graph.initial if program.graph else "", values=program.defaults)
    ask = asker(state, run)

    def is_there(tool: ToolSpec) -> bool:
        try:
            return program.offers(tool.name, agent_state, state.cycle.phase, ask)
        except Unanswered:
            return False

    there = (tool for tool in tools if is_there(tool))
    return (*there, *specs(program, agent_state, state.cycle.phase), *link_specs(state, run, rules, is_final=True))


def sync_agent_state(draft: Transaction, run: Run) -> None:
    """Record the agent's state where it differs from the recorded one: at its first run, after a reload."""
    program = _program(draft, run)
    if program is None:
        return
    agent_state = agent_state_of(draft.state, run, program)
    if agent_state is not draft.state.memory.agent_states.get(run.state_key):
        draft.add(
            r.AgentStateInitialized,
            run=run.id,
            agent=run.agent,
            phase=agent_state.phase,
            values=dict(agent_state.values),
        )


def evaluate(draft: Transaction, run_id: RunId) -> None:
    """Ask the edges of the agent's phase once, and go where the first true one leads."""
    run = draft.state.work.runs.get(run_id)
    program = None if run is None else _program(draft, run)
    if run is None or program is None:
        return
    sync_agent_state(draft, run)
    agent_state = agent_state_of(draft.state, run, program)
    found = program.evaluate(agent_state, draft.state.cycle.phase, asker(draft.state, run))
    for target, error in found.failed:
        if (agent_state.phase, target) not in draft.state.work.runs[run_id].failed_edges:
            draft.add(
                r.ConditionFailed, run=run.id, agent=run.agent, source=agent_state.phase, target=target, error=error
            )
    if found.target is not None:
        move(draft, run, agent_state.phase, found.target)


def move(draft: Transaction, run: Run, source: str, target: str) -> None:
    """Record that the agent has changed its phase; its prompt there is rendered when the record is sealed."""
    draft.add(r.AgentPhaseChanged, run=run.id, agent=run.agent, source=source, target=target)


def rerender_prompts(draft: Transaction) -> None:
    """Have the prompts rendered again that show state which has changed, of runs whose model is wanted from now on."""
    first = draft.records[0].seq if draft.records else draft.state.next_seq
    for run in tuple(draft.state.work.runs.values()):
        if run.is_stale and run.wants is not None and run.wants >= first:
            program = _program(draft, run)
            if program is not None and program.shows_state:
                draft.add(r.PromptRerendered, run=run.id)


def ask_what_is_offered(draft: Transaction) -> None:
    """Have it on record which tools and sub-agents the functions of agents offer whose model is wanted from now on."""
    first = draft.records[0].seq if draft.records else draft.state.next_seq
    for run in tuple(draft.state.work.runs.values()):
        program = _program(draft, run)
        if run.wants is not None and run.wants >= first and program is not None and program.asks_functions:
            agent_state, ask = agent_state_of(draft.state, run, program), asker(draft.state, run)
            for tool in (*program.scopes, *program.links):
                program.withheld(tool, agent_state, draft.state.cycle.phase, ask)


def refusal(draft: Transaction, run: Run, agent: Agent, tool: str) -> str | None:
    """Why a call is not permitted, as a sentence the model can act on; None if it is.

    Both the conversation's phase and the agent's own must permit it.
    """
    phase, rule = draft.state.cycle.phase, draft.rules.tools_of(agent).get(tool)
    is_permitted = rule is not None and may_use(rule, phase, agent)
    reason = withheld(draft, run, agent, tool)
    if is_permitted and reason is None:
        return None
    offer = _offer(draft, run, agent)
    if is_permitted:
        return f"The tool {tool} is not there for you now: {reason}; nothing was done. {offer}"
    if rule is None:
        return f"There is no tool {tool}. {offer}"
    return f"The tool {tool} may not be used by {agent.slug} in the {phase} phase; nothing was done. {offer}"


def _offer(draft: Transaction, run: Run, agent: Agent) -> str:
    """What the agent may use where it is now."""
    state, here, program = draft.state, "", agent.program
    allowed = [rule.name for rule in draft.rules.tools_of(agent).values() if may_use(rule, state.cycle.phase, agent)]
    if program is not None:
        agent_state = agent_state_of(state, run, program)
        here = f"You are in your phase {agent_state.phase}. " if agent_state.phase else ""
        subagents = [spec.name for spec in link_specs(state, run, draft.rules)]
        there = [name for name in allowed if withheld(draft, run, agent, name) is None]
        allowed = [*there, *names(program, agent_state, state.cycle.phase), *subagents]
    return f"{here}You may use: {', '.join(sorted(allowed))}." if allowed else f"{here}You may use no tools now."


def withheld(draft: Transaction, run: Run, agent: Agent, tool: str) -> str | None:
    """Why the agent's own phase does not offer a tool, as it is now; None if it does."""
    program = agent.program
    if program is None:
        return None
    agent_state = agent_state_of(draft.state, run, program)
    return program.withheld(tool, agent_state, draft.state.cycle.phase, asker(draft.state, run))


def is_own(agent: Agent, call: Call) -> bool:
    """Whether a call is about the agent itself, in the phase where it is or in another."""
    return agent.program is not None and call.request.tool in every(agent.program)


def decide(draft: Transaction, run: Run, agent: Agent, call: Call) -> None:
    """Decide a call that is about the agent itself, with its result."""
    sentence = call.request.fault or (_decide(draft, run, agent, agent.program, call) if agent.program else None)
    if sentence:
        draft.refuse(run, call, sentence)


def _decide(draft: Transaction, run: Run, agent: Agent, program: Program, call: Call) -> str | None:
    """Why the call is refused; None if it was carried out."""
    request, phase = call.request, draft.state.cycle.phase
    agent_state = agent_state_of(draft.state, run, program)
    if request.tool in (SET, APPEND):
        if request.tool not in names(program, agent_state, phase):
            return refusal(draft, run, agent, request.tool)
        values = change(program, agent_state, request.tool, request.arguments)
        if isinstance(values, str):
            return values
        done = "set" if request.tool == SET else "longer by one"
        draft.add_result(run, call, ok=True, content=f"{', '.join(values)} is {done}.", values=values)
        evaluate(draft, run.id)
        return None
    if sentence := refused_move(program, agent_state, request.tool, phase, asker(draft.state, run)):
        return sentence
    target = target_of(program, request.tool)
    draft.add_result(run, call, ok=True, content=f"You are in {target} now.")
    move(draft, run, agent_state.phase, target)  # it is the one step: nothing is evaluated on top of it
    return None


def kept(draft: Transaction, run: Run, result: ToolResult) -> ToolResult:
    """The result with the changes of state it may make; a forbidden change makes it a failed result with the reason."""
    program = _program(draft, run)
    if not result.values and not result.moves:
        return result
    if program is None:
        return replace(result, values={}, moves=())
    unknown = [name for name in result.values if name not in program.defaults]
    sentence = f"It has no state {', '.join(unknown)}; nothing of its state is changed." if unknown else None
    agent_state = agent_state_of(draft.state, run, program)
    sentence = sentence or unfit(agent_state, result.values) or _no_way(program, agent_state, result.moves)
    if sentence:
        return replace(result, ok=False, content=f"{result.content}\n\n{sentence}", values={}, moves=())
    return result


def _no_way(program: Program, agent_state: AgentPhaseState, moves: Sequence[tuple[str, str]]) -> str | None:
    """Why a call cannot have gone that way; whether the conditions held, the tool has checked."""
    here, edges = agent_state.phase, program.graph.edges if program.graph else ()
    pairs = {(edge.source, edge.target) for edge in edges}
    for source, target in moves:
        if source != here or (source, target) not in pairs:
            return f"It is in {here}, from where it cannot go from {source} to {target}; nothing of it is changed."
        here = target
    return None


def _program(draft: Transaction, run: Run) -> Program | None:
    agent = draft.rules.roster.get(run.agent)
    return agent.program if agent is not None else None
