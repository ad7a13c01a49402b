"""What has to be on record before a verdict `verified` counts: something was run, or what cannot be run was read.

By the calls of this turn alone: a program of the work ended with exit status 0 (`core/programs.py` says what is more
than reading or printing), or all files that the cycle has changed are text, and each was read. Whatever else was tried
has to have succeeded in its newest run, or in a wider one (`core/trials.py`). (ADR 55.)
"""

from collections.abc import Sequence
from typing import Final

from tenex.core.config import Agent, Policy
from tenex.core.kind import Unproved
from tenex.core.memory.window import in_a_line
from tenex.core.permissions import may_use
from tenex.core.phases import Access, Phase
from tenex.core.programs import is_text
from tenex.core.state import State
from tenex.core.transaction import Transaction
from tenex.core.trials import shown_by
from tenex.core.work.runs import UNPROVED
from tenex.core.work.turn import OrchestratorTurn, ProgramRun
from tenex.workflows.phases.state import phases_of

NAMED: Final = 5
"""Files that a refusal names, and commands."""
COMMAND: Final = 160
"""Characters of such a command."""


def unread(state: State, turn: OrchestratorTurn) -> tuple[str, ...] | None:
    """The changed files that were not read in a turn; None where reading proves nothing."""
    if not state.cycle.touched or not all(map(is_text, state.cycle.touched)):
        return None
    return tuple(sorted(state.cycle.touched - turn.looked_at))


def failed_trials(turn: OrchestratorTurn) -> tuple[ProgramRun, ...]:
    """The trials of a turn that failed, and that no later run shows to succeed: the newest of each command."""
    failed: dict[object, ProgramRun] = {}
    for place, program in enumerate(turn.ran):
        if not program.is_trial or not program.status:
            continue
        later = [other.tried for other in turn.ran[place + 1 :] if other.is_trial and other.status == 0]
        if not (later and shown_by(program.tried, later)):
            failed.pop(program.tried, None)  # to the end, as the newest
            failed[program.tried] = program
    return tuple(failed.values())


def hidden_trials(turn: OrchestratorTurn) -> tuple[ProgramRun, ...]:
    """The trials of a turn whose exit status is not known, of what was not tried in another way too."""
    shown = [program.tried for program in turn.ran if program.is_trial and program.status is not None]
    hidden = {program.tried: program for program in turn.ran if program.is_trial and program.status is None}
    return tuple(program for program in hidden.values() if not (shown and shown_by(program.tried, shown)))


def has_tried(turn: OrchestratorTurn) -> bool:
    """Whether something was tried in a turn, and nothing of it failed in the end."""
    return turn.has_tried and not failed_trials(turn)


def is_proved(state: State, turn: OrchestratorTurn) -> bool:
    """Whether the calls of a turn show that what was changed has been tried."""
    if not phases_of(state).executed:
        return True
    return not failed_trials(turn) and (turn.has_tried or unread(state, turn) == ())


def programs_of(agent: Agent, policy: Policy) -> frozenset[str]:
    """The tools by which an agent can run something in verification."""
    known = policy.tools_of(agent).values()
    return frozenset(
        rule.name for rule in known if rule.access is Access.RUN and may_use(rule, Phase.VERIFICATION, agent)
    )


def why_unproved(transaction: Transaction, agent: Agent) -> Unproved | None:
    """Why a verdict `verified` does not count yet, and what to do; None where it counts.

    Who can run nothing and works beside others only judges: whether something was run is looked at when all are done.
    """
    state = transaction.state
    turn = transaction.state.work.turn
    if turn is None or is_proved(state, turn):
        return None
    tools = sorted(programs_of(agent, transaction.policy))
    if not tools and len(turn.agents) > 1:
        return None
    otherwise = "If it cannot be tried, give the verdict `untried` with the reason in `issues`."
    failed = failed_trials(turn)
    hidden = hidden_trials(turn)
    if failed:
        ended = _ended(failed)
        again = "run it again with success" if len(failed) == 1 else "run each again with success"
        return Unproved(
            f"{UNPROVED}{ended}. Give the verdict `issues`, or {again}; put `!` before a program that has to fail. "
            "If the failure says nothing about this work, give the verdict `untried` with the reason in `issues`.",
            ended,
        )
    left = unread(state, turn)
    if left is not None:
        names = ", ".join(left[:NAMED]) + (" and others" if len(left) > NAMED else "")
        return Unproved(
            f"{UNPROVED}{names} was changed and not read in this turn. Read it, then call `complete` again."
        )
    if not tools:
        return Unproved(f"{UNPROVED}nothing was run in this turn, and you cannot run anything. {otherwise}")
    names = " or ".join(f"`{name}`" for name in tools)
    if hidden:
        command = f"`{in_a_line(hidden[-1].command, COMMAND)}`"
        return Unproved(
            f"{UNPROVED}how {command} ended is not known: a command line ends as its last program does. "
            f"Run it alone, or after `set -o pipefail;`, with {names}, then call `complete` again. {otherwise}",
            f"the exit status of {command} is that of another program",
        )
    return Unproved(
        f"{UNPROVED}nothing was run in this turn that uses the work; to read or print is no trial. Run it or "
        f"its tests with {names}, then call `complete` again. {otherwise}"
    )


def _ended(failed: Sequence[ProgramRun]) -> str:
    named = [f"`{in_a_line(program.command, COMMAND)}` {_how(program.status or 0)}" for program in failed]
    more = [f"{len(named) - NAMED} more failed"] if len(named) > NAMED else []
    return "; ".join([*named[-NAMED:], *more])


def _how(status: int) -> str:
    return f"ended with exit status {status}" if status > 0 else f"was ended by signal {-status}"
