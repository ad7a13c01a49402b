"""Detects agents that repeat themselves: the same call with the same result, or the same failure turn after turn.

Both follow from the records alone, so a replay finds the same loops.
"""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

from tenex.core.messages import CallRequest, CallResult, ModelStep
from tenex.core.phases import PHASES
from tenex.core.state import State

from .run import Run
from .turn import Completion

SAME_CALLS: Final = 3
"""Model steps with the same call and the same result: the third could not learn what the first two had not."""
SAME_FAILURES: Final = 2
"""Failures of an agent for the same reason since a user last spoke: one more try is fair, a third is not."""

_WORD: Final = re.compile(r"\S+")
_DIGIT: Final = re.compile(r"\d")


class CallWithResult(NamedTuple):
    """A call that a model step made, and what it gave back."""

    step: int
    request: CallRequest
    result: CallResult

    def is_same(self, other: "CallWithResult") -> bool:
        """Whether both asked for the same and were given the same."""
        return self._compared() == other._compared()

    def _compared(self) -> tuple[object, ...]:
        return self.request.tool, self.result.ok, self.result.content, self.request.arguments


def repeated_call(run: Run) -> CallWithResult | None:
    """A call of the run's last step that `SAME_CALLS` of its steps have made with the same result.

    Steps before the newest change (`Run.changed`) do not count: a test that still fails after an edit is no loop. Nor
    does a question that a user answered.
    """
    if run.steps < SAME_CALLS:
        return None
    made = list(_made(run, run.changed))
    for last in made:
        is_asked = last.request.tool == "ask" and last.result.ok
        if last.step == made[-1].step and not is_asked:
            steps = {other.step for other in made if other.is_same(last)}
            if len(steps) >= SAME_CALLS:
                return last
    return None


def is_new(run: Run, result: CallResult) -> bool:
    """Whether no earlier call of the run was the same and gave this."""
    call = run.find(result.id)
    return call is not None and not any(CallWithResult(0, call.request, result).is_same(made) for made in _made(run, 0))


def _made(run: Run, since: int) -> Iterator[CallWithResult]:
    step = 0
    requests = dict[str, CallRequest]()
    for entry in run.entries[since:]:
        if isinstance(entry, ModelStep):
            step = step + 1
            requests = {call.id: call for call in entry.calls}
        elif isinstance(entry, CallResult) and entry.id in requests:
            yield CallWithResult(step, requests[entry.id], entry)


def repeated_failure(state: State) -> Completion | None:
    """The newest failure whose agent failed for that reason `SAME_FAILURES` times since a user last spoke."""
    turns = state.cycle.turns[-state.cycle.turns_since_user :] if state.cycle.turns_since_user else ()
    counted = [turn for turn in turns if not PHASES[turn.phase].may_fail]
    failed = [done for turn in counted for done in turn.completions if done.outcome in ("failed", "timed_out")]
    times = Counter(map(_reason, failed))
    return next((done for done in reversed(failed) if times[_reason(done)] >= SAME_FAILURES), None)


def _reason(done: Completion) -> tuple[str, str, str]:
    """Who failed and why, without what differs from time to time: counts, times and ids of requests."""
    return done.agent, done.outcome, _WORD.sub(_without_number, done.error)


def _without_number(word: re.Match[str]) -> str:
    return "#" if _DIGIT.search(word[0]) else word[0]
