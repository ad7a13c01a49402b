"""Whether there is anything to do in chores and in reflection; where there is nothing, a rule passes the gate.

    chores        files were made, or a document names what was changed
    reflection    an agent's call failed or was refused, verification found issues, a check failed, a person corrected
                  an agent, the cycle was long, or no lesson is recorded in this project yet

No model and no user is asked: it follows from the state, and from whether there are lessons. What is not known counts
as something to do. The transition that passes a gate records why.
"""

from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import Final

from tenex.core.config import Need, Policy
from tenex.core.cycle.checks import LOCK_FILES
from tenex.core.ids import Slug
from tenex.core.inbox.message import Message
from tenex.core.memory.window import in_a_line
from tenex.core.phases import GATES, TALK_PHASES, Phase
from tenex.core.state import State
from tenex.core.text.amounts import count
from tenex.core.work.turn import OrchestratorTurn

from . import checks
from .state import phases_of

NAMED: Final = 5
"""Files that a reason names."""
REASON: Final = 400
"""Characters of a reason: agents read it as their part."""
LONG_TURNS: Final = 6
"""Turns of work of a usual cycle at most: a plan, the work, its verification, a repair that is verified, and chores."""
LONG_CALLS: Final = 40
"""Calls of models of a usual cycle at most: four times the ten that a change takes without chores and reflection."""


def why_needed(state: State, policy: Policy, gate: Phase) -> str:
    """Why agents have to work in a gate that is open; "" where a rule passes it."""
    match gate:
        case Phase.CHORES:
            return _by_setting(policy.gates.chores, gate, needs_chores(state))
        case Phase.REFLECTION:
            return _by_setting(policy.gates.reflection, gate, needs_reflection(state, policy))
    return GATES[gate].reason


def _by_setting(need: Need, gate: Phase, reason: str) -> str:
    if need == "never":
        return ""
    return reason or (GATES[gate].reason if need == "always" else "")


def why_passed(state: State, policy: Policy, gate: Phase) -> str:
    """Why a rule passes a gate in which no agent has to work."""
    setting = policy.gates.chores if gate is Phase.CHORES else policy.gates.reflection
    if setting == "never":
        return f'left out: gates.{gate} is "never"'
    if gate is Phase.CHORES:
        return "nothing to tidy: no file was made and no document names what was changed"
    if not any(agent in policy.routable for agent in state.cycle.participants):
        return "nobody who took part is left to reflect"
    return "nothing to reflect on: no call failed, no fault was found and nobody was corrected"


# ---- chores ----------------------------------------------------------------------------------------------------------


def needs_chores(state: State) -> str:
    """What there is to tidy; "" for nothing."""
    touched = state.cycle.touched
    inspection = phases_of(state).inspection
    if inspection is None or inspection.fault:
        why = f" (what differs is not known: {inspection.fault})" if inspection is not None else ""
        return f"changed: {_listed(touched)}{why}" if touched else ""
    made = [file.path for file in inspection.changed if file.kind == "new" and file.path in touched]
    made = [path for path in made if PurePosixPath(path).name not in LOCK_FILES]  # a program has written them
    parts = []
    if made:
        parts.append(f"made: {_listed(made)}")
    if inspection.named_in:
        parts.append(f"named in: {_listed(inspection.named_in)}")
    return "; ".join(parts)


def _listed(paths: Iterable[str]) -> str:
    names = sorted(paths)
    more = f" and {count(len(names) - NAMED, 'other')}" if len(names) > NAMED else ""
    return in_a_line(", ".join(names[:NAMED]), REASON) + more


# ---- reflection ------------------------------------------------------------------------------------------------------


def needs_reflection(state: State, policy: Policy) -> str:
    """What there is to reflect on; "" for nothing, also where no agent that took part is left."""
    agents = reflecting(state, policy)
    own = (reason for agent in agents for reason in _own_reasons(state, policy, agent))
    reasons = dict.fromkeys([*_general_reasons(state), *own])
    return in_a_line("; ".join(reasons), REASON) if agents else ""


def reflecting(state: State, policy: Policy) -> tuple[Slug, ...]:
    """Those who took part in the cycle, are still in the roster, and have something to reflect on."""
    present = tuple(agent for agent in state.cycle.participants if agent in policy.routable)
    is_for_all = policy.gates.reflection == "always" or any(_general_reasons(state))
    if is_for_all:
        return present
    return tuple(agent for agent in present if any(_own_reasons(state, policy, agent)))


def _general_reasons(state: State) -> Iterator[str]:
    """What each who took part may reflect on."""
    turns = sum(turn.phase not in TALK_PHASES and turn.phase is not Phase.REFLECTION for turn in state.cycle.turns)
    if turns > LONG_TURNS:
        yield f"the cycle took {count(turns, 'turn')}"
    calls = (state.cycle.usage - state.cycle.talk_usage).calls
    if calls > LONG_CALLS:
        yield f"the cycle took {count(calls, 'model call')}"


def _own_reasons(state: State, policy: Policy, agent: Slug) -> Iterator[str]:
    """What an agent itself may reflect on."""
    phases = phases_of(state)
    if not policy.has_lessons() and _has_worked(state, agent, Phase.PLAN, Phase.EXECUTE):
        yield "no lesson is recorded in this project yet"
    if failed := phases.failed_calls.get(agent, 0):
        yield f"{count(failed, 'call')} of {agent} failed or {'was' if failed == 1 else 'were'} refused"
    if any(done.agent == agent and done.verdict == "issues" for turn in state.cycle.turns for done in turn.completions):
        yield f"{agent} found issues"
    if any(agent in turn.agents for turn in _repairs(state)):
        yield f"{agent} repaired what was found"
    if has_red_check(state) and _has_worked(state, agent, Phase.EXECUTE):
        yield "a check failed"
    if agent in phases.corrected or any(_is_for(state, agent, message) for message in _corrections(state)):
        yield f"a person corrected {agent}"


def has_red_check(state: State) -> bool:
    """Whether a check was worse on a tree of the cycle than at the cycle's beginning."""
    phases = phases_of(state)
    base = phases.inspection.base if phases.inspection is not None else ""
    return any(checks.is_worse(state, result) for result in phases.check_results if result.tree != base)


def _repairs(state: State) -> Iterator[OrchestratorTurn]:
    """The turns in execute after a verification that found issues."""
    has_issues = False
    for turn in state.cycle.turns:
        if has_issues and turn.phase is Phase.EXECUTE:
            yield turn
        has_issues = has_issues or any(done.verdict == "issues" for done in turn.completions)


def _corrections(state: State) -> Iterator[Message]:
    """What people wrote after work had begun, and agents have carried out in this cycle; answers to us are none."""
    began = next((turn.seq for turn in state.cycle.turns if turn.phase not in TALK_PHASES), None)
    if began is None:
        return
    left = {message.seq for message in state.requests}
    for message in state.cycle.messages:
        is_new = message.role is not None and message.seq > began and not message.is_settled
        if is_new and message.seq not in left:
            yield message


def _is_for(state: State, agent: Slug, message: Message) -> bool:
    """Whether a message came in or after a turn of the agent, as far as that turn is known."""
    turn = next((turn for turn in state.cycle.turns if turn.turn_id == message.after_turn), None)
    return agent in turn.agents if turn is not None else _has_worked(state, agent, Phase.EXECUTE)


def _has_worked(state: State, agent: Slug, *phases: Phase) -> bool:
    return any(turn.phase in phases and agent in turn.agents for turn in state.cycle.turns)
