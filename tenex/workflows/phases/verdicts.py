"""When a verdict `verified` counts: its agent has seen the work as it is now, and no check speaks against it.

    a check has come to its end         none of them is worse than before the work
    none has, or none is known          the verifier's turn ran something, or read every changed file

After a verdict `issues` something has to change first, or a user has to write. Nothing is read from a command line, and
nothing from what an agent says. (ADR 81.)
"""

from typing import Final

from tenex.core.config import Agent, Policy
from tenex.core.kind import Unproved
from tenex.core.people.permissions import may_use
from tenex.core.phases import Access, Phase
from tenex.core.state import State
from tenex.core.transaction import Transaction
from tenex.core.work.runs import UNPROVED
from tenex.core.work.turn import OrchestratorTurn
from tenex.workflows.phases.state import phases_of

from . import checks

NAMED: Final = 5
"""Files that a refusal names."""


def counts(state: State, turn: OrchestratorTurn) -> bool:
    """Whether a verdict `verified` of this turn meets the gate."""
    if not phases_of(state).executed:
        return True
    if checks.are_under_way(state) or checks.worse(state) or is_unchanged_since_issues(state):
        return False
    return checks.has_ended_any(state) or has_looked(state, turn)


def has_looked(state: State, turn: OrchestratorTurn) -> bool:
    """Whether a turn has run something, or read every changed file."""
    return bool(turn.ran) or unread(state, turn) == ()


def unread(state: State, turn: OrchestratorTurn) -> tuple[str, ...] | None:
    """The changed files that were not read in a turn; None where none is known to have changed."""
    changed = checks.changed_files(state) or checks.differing(state)  # of what was only deleted a diff is read
    return tuple(sorted(changed - turn.looked_at)) if changed else None


def is_unchanged_since_issues(state: State) -> bool:
    """Whether the workspace is as it was when a verification found something, and no user has written since."""
    part = phases_of(state)
    return bool(part.refused_tree) and part.refused_tree == part.tree


def programs_of(agent: Agent, policy: Policy) -> frozenset[str]:
    """The tools by which an agent can run something in verification."""
    known = policy.tools_of(agent).values()
    return frozenset(
        rule.name for rule in known if rule.access is Access.RUN and may_use(rule, Phase.VERIFICATION, agent)
    )


def why_unproved(transaction: Transaction, agent: Agent) -> Unproved | None:
    """Why a verdict `verified` does not count yet, and what to do; None where its agent has looked at the work.

    Who can run nothing and works beside others only judges: whether something was run is looked at when all are done.
    """
    state = transaction.state
    turn = state.work.turn
    if turn is None or not phases_of(state).executed or has_looked(state, turn):
        return None
    if checks.has_ended_any(state) or checks.are_under_way(state):
        return None
    tools = sorted(programs_of(agent, transaction.policy))
    if not tools and len(turn.agents) > 1:
        return None
    names = " or ".join(f"`{name}`" for name in tools)
    otherwise = "If it cannot be tried, give the verdict `untried` with the reason in `issues`."
    left = unread(state, turn) or ()
    read = ", ".join(left[:NAMED]) + (" and others" if len(left) > NAMED else "")
    reason = f"{agent.name} ran nothing" + (f" and did not read {read}" if read else "")
    ways = [f"use the work as its user would with {names}"] if names else []
    ways += [f"read {read}"] if read else []
    how = " or ".join(ways) or "look at the work"
    refusal = f"{UNPROVED}nothing was run and not every changed file was read. First {how}. {otherwise}"
    return Unproved(refusal, reason)
