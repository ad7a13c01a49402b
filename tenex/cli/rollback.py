"""`tenex conversations rollback` and `fork`: return to an earlier record, or start a new conversation from it.

A running daemon does it; without one the folder is locked and the files are written here.
"""

import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tenex.core.errors import UsageError
from tenex.core.text.amounts import count

from .shared import output
from .shared.lookup import IdArgument, find_named, on_folder
from .shared.options import Globals
from .shared.times import local_time

if TYPE_CHECKING:
    from tenex.core.ids import ConversationId
    from tenex.core.records import ConversationImported, Record
    from tenex.operations.rollback import RollbackPlan, RollbackService
    from tenex.settings import Settings
    from tenex.store.conversations import Conversations
    from tenex.store.disk import Disk

PATIENCE: Final = 90.0
"""Seconds for the daemon's answer: it waits for running tools, and restores files."""
MOST_TURNS: Final = 12
"""Turns listed one by one."""

ToOption = Annotated[int, typer.Option("--to", metavar="SEQ", help="The last record that stays in effect.")]
CopyToOption = Annotated[int, typer.Option("--to", metavar="SEQ", help="The last record that is copied.")]
FilesOption = Annotated[bool, typer.Option("--files", help="Also put back the files that the work since has changed.")]
AllFilesOption = Annotated[
    bool, typer.Option("--all-files", help="As --files, also those that a command or somebody else changed at a time.")
]
ReasonOption = Annotated[str, typer.Option(metavar="TEXT", help="Why; it is published in the conversation.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


def rollback(
    given: Globals,
    id: IdArgument,  # noqa: A002
    to: ToOption,
    files: FilesOption = False,
    all_files: AllFilesOption = False,
    reason: ReasonOption = "",
    yes: YesOption = False,
) -> None:
    """Undo what came after a record. It stays in the journal, so a rollback can itself be undone.

    Running work is stopped, and a message reports the new state. Costs stay counted. `tenex conversations replay ID
    --each` lists the records.
    """
    from tenex.operations.rollback import plan_of

    settings = given.settings()

    async def make_plan(folder: "Conversations", _: "Disk") -> "RollbackPlan":
        return await plan_of(folder, await find_named(folder, id), to)

    plan = on_folder(given, make_plan)
    files = files or all_files
    if not yes:
        listing = None
        if files:

            async def list_here(service: "RollbackService") -> dict[str, Any]:
                from tenex.app.control import files_json

                return files_json(await service.files_of(plan.id, plan.to, all_files=all_files))

            wanted = {"id": plan.id, "to": plan.to, "all_files": all_files}
            listing = on_folder(
                given, lambda folder, disk: _ask_or_run(folder, disk, settings, "rollback_files", wanted, list_here)
            )
        _confirm(plan, listing, may_ask=not given.as_json and sys.stdin.isatty())

    async def here(service: "RollbackService") -> dict[str, Any]:
        from tenex.app.control import OPERATOR, rollback_json

        done = await service.roll_back(
            plan.id, plan.to, OPERATOR, reason, service.append, files=files, all_files=all_files
        )
        return rollback_json(done)

    request = {"id": plan.id, "to": plan.to, "reason": reason, "files": files, "all_files": all_files}
    done = on_folder(given, lambda folder, disk: _ask_or_run(folder, disk, settings, "rollback", request, here))
    given.show(done, output.sentences(_result_lines(done, wanted=to)))


def fork(given: Globals, id: IdArgument, to: CopyToOption) -> None:  # noqa: A002
    """Start a new conversation from the state after a record. The original does not change."""
    settings = given.settings()

    async def work(folder: "Conversations", disk: "Disk") -> dict[str, Any]:
        name: ConversationId = await find_named(folder, id)

        async def here(service: "RollbackService") -> dict[str, Any]:
            from tenex.app.control import fork_json

            return fork_json(await service.fork(name, to))

        return await _ask_or_run(folder, disk, settings, "fork", {"id": name, "to": to}, here)

    made = on_folder(given, work)
    title = output.one_line(made["title"])
    where = f", in {made['phase']}" if made["phase"] else ""
    given.show(
        made,
        output.sentences(
            (f"{made['id']}: {title}{where}, cycle {made['cycle']}.", *_moved(to, made["forkedFrom"]["seq"]))
        ),
        f"Reply to its first message, or see `tenex conversations show {made['id'][:12]}`. Both share the workspace.",
    )


def _confirm(plan: "RollbackPlan", files: dict[str, Any] | None, *, may_ask: bool) -> None:
    """Ask the user.

    Raises:
        UsageError: they decline, or there is no terminal.
    """
    output.message(f"{output.one_line(plan.title)} ({plan.id[:12]})")
    output.message(f"  back to record {plan.to} of {plan.last}: {plan.then.position}")
    since = local_time(plan.since, seconds=True)
    output.message(f"  undone: {_turns(plan.undone)}, {count(plan.messages, 'message')} of users, all since {since}")
    if files is None:
        output.message("  files are not changed")
    else:
        for line in _file_lines(files, "would be put back"):
            output.message(f"  {line}")
    if not may_ask:
        raise UsageError("Nothing was done. Add `--yes` to do it without a question.")
    try:
        is_wanted = typer.confirm("Go back?", err=True)
    except (typer.Abort, KeyboardInterrupt):
        output.message("\nNothing was done.")
        raise
    if not is_wanted:
        raise UsageError("Nothing was done.")


def _result_lines(done: dict[str, Any], *, wanted: int) -> Iterator[str]:
    where = f" in {done['phase']}" if done["phase"] else ""
    yield f"{done['id']}: back at record {done['to']}, {done['status']}{where}, cycle {done['cycle']}."
    yield from _moved(wanted, done["to"])
    yield f"  undone: {_turns(done['undone'])}"
    files = done["files"]
    if files is not None:
        yield from (f"  {line}" for line in _file_lines(files, "put back"))
        if files["isAsBefore"]:
            yield f"  files are as after record {done['to']}"
    undo = f"conversations rollback {done['id'][:12]} --to {done['undo']}{'' if files is None else ' --files'}"
    yield f"  undo: {output.command(undo)}"


def _file_lines(files: dict[str, Any], word: str) -> Iterator[str]:
    from tenex.core.undo.sentences import reasons

    yield from (f"{word}: {output.one_line(path)}" for path in files["changed"])
    yield from (f"left as they are: {output.one_line(reason)}" for reason in reasons(files["why"]))
    if files["unclear"]:
        yield "`--all-files` also puts back what a command changed, or somebody else at that time"
    if not files["changed"] and not files["left"]:
        yield "no file had changed"


def _moved(wanted: int, used: int) -> Iterator[str]:
    if used != wanted:
        yield f"  record {wanted} is in the middle of a decision, which counts as a whole: {used} is its last record"


def _turns(undone: Any) -> str:
    names = list(undone)
    if len(names) > MOST_TURNS:
        return f"{names[0]} to {names[-1]} ({len(names)} turns)"
    return ", ".join(names) or "no turn"


async def _ask_or_run(
    folder: "Conversations",
    disk: "Disk",
    settings: "Settings",
    word: str,
    request: dict[str, Any],
    here: "Callable[[RollbackService], Awaitable[dict[str, Any]]]",
) -> dict[str, Any]:
    from tenex.configuration.agents import PROJECT, former_keys
    from tenex.configuration.build import project_event_of, shadow_of
    from tenex.core.config import Agent, AgentKind
    from tenex.core.ids import Slug
    from tenex.nostr.compose import NostrSealer
    from tenex.nostr.keys import KeyRing
    from tenex.operations.imports import closing_of
    from tenex.operations.rollback import RollbackService
    from tenex.runtime.clock import SystemClock
    from tenex.settings import check_paths, resolve_paths
    from tenex.telemetry import configure
    from tenex.tools.workspace import Workspace

    from .shared.daemon import ask_or_run

    where = resolve_paths(settings)

    async def run() -> dict[str, Any]:
        check_paths(settings)
        telemetry = configure("error", "auto")
        try:
            ring = KeyRing(*where.key_folders)
            key = ring.read(PROJECT).public
            keys = former_keys(ring, (), ())
            project = Agent(slug=Slug(PROJECT), name=settings.project.name, pubkey=key, kind=AgentKind.ORCHESTRATOR)
            workspace = Workspace(where.workspace)
            sealer = NostrSealer(settings.relays.urls, project=project_event_of(settings), keys=keys)
            shadow = partial(shadow_of, settings, where, workspace)
            agent = Slug(settings.conversations.agent)
            clock = SystemClock()

            def closing(name: "ConversationId", records: "Sequence[Record]") -> "ConversationImported | None":
                return closing_of(name, records, keys, agent, clock.now())

            return await here(RollbackService(folder, disk, clock, sealer, project, workspace, shadow, closing))
        finally:
            telemetry.close()

    # the record of a fork is in the new conversation
    check = "tenex conversations list" if word == "fork" else f"tenex conversations show {request['id'][:12]}"
    done, _ = await ask_or_run(where, word, request, run, patience=PATIENCE, check=check)
    result: dict[str, Any] = done
    return result
