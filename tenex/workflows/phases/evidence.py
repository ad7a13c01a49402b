"""What has to be on record before a verdict `verified` counts: something was run, or what cannot be run was read.

By the calls of this turn alone: a program of the work ended with exit status 0 (`core/programs.py` says what is more
than reading or printing), or all files that the cycle has changed are text, and each was read. (ADR 55.)
"""

from typing import Final

from tenex.core.config import Agent, Policy
from tenex.core.decide.permissions import may_use
from tenex.core.decide.runs import UNPROVED
from tenex.core.decide.transaction import Transaction
from tenex.core.phases import Access, Phase
from tenex.core.programs import is_text
from tenex.core.state.conversation import State
from tenex.core.state.run import OrchestratorTurn

NAMED: Final = 5
"""Files that a refusal names."""


def unread(state: State, turn: OrchestratorTurn) -> tuple[str, ...] | None:
    """The changed files that were not read in a turn; None where reading proves nothing."""
    if not state.cycle.touched or not all(map(is_text, state.cycle.touched)):
        return None
    return tuple(sorted(state.cycle.touched - turn.looked_at))


def is_proved(state: State, turn: OrchestratorTurn) -> bool:
    """Whether the calls of a turn show that what was changed has been tried."""
    return not state.phases.executed or turn.has_tried or unread(state, turn) == ()


def programs_of(agent: Agent, rules: Policy) -> frozenset[str]:
    """The tools by which an agent can run something in verification."""
    known = rules.tools_of(agent).values()
    return frozenset(
        rule.name for rule in known if rule.access is Access.RUN and may_use(rule, Phase.VERIFICATION, agent)
    )


def why_unproved(draft: Transaction, agent: Agent) -> str | None:
    """Why a verdict `verified` does not count yet, and what to do; None where it counts.

    Who can run nothing and works beside others only judges: whether something was run is looked at when all are done.
    """
    state, turn = draft.state, draft.state.work.turn
    if turn is None or is_proved(state, turn):
        return None
    tools = sorted(programs_of(agent, draft.rules))
    if not tools and len(turn.agents) > 1:
        return None
    left = unread(state, turn)
    if left is not None:
        names = ", ".join(left[:NAMED]) + (" and others" if len(left) > NAMED else "")
        return f"{UNPROVED}{names} was changed and not read in this turn. Read it, then call `complete` again."
    otherwise = "If it cannot be tried, give the verdict `untried` with the reason in `issues`."
    if not tools:
        return f"{UNPROVED}nothing was run in this turn, and you cannot run anything. {otherwise}"
    names = " or ".join(f"`{name}`" for name in tools)
    failed = next((one for one in reversed(turn.ran) if one.is_trial), None)
    if failed is not None:
        return (
            f"{UNPROVED}what you ran ended with exit status {failed.status}. Give the verdict `issues`, or run "
            f"what shows that it works. {otherwise}"
        )
    hidden = " A pipe or `;` after a program hides its exit status." if turn.ran else ""
    return (
        f"{UNPROVED}nothing was run in this turn that uses the work; to read or print is no trial.{hidden} Run it or "
        f"its tests with {names}, then call `complete` again. {otherwise}"
    )
