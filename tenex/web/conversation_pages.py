"""The pages of one conversation: its story, and what belongs to it."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from tenex.core.errors import UsageError
from tenex.core.ids import ConversationId
from tenex.core.messages import AgentText, CallResult, ModelStep, Note, UserText
from tenex.core.records import Record, ToolCallCompleted, ToolCallStarted
from tenex.store.stats import as_json
from tenex.tools.shadow_git import CheckpointFailed

from .charts import tables_of
from .guard import Session, session_of
from .maps import map_of
from .site import Page, Site, id_of, number_of, stream
from .story import shortened
from .talk import SHOWS, checks_of
from .timeline import LEAST_WIDTH, timeline_of

UNKNOWN: Final = "application/octet-stream"
SAVED: Final = "sandbox; default-src 'none'"
"""The policy of a file that people or agents made."""
PANEL: Final = 390
"""Width of the timeline beside a conversation, in pixels."""
PANEL_TURNS: Final = 6
"""Turns in it, the newest."""
FIND_CHARACTERS: Final = 200
"""Of words that are looked for in a conversation."""
GIT_PATIENCE: Final = 10.0
"""Seconds for a diff."""


@dataclass(frozen=True)
class ConversationPages:
    """The pages, with what they share."""

    site: Site

    def routes(self) -> list[BaseRoute]:
        """The addresses below that of the site."""
        return [
            Page(
                "/c/{id}",
                self.story,
                title="one conversation",
                shows="where it is; its messages; the work between them, folded, as a tree; what it waits for; files",
                commands=["conversations show"],
            ),
            Route("/c/{id}/events", self.story_events),
            Page(
                "/c/{id}/usage",
                self.usage,
                title="its usage",
                shows="time, tokens, cached share and cost by phase, model and agent",
                commands=["conversations stats"],
            ),
            Page(
                "/c/{id}/time",
                self.time,
                title="its time",
                shows="phases, agents and calls along the time, with the cost; the graph; turns and their cost",
                commands=["conversations show"],
            ),
            Route("/c/{id}/entry/{seq:int}", self.entry),
            Route("/c/{id}/sent/{seq:int}", self.sent),
            Route("/c/{id}/diff/{seq:int}", self.diff),
            Route("/c/{id}/files/{folder}/{name}", self.file),
        ]

    async def story(self, request: Request) -> Response:
        """A conversation: its messages, and the work between them."""
        name = id_of(request)
        source = self.site.source
        show = next((each for each in SHOWS if each == request.query_params.get("show")), SHOWS[0])
        find = request.query_params.get("find", "").strip()[:FIND_CHARACTERS]
        before, around = number_of(request, "before"), number_of(request, "around")
        part = await source.story(name, before=before, around=around, show=show, words=find)
        values: dict[str, Any] = {
            "id": name,
            "part": part,
            "shown": part.projection,
            "show": show,
            "find": find,
            "is_whole": show == "all" and not find,
        }
        session_of(request).visited(name)
        if request.query_params.get("part") == "1":
            return await self.site.show(request, "story_part.html", values)
        waits = await source.asks(name) if part.is_newest else None
        values |= {
            "here": "conversations",
            "tab": "Conversation",
            "shows": SHOWS,
            "checks": checks_of(part.state),
            "asks": [ask for ask in waits.asks if ask.kind != "turn"] if waits is not None else [],
            "can_write": waits is not None and waits.replied is not None,
            "files": await source.files(name),
            **self.site.answering(request),
        }
        template = "story_asks.html" if request.query_params.get("part") == "asks" else "story.html"
        return await self.site.show(request, template, values)

    async def time(self, request: Request) -> Response:
        """When what happened: the timeline, the graph and the turns."""
        name = id_of(request)
        end = await self.site.source.story(name)
        shown = end.projection
        ids = [str(turn.turn_id) for turn in (*shown.history.turns, *filter(None, (shown.open_turn,)))]
        zoom = request.query_params.get("turn", "")
        zoom = zoom if zoom in ids else ""
        is_part = bool(request.query_params.get("part"))
        drawn = [zoom] if zoom else ids[-PANEL_TURNS:] if is_part else None
        place = ids.index(zoom) if zoom else 0
        values = {
            "here": "conversations",
            "tab": "Time",
            "id": name,
            "shown": shown,
            "checks": checks_of(end.state),
            "timeline": timeline_of(shown, turns=drawn, width=PANEL if is_part else LEAST_WIDTH),
            "map": map_of(end.state, end.ways),
            "is_part": is_part,
            "seqs": {entry.seq for entry in end.entries},
            "zoom": zoom,
            "before": ids[place - 1] if zoom and place else "",
            "after": ids[place + 1] if zoom and place + 1 < len(ids) else "",
        }
        return await self.site.show(request, "time_part.html" if is_part else "time.html", values)

    async def entry(self, request: Request) -> Response:
        """What an entry has beside its line: arguments and results."""
        name = id_of(request)
        entry = await self.site.source.entry(name, int(request.path_params["seq"]))
        if entry is None:
            raise UsageError("That record has no entry.")
        values = {"here": "conversations", "id": name, "entry": entry}
        template = "entry_part.html" if request.query_params.get("part") else "entry_page.html"
        return await self.site.show(request, template, values)

    async def story_events(self, request: Request) -> Response:
        """The stream of a conversation's page; a browser that connects again names the last event it has seen."""
        if self.site.streams.is_full:
            return PlainTextResponse("Too many pages are open.\n", HTTPStatus.SERVICE_UNAVAILABLE)
        last = request.headers.get("last-event-id", "")
        after = int(last) if last.isascii() and last.isdecimal() and len(last) < 16 else number_of(request, "after")
        name = id_of(request)
        self.site.source.folder.path(name)  # raises where it is not an id
        return stream(self._while_seen(session_of(request), name, after))

    async def _while_seen(self, session: Session, name: ConversationId, after: int) -> AsyncIterator[bytes]:
        """The stream of a conversation, which its browser has seen as long as it is open."""
        async for item in self.site.streams.of_conversation(name, after):
            yield item
            session.visited(name)

    async def usage(self, request: Request) -> Response:
        """What a conversation has taken."""
        name = id_of(request)
        figures = as_json(await self.site.source.stats(name))
        shown = await self.site.source.state(name)
        values = {"here": "conversations", "id": name, "title": shown.identity.title, "taken": figures, "tab": "Usage"}
        return await self.site.show(request, "usage.html", {**values, "tables": tables_of(figures)})

    async def sent(self, request: Request) -> Response:
        """What an agent was sent."""
        name = id_of(request)
        sent = await self.site.source.sent(name, int(request.path_params["seq"]))
        if sent is None:
            raise UsageError("No agent began to work with that record.")
        values = {"here": "conversations", "id": name, "sent": sent, "texts": list(_texts(sent.entries))}
        return await self.site.show(request, "sent.html", values)

    async def diff(self, request: Request) -> Response:
        """How a call changed files."""
        name, seq = id_of(request), int(request.path_params["seq"])
        ended = _end_of(await self.site.source.records(name, seq), seq)
        if ended is None:
            raise UsageError("No call that has ended began with that record.")
        checkpoints = self.site.checkpoints()
        patch = ""
        if checkpoints is not None:
            belongs = {"key": f"{name}:{seq}"}
            with suppress(CheckpointFailed):
                patch = await asyncio.to_thread(
                    checkpoints.diff_of, name, belongs, ended.touched, patience=GIT_PATIENCE
                )
        values = {"here": "conversations", "id": name, "call": ended, "lines": shortened(patch).splitlines()}
        return await self.site.show(request, "diff.html", values)

    async def file(self, request: Request) -> Response:
        """A file of a conversation, to be saved: a browser is to show nothing of it, whatever it holds."""
        folder, name = str(request.path_params["folder"]), str(request.path_params["name"])
        place = await self.site.source.file(id_of(request), folder, name)
        if place is None:
            raise UsageError("There is no such file in this conversation.")
        return FileResponse(place, media_type=UNKNOWN, filename=name, headers={"content-security-policy": SAVED})


def _end_of(records: list[Record], seq: int) -> ToolCallCompleted | None:
    """The result of the call that began with a record."""
    began = next((record for record in records if record.seq == seq), None)
    if not isinstance(began, ToolCallStarted):
        return None
    ends = (record for record in records if isinstance(record, ToolCallCompleted) and record.seq > seq)
    return next((record for record in ends if (record.run, record.call) == (began.run, began.call)), None)


def _texts(entries: tuple[Any, ...]) -> Iterator[tuple[str, str]]:
    """Title and text of what was sent."""
    for entry in entries:
        match entry:
            case UserText():
                yield f"{entry.author}, {entry.role or 'a user'}", shortened(entry.text)
            case AgentText():
                yield entry.author, shortened(entry.text)
            case Note():
                yield f"note: {entry.title}", shortened(entry.text)
            case ModelStep():
                calls = "\n".join(f"{call.tool}({', '.join(call.arguments)})" for call in entry.calls)
                yield f"answered ({entry.model or 'model'})", shortened("\n".join(filter(None, (entry.text, calls))))
            case CallResult():
                yield f"result of {entry.tool}{'' if entry.ok else ', which failed'}", shortened(entry.content)
