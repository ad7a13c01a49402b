"""What the calls of a turn show: which programs ran and how they ended, and which changed files were looked at."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from tenex.core import records as r
from tenex.core.programs import line_of
from tenex.core.state.run import OrchestratorTurn, ProgramRun, Run

RAN: Final = 20
"""Programs of a turn that are remembered, the newest, and the newest successful trial among them."""

_IN_DIFF: Final = re.compile(r"^(?:--- a|\+\+\+ b)/(.+)$", re.MULTILINE)


def called(turn: OrchestratorTurn, changed: frozenset[str], run: Run, record: r.ToolCallCompleted) -> OrchestratorTurn:
    """The turn with what this call shows; `changed` are the files that the cycle has changed."""
    call = run.find(record.call)
    if call is None:
        return turn
    if record.exit_status is not None:
        line = line_of(call.request)
        ran = ProgramRun(agent=run.agent, command=line, status=record.exit_status, is_trial=record.is_trial)
        turn = replace(turn, ran=_newest((*turn.ran, ran)))
    given = "\n".join(value for value in call.request.arguments.values() if isinstance(value, str))
    seen = {*record.read, *_IN_DIFF.findall(record.content), *_named(changed, given)} & changed
    return replace(turn, looked_at=turn.looked_at | seen) if seen - turn.looked_at else turn


def _newest(ran: tuple[ProgramRun, ...]) -> tuple[ProgramRun, ...]:
    if len(ran) <= RAN:
        return ran
    gone, kept = ran[0], ran[1:]
    is_last_success = gone.is_trial and gone.status == 0 and not any(one.is_trial and one.status == 0 for one in kept)
    return (gone, *kept[1:]) if is_last_success else kept


def _named(paths: Iterable[str], text: str) -> Iterator[str]:
    """Those of the paths that a text has as words of its own."""
    return (path for path in paths if path in text and re.search(rf"(?<![\w/.-]){re.escape(path)}(?![\w/-])", text))
