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
from tenex.core.people.permissions import may_use
from tenex.core.phases import Phase
from tenex.core.port_values import ToolResult
from tenex.core.state import State
from tenex.core.subagents.links import agent_state_of, asker, link_specs
from tenex.core.transaction import Transaction
from tenex.core.work import found_tools
from tenex.core.work.run import Call, Run

from .program import AgentPhaseState, Program
from .tools import APPEND, SET, change, every, names, refused_move, specs, target_of, unfit


def is_same_in_all_phases(state: State, run: Run, policy: Policy) -> bool:
    """Whether a run's system prompt and tools are those of its agent in every phase, so that providers cache them.

    What the phase permits is in a note then, and a call that it forbids is refused as ever. An agent with phases or
    state of its own has other tools and another prompt whenever those change, one with output states another grammar.
    """
    agent = policy.roster.get(run.agent)
    return state.has_phases and (agent is None or (agent.program is None and not agent.has_output_states))


def offered(
    state: State, run: Run, policy: Policy, specs: Callable[[Phase | None, Slug], Sequence[ToolSpec]]
) -> tuple[ToolSpec, ...]:
    """All a run is offered, in a stable order: what its agent has, the tools of the kind, what `find_tools` has found.

    A sub-agent's run takes no part in the kind. What depends on a function is offered by its recorded verdict
    (`ask_what_is_offered`); without one, as after a reload, it is offered after the next decision. `specs` gives the
    tools of an agent in a phase, for None those of all phases.
    """
    own = () if run.parent is not None else kind_of_conversation(state).tool_specs(state, run, policy)
    tools = specs(None if is_same_in_all_phases(state, run, policy) else run.phase, run.agent)
    listed, added = found_tools.split(tools, run.entries)
    there, also = _there_for(state, run, policy, listed, added)
    return (*there, *own, *also)


def _there_for(
    state: State, run: Run, policy: Policy, listed: Sequence[ToolSpec], added: Sequence[ToolSpec]
) -> tuple[tuple[ToolSpec, ...], tuple[ToolSpec, ...]]:
    """Of these tools those the agent's own phase offers; after the first the calls about itself, and its sub-agents."""
    agent = policy.roster.get(run.agent)
    if agent is None or agent.program is None:
        return tuple(listed), tuple(added)
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

    there = (tool for tool in listed if is_there(tool))
    its_own = (*specs(program, agent_state, state.cycle.phase), *link_specs(state, run, policy, is_final=True))
    return (*there, *its_own), tuple(tool for tool in added if is_there(tool))


def sync_agent_state(transaction: Transaction, run: Run) -> None:
    """Record the agent's state where it differs from the recorded one: at its first run, after a reload."""
    program = _program(transaction, run)
    if program is None:
        return
    agent_state = agent_state_of(transaction.state, run, program)
    if agent_state is not transaction.state.memory.agent_states.get(run.state_key):
        transaction.add(
            r.AgentStateInitialized,
            run=run.id,
            agent=run.agent,
            phase=agent_state.phase,
            values=dict(agent_state.values),
        )


def evaluate(transaction: Transaction, run_id: RunId) -> None:
    """Ask the edges of the agent's phase once, and go where the first true one leads."""
    run = transaction.state.work.runs.get(run_id)
    program = None if run is None else _program(transaction, run)
    if run is None or program is None:
        return
    sync_agent_state(transaction, run)
    agent_state = agent_state_of(transaction.state, run, program)
    evaluation = program.evaluate(agent_state, transaction.state.cycle.phase, asker(transaction.state, run))
    for target, error in evaluation.failed:
        if (agent_state.phase, target) not in transaction.state.work.runs[run_id].failed_edges:
            transaction.add(
                r.ConditionFailed, run=run.id, agent=run.agent, source=agent_state.phase, target=target, error=error
            )
    if evaluation.target is not None:
        move(transaction, run, agent_state.phase, evaluation.target)


def move(transaction: Transaction, run: Run, source: str, target: str) -> None:
    """Record that the agent has changed its phase; its prompt there is rendered when the record is sealed."""
    transaction.add(r.AgentPhaseChanged, run=run.id, agent=run.agent, source=source, target=target)


def rerender_prompts(transaction: Transaction) -> None:
    """Have the prompts rendered again that show state which has changed, of runs whose model is wanted from now on."""
    first = transaction.records[0].seq if transaction.records else transaction.state.next_seq
    for run in tuple(transaction.state.work.runs.values()):
        if run.is_stale and run.wants is not None and run.wants >= first:
            program = _program(transaction, run)
            if program is not None and program.shows_state:
                transaction.add(r.PromptRerendered, run=run.id)


def ask_what_is_offered(transaction: Transaction) -> None:
    """Have it on record which tools and sub-agents the functions of agents offer whose model is wanted from now on."""
    first = transaction.records[0].seq if transaction.records else transaction.state.next_seq
    for run in tuple(transaction.state.work.runs.values()):
        program = _program(transaction, run)
        if run.wants is not None and run.wants >= first and program is not None and program.asks_functions:
            agent_state = agent_state_of(transaction.state, run, program)
            ask = asker(transaction.state, run)
            for tool in (*program.scopes, *program.links):
                program.withheld(tool, agent_state, transaction.state.cycle.phase, ask)


def refusal(transaction: Transaction, run: Run, agent: Agent, tool: str) -> str | None:
    """Why a call is not permitted, as a sentence the model can act on; None if it is.

    Both the conversation's phase and the agent's own must permit it.
    """
    phase = transaction.state.cycle.phase
    rule = transaction.policy.tools_of(agent).get(tool)
    is_permitted = rule is not None and may_use(rule, phase, agent)
    reason = withheld(transaction, run, agent, tool)
    if is_permitted and reason is None:
        return None
    offer = _offer(transaction, run, agent)
    if is_permitted:
        return f"The tool {tool} is not there for you now: {reason}; nothing was done. {offer}"
    if rule is None:
        return f"There is no tool {tool}. {offer}"
    return f"The tool {tool} may not be used by {agent.slug} in the {phase} phase; nothing was done. {offer}"


def _offer(transaction: Transaction, run: Run, agent: Agent) -> str:
    """What the agent may use where it is now."""
    state = transaction.state
    here = ""
    program = agent.program
    allowed = [
        rule.name for rule in transaction.policy.tools_of(agent).values() if may_use(rule, state.cycle.phase, agent)
    ]
    if program is not None:
        agent_state = agent_state_of(state, run, program)
        here = f"You are in your phase {agent_state.phase}. " if agent_state.phase else ""
        subagents = [spec.name for spec in link_specs(state, run, transaction.policy)]
        there = [name for name in allowed if withheld(transaction, run, agent, name) is None]
        allowed = [*there, *names(program, agent_state, state.cycle.phase), *subagents]
    return f"{here}You may use: {', '.join(sorted(allowed))}." if allowed else f"{here}You may use no tools now."


def withheld(transaction: Transaction, run: Run, agent: Agent, tool: str) -> str | None:
    """Why the agent's own phase does not offer a tool, as it is now; None if it does."""
    program = agent.program
    if program is None:
        return None
    agent_state = agent_state_of(transaction.state, run, program)
    return program.withheld(tool, agent_state, transaction.state.cycle.phase, asker(transaction.state, run))


def is_own(agent: Agent, call: Call) -> bool:
    """Whether a call is about the agent itself, in the phase where it is or in another."""
    return agent.program is not None and call.request.tool in every(agent.program)


def decide(transaction: Transaction, run: Run, agent: Agent, call: Call) -> None:
    """Decide a call that is about the agent itself, with its result."""
    sentence = call.request.fault or (_decide(transaction, run, agent, agent.program, call) if agent.program else None)
    if sentence:
        transaction.refuse(run, call, sentence)


def _decide(transaction: Transaction, run: Run, agent: Agent, program: Program, call: Call) -> str | None:
    """Why the call is refused; None if it was carried out."""
    request = call.request
    phase = transaction.state.cycle.phase
    agent_state = agent_state_of(transaction.state, run, program)
    if request.tool in (SET, APPEND):
        if request.tool not in names(program, agent_state, phase):
            return refusal(transaction, run, agent, request.tool)
        values = change(program, agent_state, request.tool, request.arguments)
        if isinstance(values, str):
            return values
        done = "set" if request.tool == SET else "longer by one"
        transaction.add_result(run, call, ok=True, content=f"{', '.join(values)} is {done}.", values=values)
        evaluate(transaction, run.id)
        return None
    if sentence := refused_move(program, agent_state, request.tool, phase, asker(transaction.state, run)):
        return sentence
    target = target_of(program, request.tool)
    transaction.add_result(run, call, ok=True, content=f"You are in {target} now.")
    move(transaction, run, agent_state.phase, target)  # it is the one step: nothing is evaluated on top of it
    return None


def kept(transaction: Transaction, run: Run, result: ToolResult) -> ToolResult:
    """The result with the changes of state it may make; a forbidden change makes it a failed result with the reason."""
    program = _program(transaction, run)
    if not result.values and not result.moves:
        return result
    if program is None:
        return replace(result, values={}, moves=())
    unknown = [name for name in result.values if name not in program.defaults]
    sentence = f"It has no state {', '.join(unknown)}; nothing of its state is changed." if unknown else None
    agent_state = agent_state_of(transaction.state, run, program)
    sentence = sentence or unfit(agent_state, result.values) or _no_way(program, agent_state, result.moves)
    if sentence:
        return replace(result, ok=False, content=f"{result.content}\n\n{sentence}", values={}, moves=())
    return result


def _no_way(program: Program, agent_state: AgentPhaseState, moves: Sequence[tuple[str, str]]) -> str | None:
    """Why a call cannot have gone that way; whether the conditions held, the tool has checked."""
    here = agent_state.phase
    edges = program.graph.edges if program.graph else ()
    pairs = {(edge.source, edge.target) for edge in edges}
    for source, target in moves:
        if source != here or (source, target) not in pairs:
            return f"It is in {here}, from where it cannot go from {source} to {target}; nothing of it is changed."
        here = target
    return None


def _program(transaction: Transaction, run: Run) -> Program | None:
    agent = transaction.policy.roster.get(run.agent)
    return agent.program if agent is not None else None
