"""A session of an editor: one conversation, what the editor is shown of it, and what is asked and answered in it.

One task follows the journal, also what others write to the conversation by a phone or another client. A turn of the
protocol is over when the conversation rests and nothing that the editor can answer is open.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Final

from acp.exceptions import RequestError
from acp.helpers import text_block, tool_content, update_agent_message_text
from acp.interfaces import Client
from acp.schema import AllowedOutcome, PermissionOption, SessionInfoUpdate, StopReason, ToolCallUpdate

import tenex.workflows  # noqa: F401 - registers the kinds of conversation: their records are read here
from tenex.core import records as r
from tenex.core.approvals.state import Request
from tenex.core.conversation import Conversation, fold
from tenex.core.errors import StoreError, TenexError, UsageError
from tenex.core.ids import ConversationId, EventId
from tenex.core.people.trust import room_of
from tenex.core.projection import glance_of
from tenex.core.snapshot import SnapshotRecord
from tenex.log import get_logger
from tenex.operations.asks import Ask, Replied, asks_of, newest_message, replied_by
from tenex.operations.replies import Draft

from .project import Project
from .updates import Updates, id_of_call

log = get_logger(__name__)

LOOK: Final = 0.2
"""Seconds between two looks at the journal: a look is two system calls."""
TAKEN: Final = 30.0
"""Seconds within which the daemon is to take a message in."""
INTERNAL: Final = -32603
UNKNOWN_SESSION: Final = -32002
"""Codes of JSON-RPC and of the protocol."""
KEPT: Final = 200
"""Messages of ours that are kept: an answer replies to one of them."""


class Session:
    """One session."""

    def __init__(self, id_: str, project: Project, client: Client) -> None:
        self.id = id_
        self._project = project
        self._client = client
        self._state: Conversation | None = None
        self._title = ""
        self._updates = Updates(project.workspace, project.key)
        self._messages: deque[r.MessageSent] = deque(maxlen=KEPT)
        self._written: set[EventId] = set()
        """Events that were written here: the editor shows these by itself."""
        self._sending: set[asyncio.Task[None]] = set()
        self._taken: set[EventId] = set()
        """Those of them that the journal has."""
        self._first: Draft | None = None
        """The message that began the conversation, if it was written here: until an answer came, replies go to it."""
        self._asking: dict[int, asyncio.Task[None]] = {}
        """Requests for permission that the editor has been asked, by seq; until the journal has their answer."""
        self._left: set[int] = set()
        """Those of them that the editor has left to other clients."""
        self._shown = 0
        """The seq of the last record that the editor was shown."""
        self._changed = asyncio.Event()
        self._following: asyncio.Task[None] | None = None
        self._is_cancelled = False

    async def load(self, conversation: ConversationId) -> None:
        """Show what is in a conversation, and go on with it.

        Raises:
            RequestError: there is no such conversation, or it cannot be read.
        """
        try:
            records = await self._project.records(conversation)
        except (StoreError, OSError) as error:
            raise RequestError(INTERNAL, str(error)) from error
        if not records:
            raise RequestError(UNKNOWN_SESSION, f"There is no conversation {conversation[:12]} in this data folder.")
        self._state = fold(conversation, records)
        if isinstance(records[0], SnapshotRecord):
            earlier = f"(Earlier messages: `tenex conversations show {conversation[:12]} --all`)\n\n"
            await self._show(update_agent_message_text(earlier))
        await self._show_records(records)
        self._follow(conversation, records[-1].seq)

    async def prompt(self, text: str) -> StopReason:
        """Write a message, and return when the conversation rests: why it does.

        Raises:
            TenexError: it was not sent, or no daemon has taken it.
        """
        self._is_cancelled = False
        if not await self._project.has_daemon():
            raise UsageError(
                f"No daemon runs on {self._project.places.data}. `tenex run` starts one. Nothing was sent."
            )
        await self._say(text)
        await self._until(lambda: self._is_cancelled or self._is_at_rest())
        if not self._is_cancelled:
            return "end_turn"
        await self._say("/stop")
        await self._until(self._is_at_rest)
        return "cancelled"

    def cancel(self) -> None:
        """Have the turn that waits stop what runs in the conversation, as `/stop` does."""
        self._is_cancelled = True
        self._changed.set()

    async def close(self) -> None:
        """Follow the conversation no more; it goes on."""
        tasks = [task for task in (self._following, *self._asking.values(), *self._sending) if task is not None]
        for task in tasks:
            task.cancel()
        for fault in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(fault, Exception):
                log.warning("editor.session_failed", why=str(fault))

    # ---- writing ----

    async def _say(self, text: str) -> None:
        """Write, and return once the daemon has taken it; a relay that is away does not hold this up.

        Raises:
            TenexError: it was not sent, or no daemon has taken it.
        """
        draft = self._drafted(text)
        events = {event.id for event in draft.events}
        sending = asyncio.create_task(self._project.publish(draft), name="publish")
        sending.add_done_callback(lambda _: self._changed.set())
        self._sending.add(sending)
        sending.add_done_callback(self._sending.discard)
        await self._until(lambda: self._has_taken(events) or sending.done())
        if self._has_taken(events):
            return
        await sending  # raises where no relay took it
        try:
            async with asyncio.timeout(TAKEN):
                await self._until(lambda: self._has_taken(events))
        except TimeoutError as error:
            raise TenexError(
                f"The daemon has not taken the message within {TAKEN:g} s. A relay has it: do not send it again; see "
                "`tenex status`."
            ) from error

    def _has_taken(self, events: set[EventId]) -> bool:
        return not self._taken.isdisjoint(events)

    def _drafted(self, text: str) -> Draft:
        """A message to the conversation, or the one that begins it.

        Its ids are noted before anything is sent: the journal may have it before the last relay has answered.
        """
        state = self._state
        if state is None:
            draft = self._first = self._project.first_message(self.id, text)
            self._written.add(draft.events[0].id)
            self._follow(ConversationId(draft.events[0].id), 0)
            return draft
        if room_of(state.identity.address):
            raise UsageError("This conversation is in direct messages: write there with your own client.")
        replied = self._replied(state)
        if replied is None:
            raise UsageError("No message of this conversation can be answered yet. Wait for the first one.")
        draft = self._project.reply(replied, text)
        self._written.update(event.id for event in draft.events)
        return draft

    def _replied(self, state: Conversation) -> Replied | None:
        """The message that what is written next replies to: the newest question, else the newest message."""
        questions = [ask.replied for ask in asks_of(state, self._messages) if ask.kind not in ("approval", "turn")]
        newest = replied_by(state, newest_message(self._messages))
        replied = next((each for each in reversed(questions) if each), newest)
        if replied is None and self._first is not None:
            first = self._first
            return Replied(event=first.events[0], relays=first.relays, address=state.identity.address)
        return replied

    # ---- what happens in the conversation ----

    def _follow(self, conversation: ConversationId, seq: int) -> None:
        if self._following is not None:
            self._following.cancel()
        self._following = asyncio.create_task(self._run(conversation, seq), name="editor session")
        self._following.add_done_callback(lambda _: self._changed.set())

    async def _run(self, conversation: ConversationId, seq: int) -> None:
        tail = self._project.tail(conversation, seq)
        self._ask()
        while True:
            try:
                records = await tail.read()
            except FileNotFoundError:  # the daemon has not taken the first message
                records = []
            except (StoreError, OSError) as error:  # looking again may help
                log.warning("editor.journal_unreadable", why=str(error))
                records = []
            if self._state is None and records:
                self._state = fold(conversation, [])
            for record in records:
                self._apply(record)
            await self._show_records(records)
            if records:
                self._ask()
                self._changed.set()
            await asyncio.sleep(LOOK)

    def _apply(self, record: r.Record) -> None:
        assert self._state is not None
        self._state.apply(record)
        event = EventId(str(getattr(record, "event_id", "")))
        if event in self._written:
            self._taken.add(event)

    async def _show_records(self, records: Iterable[r.Record]) -> None:
        """Show records that have been applied."""
        for record in records:
            if isinstance(record, r.MessageSent) and record.events:
                self._messages.append(record)
            if getattr(record, "event_id", "") not in self._written:  # the editor shows what it has sent by itself
                for update in self._updates.of(record):
                    await self._show(update)
            self._shown = record.seq
        title = self._state.identity.title if self._state is not None else ""
        if title != self._title:
            self._title = title
            await self._show(SessionInfoUpdate(session_update="session_info_update", title=title))

    async def _show(self, update: object) -> None:
        await self._client.session_update(self.id, update)  # type: ignore[arg-type]

    def _is_at_rest(self) -> bool:
        """Whether the conversation waits or has ended, the editor was shown all of it, and is asked nothing."""
        state = self._state
        if state is None or self._shown < state.next_seq - 1:
            return False
        return glance_of(state).status != "active" and self._asking.keys() <= self._left

    async def _until(self, holds: Callable[[], bool]) -> None:
        """Wait until it is so.

        Raises:
            TenexError: the conversation can be followed no more.
        """
        while not holds():
            following = self._following
            if following is not None and following.done() and not following.cancelled():
                raise TenexError(f"The conversation cannot be read: {following.exception()}") from following.exception()
            self._changed.clear()
            await self._changed.wait()

    # ---- permissions ----

    def _ask(self) -> None:
        """Ask the editor for the permissions that are open, and for none that has its answer."""
        state = self._state
        if state is None:
            return
        for seq in [seq for seq in self._asking if seq not in state.approvals.open]:
            self._asking.pop(seq).cancel()
        for request, ask in self._requests(state):
            if request.seq not in self._asking and not self._is_cancelled:
                work = self._request(request, ask)
                self._asking[request.seq] = asyncio.create_task(work, name=f"permission {request.seq}")

    def _requests(self, state: Conversation) -> Iterator[tuple[Request, Ask]]:
        """The open requests whose message can be answered, and that an editor can show whole."""
        asks = [ask for ask in asks_of(state, self._messages) if ask.kind == "approval"]
        for request, ask in zip(state.approvals.open.values(), asks, strict=True):
            if ask.replied is not None and ask.is_whole:
                yield request, ask

    async def _request(self, request: Request, ask: Ask) -> None:
        """Ask the editor, and write its answer as the owner's reply.

        Where another client answers first the journal has that answer, and this task is cancelled.
        """
        options = [PermissionOption(option_id="yes", name="Allow once", kind="allow_once")]
        if ask.always:
            name = f"Always allow {ask.always}"
            options.append(PermissionOption(option_id="always", name=name, kind="allow_always"))
        options.append(PermissionOption(option_id="no", name="Refuse", kind="reject_once"))
        shown = [f"{call.text}\n\n(it asks because {call.rule})" for call in ask.calls]
        call = ToolCallUpdate(
            tool_call_id=id_of_call(request.run, request.calls[0].call),
            title=f"{ask.who}: {ask.text}",
            status="pending",
            content=[tool_content(text_block(text)) for text in ([ask.said] if ask.said else []) + shown],
        )
        try:
            answer = await self._client.request_permission(self.id, call, options)
            outcome = answer.outcome
            if isinstance(outcome, AllowedOutcome) and ask.replied is not None:
                draft = self._project.reply(ask.replied, outcome.option_id)
                self._written.update(event.id for event in draft.events)
                await self._project.publish(draft)
                return
        except Exception as error:  # noqa: BLE001 - whatever an editor answers, the turn does not wait for it
            log.warning("editor.permission_failed", why=str(error))
            with suppress(ConnectionError):
                await self._show(update_agent_message_text(f"The answer was not sent: {error}\n\n"))
        self._left.add(request.seq)
        self._changed.set()
