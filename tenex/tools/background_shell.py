"""`shell_start`, `shell_read` and `shell_stop`: a command line that goes on in the background, as `shell` runs one.

In execute a program writes to the workspace between calls; what it has changed is noted at its end, and its start
counts as an effect, which opens the gates. In verification it runs in the view of its turn.
What it prints is no evidence: a verdict needs a call that has ended (ADR 62). Later commands of its turn reach its
ports (ADR 95).
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from tenex.core.config import Replay, Role
from tenex.core.phases import PHASES, Access
from tenex.core.ports import ExecutionContext, ToolResult
from tenex.log import get_logger

from .background import BackgroundCommand, BackgroundCommands
from .checkpoints import Checkpoints, call_lines
from .dependencies import ToolDependencies, ToolTable
from .displaced import displaced_by
from .process import decoded, named, plain_text
from .serialized_calls import MOST_TOUCHED, call_message
from .shadow_git import CheckpointFailed
from .shell import checked, need_parameters, needed, shell_line
from .shell_runner import MOST_OUTPUT, NETWORK, Programs
from .snapshots import Snapshot
from .tool import Refusal, Tool, log_fields, object_schema, run_uncancellable, string
from .witness import Witness, with_witness, written_of
from .write_policy import is_confined

PHASES_WITH_THEM: Final = frozenset(
    phase for phase, facts in PHASES.items() if Access.RUN in facts.access and not facts.changes_only_own
)
"""In chores the daemon takes files out of the view after each call, in which no program may run then."""

LONGEST: Final = 3_600.0
"""Seconds: what still runs then was forgotten."""

FIRST_LOOK: Final = 1.0
"""Seconds in which a program that cannot start has ended: a server whose port is taken needs half of them."""

STARTS_WITHIN: Final = 75.0
"""Seconds: where there is no overlay, the workspace is copied first (`workspace_view.COPY_DEADLINE`)."""

LONGEST_WAIT: Final = 30
"""Seconds that `shell_read` waits for news."""

ENDS_WITHIN: Final = 10.0
"""Seconds: the supervisor has three, and a look at a large workspace takes some."""

NEWEST: Final = 8 * 1024
"""Bytes that are shown where no place is asked for."""

_log = get_logger(__name__)


def shell_start_tool(programs: Programs, commands: BackgroundCommands, checkpoints: Checkpoints | None) -> Tool:
    """The tool `shell_start`."""
    # a repository that is written to for an hour is in the way of the person
    needs = tuple(need for need in programs.needs if need.name == NETWORK.name)

    async def body(arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        line = checked(arguments["command"], "command")
        if context.role is Role.GUEST:
            raise Refusal("Nothing was started: background commands are for owners and members. Use `shell`.")
        folder = await asyncio.to_thread(programs.folder, arguments.get("cwd"))
        wanted = needed(needs, arguments)
        is_contained = is_confined(context.phase)
        commands.refuse_if_too_many(context)
        unreachable = await programs.share(context, network=NETWORK.name in wanted)
        before = None if is_contained else await run_uncancellable(lambda: _snapshot(checkpoints, context))
        witness = None if is_contained else Witness(programs.workspace.root)

        async def work(on_output: Callable[[bytes], None]) -> str:
            return await programs.run_on(shell_line(line), context, folder, LONGEST, on_output, witness, wanted)

        async def changes() -> tuple[str, ...]:
            if witness is None:
                return ()
            return await run_uncancellable(lambda: _changes(checkpoints, before, context, witness))

        try:
            command = commands.start(context, line, work, changes)
        except Refusal:
            if witness is not None:
                witness.close()
            raise
        has_effect = not is_contained or programs.reaches_out or bool(wanted)
        await command.wait_for_end(FIRST_LOOK)
        if command.refusal:
            raise Refusal(command.refusal)
        if not command.is_running:
            await command.wait_for_end(ENDS_WITHIN)
            done = replace(_result(commands, command, context, 0), has_outside_effect=has_effect)
            return with_witness(done, witness)
        content = f"{_situation(command)}{unreachable}\n{_output(command, 0)}"
        begun = ToolResult(ok=True, content=content, has_outside_effect=has_effect, background=commands.of_run(context))
        return with_witness(begun, await asyncio.to_thread(witness.until_now) if witness is not None else None)

    return Tool(
        name="shell_start",
        description=(
            "As `shell`, in the background until your part of the turn ends; later calls of `shell` reach its ports."
        ),
        parameters=object_schema(
            {"command": string(min_length=1)},
            {"cwd": string(), **need_parameters(needs)},
        ),
        access=Access.RUN,
        replay=Replay.ONCE,
        body=body,
        time_cap=STARTS_WITHIN,
        is_contained=True,
        phases=PHASES_WITH_THEM,
        asks=programs.reaches_out,
        why=programs.why,
        needs=needs,
    )


def shell_read_tool(commands: BackgroundCommands) -> Tool:
    """The tool `shell_read`."""

    async def body(arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        command = commands.find(context, arguments["id"])
        offset = arguments.get("offset")
        wait = int(arguments.get("wait", 0))
        if wait > 0:
            await command.wait_for_news(command.output.end if offset is None else offset, wait)
        if not command.is_running:
            await command.wait_for_end(ENDS_WITHIN)
        return _result(commands, command, context, offset)

    return Tool(
        name="shell_read",
        description="The output of a background command, from a byte on or the newest, waiting seconds for more.",
        parameters=object_schema(
            {"id": string()},
            {"offset": {"type": "integer"}, "wait": {"type": "integer", "maximum": LONGEST_WAIT}},
        ),
        access=Access.READ,
        replay=Replay.READ,
        body=body,
        phases=PHASES_WITH_THEM,
        time_cap=LONGEST_WAIT + ENDS_WITHIN + 5,
    )


def shell_stop_tool(commands: BackgroundCommands) -> Tool:
    """The tool `shell_stop`."""

    async def body(arguments: Mapping[str, Any], context: ExecutionContext) -> ToolResult:
        command = commands.find(context, arguments["id"])
        await commands.stop(command)
        return _result(commands, command, context, None)

    return Tool(
        name="shell_stop",
        description="Ends a background command.",
        parameters=object_schema({"id": string()}),
        access=Access.RUN,
        replay=Replay.ONCE,
        body=body,
        is_contained=True,
        phases=PHASES_WITH_THEM,
    )


def _snapshot(checkpoints: Checkpoints | None, context: ExecutionContext) -> Snapshot | None:
    try:
        return checkpoints.take() if checkpoints is not None else None
    except (CheckpointFailed, OSError) as error:
        _log.error("checkpoint.failed", moment="before", error=str(error), **log_fields(context))
        return None


def _changes(
    checkpoints: Checkpoints | None, before: Snapshot | None, context: ExecutionContext, witness: Witness
) -> tuple[str, ...]:
    """What a program has changed since a snapshot; nothing where that is not known.

    What it took away that no checkpoint has is kept with the checkpoints.
    """
    witness.look()
    witness.close()
    if checkpoints is None or before is None:
        return ()
    try:
        changes = checkpoints.changes(before, checkpoints.take())
        own = [change.path for change in changes]
        if not witness.fault:
            seen = written_of(witness, checkpoints.root, own)
            own = [path for path in own if path in seen]
            displaced = displaced_by(witness, checkpoints.root, before.ignored, own)
            if not displaced.is_nothing:
                lines = call_lines(Access.RUN, witnessed=True, others=(), displaced=displaced)
                checkpoints.note(context.conversation_id, call_message("ended", "shell_start", context) + lines)
    except (CheckpointFailed, OSError) as error:
        _log.error("checkpoint.failed", moment="after", error=str(error), **log_fields(context))
        return ()
    return tuple(decoded(own))[:MOST_TOUCHED]


def _result(
    commands: BackgroundCommands, command: BackgroundCommand, context: ExecutionContext, offset: int | None
) -> ToolResult:
    if offset is None:
        offset = max(command.output.begin, command.output.end - NEWEST)
    return ToolResult(
        ok=True,
        content=f"{_situation(command)}\n{_output(command, offset)}",
        touched=command.touched,
        background=commands.of_run(context),
    )


def _situation(command: BackgroundCommand) -> str:
    name = f"{command.id} (`{_one_line(command.line)}`)"
    if command.is_running:
        return f"{name} is running, for {command.seconds} s."  # equal results in turn would look like a loop
    changed = f" Changed since its start: {named(command.touched)}." if command.touched else ""
    return f"{name} {command.ended}{changed}"


def _output(command: BackgroundCommand, offset: int) -> str:
    """What it printed from a place on, with where to read on."""
    begin, shown = command.output.read(offset, MOST_OUTPUT)
    end = begin + len(shown)
    left = f" {begin - offset} bytes before that are not kept." if begin > offset else ""
    place = f"Bytes {begin} to {end} of {command.output.end}; next: {end}.{left}"
    text = plain_text(shown.decode("utf-8", "replace"))
    return f"{place} Output:\n{text}" if text.strip() else f"{place} No output."


def _one_line(text: str, most: int = 80) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _start(parts: ToolDependencies) -> Tool | None:
    programs = parts.programs
    return shell_start_tool(programs, parts.background, parts.checkpoints) if programs is not None else None


TOOLS: Final[ToolTable] = {
    "shell_start": _start,
    "shell_read": lambda parts: shell_read_tool(parts.background) if parts.programs is not None else None,
    "shell_stop": lambda parts: shell_stop_tool(parts.background) if parts.programs is not None else None,
}
