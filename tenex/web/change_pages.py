"""The page of what a cycle has changed in the workspace, and the way to undo it."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from tenex.core.conversation import Conversation
from tenex.core.history.state import History
from tenex.core.ids import ConversationId
from tenex.core.port_values import UndoOutcome
from tenex.core.records import FilesUndone
from tenex.core.undo import sentences
from tenex.tools.line_origins import PathChange
from tenex.tools.shadow_git import CheckpointFailed

from .changes import FileChange, files_of
from .site import Page, Site, id_of, number_of
from .story import Entry
from .talk import checks_of

PATIENCE: Final = 10.0
"""Seconds for each step of git."""


@dataclass(frozen=True)
class ChangePages:
    """The page, with what it shares."""

    site: Site

    def routes(self) -> list[BaseRoute]:
        """The address below that of the site."""
        return [
            Page(
                "/c/{id}/changes",
                self.changes,
                title="its changes",
                shows="how the files differ since a cycle began, with the calls that made each piece; `/undo`",
                commands=["conversations show"],
            )
        ]

    async def changes(self, request: Request) -> Response:
        """How files differ since the beginning of a cycle, and by which calls."""
        name = id_of(request)
        newest = await self.site.source.story(name)
        state = newest.state
        cycles = _cycles(state)
        cycle = number_of(request, "cycle") or next(reversed(cycles), state.cycle.number)
        paths = cycles.get(cycle, ())
        files, fault = await self._files(name, cycle, paths)
        seqs = {call for file in files for hunk in file.hunks for call in hunk.calls if call}
        waits = await self.site.source.asks(name)
        values: dict[str, Any] = {
            "here": "conversations",
            "tab": "Changes",
            "id": name,
            "shown": newest.projection,
            "checks": checks_of(state),
            "cycle": cycle,
            "cycles": [number for number in cycles if number != cycle],
            "files": files,
            "unchanged": sorted(set(paths) - {file.path for file in files}) if not fault else [],
            "fault": fault,
            "calls": await self._calls(name, seqs),
            "can_undo": waits.replied is not None and state.work.turn is None and cycle == next(reversed(cycles), 0),
            "listed": await self._listed(name, state),
            **self.site.answering(request),
        }
        return await self.site.show(request, "changes.html", values)

    async def _files(self, name: ConversationId, cycle: int, paths: Sequence[str]) -> tuple[list[FileChange], str]:
        """The files that differ, or why that is not known."""
        checkpoints = self.site.checkpoints()
        if checkpoints is None:
            return (
                [],
                "No checkpoint is kept: no call changed a file yet, or checkpoints are off, or git is missing.",
            )

        def read() -> list[FileChange]:
            changes: list[PathChange] = checkpoints.origins(name, cycle, paths, patience=PATIENCE)
            return files_of(changes)

        try:
            return await asyncio.to_thread(read), ""
        except CheckpointFailed as error:
            return [], f"It is not known how files differ: {error}"

    async def _listed(self, name: ConversationId, state: Conversation) -> str:
        """What the `/undo` does that waits for a yes, as its message in the conversation says; "" where none waits."""
        asked = state.work.undo
        if asked is None or asked.is_open:
            return ""
        records = await self.site.source.records(name, state.next_seq - 1)
        answers = (record for record in reversed(records) if isinstance(record, FilesUndone))
        answer = next((record for record in answers if record.request == asked.seq), None)
        if answer is None:
            return ""
        outcome = UndoOutcome(**{spec.name: getattr(answer, spec.name) for spec in fields(UndoOutcome)})
        return sentences.listed(outcome, f"before {outcome.since}")

    async def _calls(self, name: ConversationId, seqs: set[int]) -> Mapping[int, Entry]:
        """The entries of calls that changed files, by the record that permitted each."""
        if not seqs:
            return {}
        part = await self.site.source.story(name, show="files")
        return {entry.change: entry for entry in part.entries if entry.change in seqs}


def _cycles(state: Conversation) -> dict[int, Sequence[str]]:
    """The cycles in which calls changed files, the oldest first, with these files."""
    history = state.history or History()
    cycles: dict[int, Sequence[str]] = {cycle.cycle: cycle.changed for cycle in history.cycles if cycle.changed}
    if state.cycle.touched:
        cycles[state.cycle.number] = sorted(state.cycle.touched)
    return dict(sorted(cycles.items()))
