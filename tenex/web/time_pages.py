"""The pages of a conversation's past: the state after any record, what changed between two, and going back to one."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from tenex.core.conversation import Conversation
from tenex.core.errors import TenexError, UsageError
from tenex.core.ids import ConversationId
from tenex.core.projection import project
from tenex.core.records import Record
from tenex.operations.rollback import plan_of
from tenex.service.client import ask, unanswered
from tenex.store.view_json import render

from .site import Page, Site, id_of, number_of
from .source import folded
from .talk import checks_of

PATIENCE: Final = 90.0
"""Seconds for a rollback: it waits for running tools, and restores files."""
LIST_PATIENCE: Final = 15.0
"""Seconds for the list of files: it waits a little for running tools, and compares checkpoints."""
LINES: Final = 2_000
"""Of what changed between two states that are shown."""
REASON_CHARACTERS: Final = 500


@dataclass(frozen=True)
class TimePages:
    """The pages, with what they share."""

    site: Site

    def routes(self) -> list[BaseRoute]:
        """The addresses below that of the site."""
        return [
            Page(
                "/c/{id}/at",
                self.at,
                title="its past",
                shows="the state after any record, and what is different from another; going back and forking, with "
                "what it will do, while a daemon runs",
                commands=["conversations replay", "conversations rollback", "conversations fork"],
            ),
            Route("/c/{id}/back/{seq:int}", self.plan),
            Route("/c/{id}/back/{seq:int}/rollback", self.roll_back, methods=["POST"]),
            Route("/c/{id}/back/{seq:int}/fork", self.fork, methods=["POST"]),
        ]

    async def at(self, request: Request) -> Response:
        """The state after a record, and how it differs from that after another."""
        name = id_of(request)
        newest = await self.site.source.state(name)
        last = newest.next_seq - 1
        seq = min(last, number_of(request, "seq") or last)
        other = min(last, number_of(request, "than") or max(1, seq - 1))
        records, state = await self._state(name, seq)
        _, before = await self._state(name, other)
        record = next(record for record in records if record.seq == seq)
        values = {
            "here": "conversations",
            "id": name,
            "title": newest.identity.title,
            "seq": seq,
            "than": other,
            "last": last,
            "record": type(record).__name__,
            "time": record.at,
            "shown": project(state),
            "checks": checks_of(state),
            "tab": "Past",
            "lines": await asyncio.to_thread(_difference, before, state),
        }
        return await self.site.show(request, "at.html", values)

    async def _state(self, name: ConversationId, seq: int) -> tuple[Sequence[Record], Conversation]:
        records = [record for record in await self.site.source.records(name, seq) if record.seq <= seq]
        if not records or records[-1].seq != seq:
            raise UsageError(f"There is no record {seq} in conversation {name[:12]}.")
        return records, await asyncio.to_thread(folded, name, records)

    async def plan(self, request: Request) -> Response:
        """What going back to a record would undo; nothing is done."""
        name, seq = id_of(request), int(request.path_params["seq"])
        plan = await plan_of(self.site.source.folder, name, seq)
        try:
            files = (await self._ask("rollback_files", LIST_PATIENCE, id=name, to=seq))["text"]
        except TenexError as fault:
            files = str(fault)
        values = {
            "here": "conversations",
            "id": name,
            "seq": seq,
            "plan": plan,
            "files": files,
            "shown": project(plan.then),
        }
        return await self.site.show(request, "back.html", values)

    async def roll_back(self, request: Request) -> Response:
        """Have the daemon undo what came after a record."""
        name, seq = id_of(request), int(request.path_params["seq"])
        fields = await self.site.posted(request, f"rollback {name} {seq}")
        all_files = fields.get("all_files") == "yes"
        files = all_files or fields.get("files") == "yes"
        reason = fields.get("reason", "")[:REASON_CHARACTERS]
        await self._ask("rollback", id=name, to=seq, reason=reason, files=files, all_files=all_files)
        return self.site.to(f"/c/{name}#newest")

    async def fork(self, request: Request) -> Response:
        """Have the daemon begin a conversation from the state after a record."""
        name, seq = id_of(request), int(request.path_params["seq"])
        await self.site.posted(request, f"fork {name} {seq}")
        made = await self._ask("fork", id=name, to=seq)
        return self.site.to(f"/c/{ConversationId(str(made['id']))}")

    async def _ask(self, do: str, patience: float = PATIENCE, **words: object) -> dict[str, object]:
        socket = self.site.source.places.socket
        try:
            answer: dict[str, object] = await ask(socket, do, patience=patience, **words)
        except OSError as fault:
            raise UsageError(
                f"{unanswered(socket, fault, patience, 'at the list of conversations')} Only a running daemon does "
                "this here; without one use `tenex conversations rollback` or `tenex conversations fork`."
            ) from fault
        return answer


def _difference(before: Conversation, after: Conversation) -> list[str]:
    """How two states differ, as lines of their readable file."""
    old, new = render(before).splitlines(), render(after).splitlines()
    return list(_first(unified_diff(old, new, "before", "after", lineterm="", n=2)))


def _first(lines: Iterator[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        if number == LINES:
            yield "… more is different"
            return
        if number > 1:  # after the names of the two
            yield line[:LINES]
