"""`tenex conversations rollback` and `fork`: going back to an earlier record, and branching off there.

A running daemon is asked over its socket; where there is none, the folder is locked and the files are written here.
"""

import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tenex.core.errors import UsageError
from tenex.core.ids import ConversationId, Millis

from . import output
from .options import DataOption, JsonOption, open_settings

if TYPE_CHECKING:
    from tenex.operations.rollback import Plan, RollbackService
    from tenex.settings import Settings
    from tenex.store.repository import ConversationFolder

PATIENCE: Final = 90.0
"""Seconds for the daemon's answer: it waits for a tool at work, and puts files back."""
ANSWERING: Final = 10.0
"""Seconds for a sign of life before it is asked at all: a healthy one needs some ms."""
NAMED: Final = 12

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="The id, or its beginning.", show_default=False)]
ToOption = Annotated[int, typer.Option("--to", metavar="SEQ", help="The last record that still counts.")]
AtOption = Annotated[int, typer.Option("--at", metavar="SEQ", help="The last record the fork knows of.")]
FilesOption = Annotated[
    bool, typer.Option("--files", help="Put the files of the workspace back too, as they were then.")
]
ReasonOption = Annotated[str, typer.Option(metavar="TEXT", help="Why: it is told in the conversation.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def rollback(
    ctx: typer.Context,
    id: IdArgument,  # noqa: A002
    to: ToOption,
    files: FilesOption = False,
    reason: ReasonOption = "",
    yes: YesOption = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Go back: what came after a record counts no more. It stays in the journal, and can be gone back to.

    What runs is stopped, and a message says where the conversation stands now. Money stays spent. `replay ID --each`
    lists the records.
    """
    from .conversations import _run

    settings = open_settings(ctx, data)
    plan: Plan = _run(ctx, data, lambda folder: _plan(folder, id, to))
    if not yes:
        _ask(plan, files=files, as_json=as_json)
    order = {"id": plan.id, "to": plan.to, "reason": reason, "files": files}

    async def here(travelling: "RollbackService") -> dict[str, Any]:
        from tenex.app.control import OPERATOR, told_back

        done = await travelling.roll_back(plan.id, plan.to, OPERATOR, reason, travelling.append, files=files)
        return told_back(done)

    done = _run(ctx, data, lambda folder: _do(folder, settings, "rollback", order, here))
    if as_json:
        output.result_json(done)
    else:
        output.result("\n".join(_back_as_text(done, wanted=to)))


def fork(
    ctx: typer.Context,
    id: IdArgument,  # noqa: A002
    at: AtOption,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Branch off: begin another conversation as this one stood after a record. This one stays as it is."""
    from .conversations import _named, _run

    settings = open_settings(ctx, data)
    name = ConversationId(_run(ctx, data, lambda folder: _named(folder, id)))

    async def here(travelling: "RollbackService") -> dict[str, Any]:
        from tenex.app.control import told_branch

        return told_branch(await travelling.fork(name, at))

    made = _run(ctx, data, lambda folder: _do(folder, settings, "fork", {"id": name, "at": at}, here))
    if as_json:
        output.result_json(made)
        return
    output.result(f"{made['id']}: {output.one_line(made['title'])}, in {made['phase']}, cycle {made['cycle']}.")
    output.say("Reply to its first message, or `tenex conversations show` it. The files of the workspace are shared.")


async def _plan(folder: "ConversationFolder", start: str, to: int) -> "Plan":
    from tenex.operations.rollback import plan_of

    from .conversations import _named

    return await plan_of(folder, ConversationId(await _named(folder, start)), to)


def _ask(plan: "Plan", *, files: bool, as_json: bool) -> None:
    """Have the person agree.

    Raises:
        UsageError: they do not, or nobody can be asked.
    """
    for line in _plan_as_text(plan, files=files):
        output.say(line)
    if as_json or not sys.stdin.isatty():
        raise UsageError("Nothing was done. `--yes` does it without asking.")
    try:
        is_wanted = typer.confirm("Go back?", err=True)
    except (typer.Abort, KeyboardInterrupt):  # Ctrl-C, also before it is read, or the end of what is typed
        output.say("\nNothing was done.")
        raise
    if not is_wanted:
        raise UsageError("Nothing was done.")


def _plan_as_text(plan: "Plan", *, files: bool) -> Iterator[str]:
    yield f"{output.one_line(plan.title)} ({plan.id[:12]})"
    then = plan.then
    yield f"  back to record {plan.to} of {plan.last}: in {then.phase}, cycle {then.cycle}"
    yield f"  undone: {_turns(plan.undone)}, {plan.messages} messages of people, all since {_time(plan.since)}"
    yield "  the files are put back, of every conversation in this workspace" if files else "  the files stay"


def _back_as_text(done: dict[str, Any], *, wanted: int) -> Iterator[str]:
    yield f"{done['id']}: back at record {done['to']}, {done['status']} in {done['phase']}, cycle {done['cycle']}."
    if done["to"] != wanted:
        yield f"  record {wanted} stands in the middle of a decision, which counts as a whole"
    yield f"  undone: {_turns(done['undone'])}"
    files = done["files"]
    if files is not None:
        for path in files["changed"]:
            yield f"  put back: {output.one_line(path)}"
        for path in files["left"]:
            yield f"  left as it is, because there is no copy of it: {output.one_line(path)}"
        if not files["changed"] and not files["left"]:
            yield "  the files were as they are"
    with_files = " --files" if files is not None else ""
    yield f"  undo: tenex conversations rollback {done['id'][:12]} --to {done['undo']}{with_files}"


def _turns(undone: Any) -> str:
    names = list(undone)
    if not names:
        return "no turn"
    return ", ".join(names) if len(names) <= NAMED else f"{names[0]} to {names[-1]} ({len(names)} turns)"


def _time(at: Millis) -> str:
    from .verify import _time as told

    return told(at)


async def _do(
    folder: "ConversationFolder",
    settings: "Settings",
    word: str,
    order: dict[str, Any],
    here: Callable[["RollbackService"], Awaitable[dict[str, Any]]],
) -> dict[str, Any]:
    """Ask the daemon, or do it here where there is none.

    Raises:
        StoreLocked: there is one, and it does not listen.
        TenexError: it was refused, with its sentence; or the daemon does not answer.
    """
    from tenex.core.errors import TenexError
    from tenex.service.client import ask
    from tenex.settings import resolve_paths
    from tenex.store.lock import FolderLock

    where = resolve_paths(settings)
    try:
        # one that is stopped would do an order it was sent whenever it goes on
        await ask(where.socket, "status", patience=ANSWERING)
    except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
        with FolderLock(where.conversations):
            return await _here(folder, settings, here)
    except OSError as fault:
        why = str(fault) or f"no answer within {ANSWERING:g} s"
        raise TenexError(
            f"The daemon at {where.socket} could not be asked: {why}. Nothing was done. `tenex status` says more."
        ) from fault
    try:
        answer: dict[str, Any] = await ask(where.socket, word, patience=PATIENCE, **order)
    except OSError as fault:
        why = str(fault) or f"no answer within {PATIENCE:g} s"
        raise TenexError(
            f"The daemon at {where.socket} was asked, and whether it does it is not known: {why}. Look with "
            f"`tenex conversations show {order['id'][:12]}` and `list` before you ask again."
        ) from fault
    return answer


async def _here(
    folder: "ConversationFolder", settings: "Settings", work: Callable[["RollbackService"], Awaitable[dict[str, Any]]]
) -> dict[str, Any]:
    from tenex.configuration.agents import PROJECT
    from tenex.configuration.build import shadow_of
    from tenex.core.config import Agent, Kind
    from tenex.core.ids import Slug
    from tenex.nostr.compose import NostrSealer
    from tenex.nostr.keys import KeyRing
    from tenex.operations.rollback import RollbackService
    from tenex.runtime.clock import SystemClock
    from tenex.settings import check_paths, resolve_paths
    from tenex.store.disk import Disk
    from tenex.telemetry import configure
    from tenex.tools.workspace import Workspace

    check_paths(settings)
    where, telemetry, disk = resolve_paths(settings), configure("error", "auto"), Disk()
    try:
        key = KeyRing(where.keys).get(PROJECT).public
        project = Agent(slug=Slug(PROJECT), name=settings.project.name, pubkey=key, kind=Kind.ORCHESTRATOR)
        workspace = Workspace(where.workspace)
        travelling = RollbackService(
            folder,
            disk,
            SystemClock(),
            NostrSealer(settings.relays.urls),
            project,
            workspace,
            lambda: shadow_of(settings, where, workspace),
        )
        return await work(travelling)
    finally:
        disk.close()
        telemetry.close()
