"""What the calls of a turn show: which programs ran and how they ended, and which changed files were looked at."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from tenex.core import records as r
from tenex.core.trials import program_run
from tenex.core.values import replace

from .run import Call, Run
from .turn import OrchestratorTurn, ProgramRun

RAN: Final = 20
"""Programs of a turn that are remembered: the newest, trials before others."""

_IN_DIFF: Final = re.compile(r"^(?:--- a|\+\+\+ b)/(.+)$", re.MULTILINE)


def called(turn: OrchestratorTurn, changed: frozenset[str], run: Run, record: r.ToolCallCompleted) -> OrchestratorTurn:
    """The turn with what this call shows; `changed` are the files that the cycle has changed.

    Looked at are those that the tool says it showed, those in a diff, and those that a program was run with. A call
    that only names a file, as a search or one that was refused, shows nothing of it.
    """
    call = run.find(record.call)
    if call is None:
        return turn
    if record.exit_status is not None:
        turn = replace(turn, ran=_newest((*turn.ran, program_run(run.agent, call.request, record))))
    seen = {*record.read, *_IN_DIFF.findall(record.content), *_run_with(changed, call, record)} & changed
    return replace(turn, looked_at=turn.looked_at | seen) if seen - turn.looked_at else turn


def _newest(ran: tuple[ProgramRun, ...]) -> tuple[ProgramRun, ...]:
    """The newest ones: what is no trial goes first, then successful trials but for the last, then the oldest."""
    if len(ran) <= RAN:
        return ran
    successes = [place for place, program in enumerate(ran) if program.is_trial and program.status == 0]
    others = (place for place, program in enumerate(ran) if not program.is_trial)
    gone = next(others, next(iter(successes[:-1]), 0))
    return (*ran[:gone], *ran[gone + 1 :])


def _run_with(changed: Iterable[str], call: Call, record: r.ToolCallCompleted) -> Iterator[str]:
    """The changed files that the arguments of a program name."""
    if record.exit_status is None:
        return iter(())
    arguments = "\n".join(value for value in call.request.arguments.values() if isinstance(value, str))
    return _named(changed, arguments)


def _named(paths: Iterable[str], text: str) -> Iterator[str]:
    """Those of the paths that a text has as words of its own."""
    return (path for path in paths if path in text and re.search(rf"(?<![\w/.-]){re.escape(path)}(?![\w/-])", text))
