"""What the calls of a turn show: which programs ran and how they ended, and which changed files were looked at."""

import re
from typing import Final

from tenex.core import records as r
from tenex.core.messages import CallRequest
from tenex.core.values import replace

from .run import Run
from .turn import OrchestratorTurn, ProgramRun

RAN: Final = 20
"""Programs of a turn that are remembered: the newest."""

LINE_CHARACTERS: Final = 300
"""Of a program that was run, as it is remembered and shown."""

DIFF: Final = "git_diff"
"""The tool that shows how files differ."""

_IN_DIFF: Final = re.compile(r"^(?:--- a|\+\+\+ b)/(.+)$", re.MULTILINE)


def line_of(request: CallRequest) -> str:
    """What a call ran, in a line."""
    arguments = request.arguments
    named = next(
        (arguments[name] for name in ("command", "program", "path") if isinstance(arguments.get(name), str)), None
    )
    words = named if named is not None else ", ".join(str(value) for value in arguments.values())
    line = " ".join(f"{'python ' if request.tool == 'check' else ''}{words}".split())
    return line if len(line) <= LINE_CHARACTERS else f"{line[: LINE_CHARACTERS - 1]}…"


def called(turn: OrchestratorTurn, changed: frozenset[str], run: Run, record: r.ToolCallCompleted) -> OrchestratorTurn:
    """The turn with what this call shows; `changed` are the files that the cycle has changed.

    Looked at are those that the tool says it showed, and those in a diff. A call that only names a file, as a search or
    one that was refused, shows nothing of it.
    """
    call = run.find(record.call)
    if call is None:
        return turn
    if record.exit_status is not None:
        program = ProgramRun(agent=run.agent, command=line_of(call.request), status=record.exit_status)
        turn = replace(turn, ran=(*turn.ran, program)[-RAN:])
    in_diff = _IN_DIFF.findall(record.content) if record.tool == DIFF and record.ok else ()
    seen = {*record.read, *in_diff} & changed
    return replace(turn, looked_at=turn.looked_at | seen) if seen - turn.looked_at else turn
