"""What a program may do with the conversations of a data folder: read them, write messages, answer agents' questions.

It decides nothing: text that would be a command or a yes to what only a person decides is refused here, with the
reason, and by the daemon where it arrives all the same (`sender`).
"""

import asyncio
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

from tenex.cli.shared import list_search
from tenex.cli.shared.lookup import find_named
from tenex.core.answers.yes_no import is_clear_yes
from tenex.core.conversation import Conversation, fold
from tenex.core.delivery.records import MessageSent
from tenex.core.errors import StoreError, UsageError
from tenex.core.ids import ConversationId, Millis
from tenex.core.inbox.commands import UNKNOWN, parse, split_last_line
from tenex.core.inbox.records import CommandGiven, MessageRecorded, MessageWithdrawn
from tenex.core.phases import Phase
from tenex.core.projection import activity_of, glance_of, phase_of
from tenex.core.records import Record
from tenex.core.rollback.whole import RolledBack
from tenex.core.work.run import CallState, Run
from tenex.operations.doctor.daemon import lock_holder
from tenex.store.conversations import Conversations
from tenex.store.index_reader import open_catalogue
from tenex.store.repository import NEWEST
from tenex.store.search import Filter
from tenex.store.view import render
from tenex.store.view_json import iso
from tenex.workflows.phases.gates import is_plan_approved
from tenex.workflows.phases.state import phases_of

from .sender import Answered, Sender

MOST_MESSAGES: Final = 50
"""Messages of one page."""

TEXT_CHARACTERS: Final = 4_000
"""Of a message in a page; `conversation.json` has the newest whole."""

PAGE_CHARACTERS: Final = 60_000
"""Of all messages of a page: about 15,000 tokens."""

LONGEST_MESSAGE: Final = 64 * 1024
"""Characters that are sent: relays refuse larger events."""

LONGEST_WAIT: Final = 50.0
"""Seconds: clients give a call up after a minute."""

LOOK_EVERY: Final = 0.3
"""Seconds between two looks at a journal of another process."""

RESTS_AFTER: Final = 2.0
"""Seconds without a record after which a conversation at rest is not waited for: a message may be on its way to it."""

ANSWERED_BY_ASK: Final = "ask"
"""The tool whose calls are questions that any text answers."""

_FULL_ID: Final = re.compile(r"[0-9a-f]{64}")
_LAST: Final = 2**62

PERSON_DECIDES: Final = (
    "Only a person decides that, in a client of their own: what is sent here is a message, and never approves anything "
    "or skips a check."
)


class ConversationAccess:
    """The conversations of a folder, for a program."""

    def __init__(self, folder: Conversations, sender: Sender) -> None:
        self._folder = folder
        self._sender = sender

    async def list_conversations(self, status: str, limit: int) -> list[dict[str, Any]]:
        """The conversations, last updated first.

        Raises:
            UsageError: there is no such status.
        """
        if status and status not in list_search.STATUSES:
            raise UsageError(f"{status[:40]!r} is not a status. Choose from {', '.join(list_search.STATUSES)}.")
        return await list_search.rows(self._folder, Filter(status=status), limit)

    async def search_conversations(self, query: str, limit: int) -> list[dict[str, Any]]:
        """The conversations with messages that match, the best first, with excerpts.

        Raises:
            UsageError: the query holds no word, or too many.
        """
        return list_search.as_json(await list_search.search(self._folder, query, Filter(), limit))

    async def conversation_json(self, conversation: str) -> str:
        """A conversation as its `conversation.json` shows it."""
        return render(await self._state(await find_named(self._folder, conversation)))

    async def read_conversation(self, conversation: str, before: int | None, limit: int) -> dict[str, Any]:
        """The situation of a conversation, and its last messages before a seq, oldest first.

        `earlier` is the seq to give as `before` for those before these; None where there are none.
        """
        name = await find_named(self._folder, conversation)
        async with open_catalogue(self._folder) as catalogue:
            if name in catalogue.unread:
                raise StoreError(catalogue.unread[name])
            passages = await catalogue.messages_before(name, before if before is not None else _LAST, limit + 1)
        newest_first = [
            _message(passage.seq, passage.at, passage.name, passage.text, is_person=bool(passage.author))
            for passage in passages[:limit]
        ]
        page = _fitting(newest_first)
        has_earlier = len(page) < len(passages)
        return {
            **_situation(await self._state(name)),
            "messages": page[::-1],
            "earlier": page[-1]["seq"] if has_earlier and page else None,
        }

    async def send_message(self, text: str, conversation: str = "") -> dict[str, Any]:
        """Send a message to a conversation, or begin one with it; returns at once.

        Raises:
            UsageError: the text would be a decision, or there is no such conversation.
            TransientError: the relay did not take it.
        """
        _check_text(text)
        command = parse(text) or split_last_line(text)[1]
        if command is not None:
            word = command.argument.split()[0] if command.name == UNKNOWN else f"/{command.name}"
            raise UsageError(
                f"Nothing was sent: {word[:30]} is a command. {PERSON_DECIDES} Say what you want in words."
            )
        if not conversation:
            event = await self._sender.send(text)
            return await self._sent(event, event, after=0)
        state = await self._state(await find_named(self._folder, conversation))
        waiting = _left_to_persons(state)
        if waiting and is_clear_yes(text):
            raise UsageError(f"The conversation waits for {' and '.join(waiting)}. {PERSON_DECIDES}")
        event = await self._sender.send(text, state)
        return await self._sent(event, state.id, after=state.next_seq - 1)

    async def answer_question(self, conversation: str, question: str, text: str) -> dict[str, Any]:
        """Answer an open question of an agent, by the id of its event.

        Raises:
            UsageError: no agent waits for an answer to it.
            TransientError: the relay did not take it.
        """
        _check_text(text)
        state = await self._state(await find_named(self._folder, conversation))
        asked = question.strip().lower()
        runs = {event: run for event, run, _ in _open_questions(state)}
        if asked not in runs:
            raise UsageError(_why_no_question(state, asked, runs))
        event = await self._sender.send(text, state, Answered(asked, runs[asked].pubkey))
        return await self._sent(event, state.id, after=state.next_seq - 1)

    async def wait_for_messages(self, conversation: str, after: int, seconds: float) -> dict[str, Any]:
        """The messages after a seq: as soon as one of the agents or the project is among them, none works, or in time.

        `next` is the seq to wait after the next time. A conversation that was just begun need not be there yet.
        """
        name = ConversationId(conversation.strip().lower())
        if not _FULL_ID.fullmatch(name):
            name = await find_named(self._folder, conversation)
        loop = asyncio.get_running_loop()
        ends = loop.time() + seconds
        length = 0
        changed_at = loop.time()
        latest: dict[str, Any] = {}
        while True:
            length_now = await self._folder.size(name)
            if length_now != length:
                length = length_now
                changed_at = loop.time()
                latest = await self._after(name, after)
            has_answer = any(not message["person"] for message in latest.get("messages", ()))
            is_at_rest = latest.get("status", "active") != "active" and loop.time() - changed_at >= RESTS_AFTER
            left = ends - loop.time()
            if has_answer or is_at_rest or left <= 0:
                break
            await asyncio.sleep(min(LOOK_EVERY, left))
        return latest or {"conversation": name, "messages": [], "next": after, **await self._note()}

    async def _after(self, name: ConversationId, after: int) -> dict[str, Any]:
        records = await self._folder.read(name, after)
        state = fold(name, records)
        newer = list(messages_of(record for record in records if record.seq > after))
        shown = _fitting(newer[:MOST_MESSAGES])
        last = int(shown[-1]["seq"]) if shown else after
        return {**_situation(state), "messages": shown, "next": last}

    async def _state(self, name: ConversationId) -> Conversation:
        return fold(name, await self._folder.read(name, NEWEST))

    async def _sent(self, event: str, conversation: str, *, after: int) -> dict[str, Any]:
        return {"conversation": conversation, "message": event, "after": after, **await self._note()}

    async def _note(self) -> dict[str, str]:
        """Why nothing may come of a message; empty where a daemon runs, here or on the same database."""
        with suppress(OSError, StoreError):
            if lock_holder(self._folder.root) or any(not other.is_silent for other in await self._folder.workers()):
                return {}
        return {"note": "No daemon runs on this data folder now: messages wait on the relay until it is started."}


def _check_text(text: str) -> None:
    if not text.strip():
        raise UsageError("The message is empty.")
    if len(text) > LONGEST_MESSAGE:
        raise UsageError(f"The message has {len(text):,} characters; {LONGEST_MESSAGE:,} is the most.")


def _situation(state: Conversation) -> dict[str, Any]:
    """What a conversation is called, what it waits for, who works, and which questions are open."""
    glance = glance_of(state)
    activity = activity_of(state)
    working = [str(run.agent) for run in activity.runs if run.state != "parked"]
    if activity.router is not None:
        working.append("orchestrator")
    questions = [
        {"question": event, "agent": run.agent, "text": str(text)[:TEXT_CHARACTERS]}
        for event, run, text in _open_questions(state)
    ]
    shown: dict[str, Any] = {
        "conversation": glance.id,
        "title": glance.title,
        "status": glance.status,
        "waitingFor": glance.waiting_for or None,
        "phase": phase_of(state),
        "seq": glance.seq,
        "working": working,
        "openQuestions": questions,
    }
    waiting = _left_to_persons(state)
    return {**shown, "personDecides": waiting} if waiting else shown


def _open_questions(state: Conversation) -> Iterator[tuple[str, Run, str]]:
    """The questions of agents that wait for an answer: event, run and words; of a long one the first event."""
    seen = set()
    for event, asked in state.work.asks.items():
        run = state.work.runs.get(asked[0])
        call = run.find(asked[1]) if run is not None else None
        if run is None or call is None or asked in seen:
            continue
        if call.state is CallState.PARKED and call.request.tool == ANSWERED_BY_ASK:
            seen.add(asked)
            yield event, run, str(call.request.arguments.get("question") or "")


def _left_to_persons(state: Conversation) -> list[str]:
    """What is asked of a person now that no program may answer."""
    phases = phases_of(state)
    waiting = [f"whether {' and '.join(phases.waiver_asked)} may be skipped"] if phases.waiver_asked else []
    is_plan_open = phases.plan_question is not None and state.cycle.phase is Phase.PLAN and not is_plan_approved(state)
    if is_plan_open and state.work.turn is None:
        waiting.append("the approval of the plan")
    waiting += [f"permission for {request.name} to run {request.line}" for request in state.approvals.open.values()]
    calls = (call for run in state.work.runs.values() for call in run.open_calls)
    waiting += [
        f"an answer to what {call.request.tool} asks"
        for call in calls
        if call.state is CallState.PARKED and call.request.tool != ANSWERED_BY_ASK
    ]
    return waiting


def _why_no_question(state: Conversation, asked: str, open_ones: Iterable[str]) -> str:
    phases = phases_of(state)
    decisions = [question for question in (phases.waiver_question, phases.plan_question) if question is not None]
    # of what is asked by calls, the questions of agents were looked at before
    if asked in state.work.asks or any(asked in question.events for question in decisions):
        return f"That question was not answered. {PERSON_DECIDES}"
    listed = ", ".join(open_ones) or "none"
    return f"No agent waits for an answer to {asked[:70] or 'that'}. Open questions: {listed}. {PERSON_DECIDES}"


def messages_of(records: Iterable[Record]) -> Iterator[dict[str, Any]]:
    """The messages in some records, without those that these withdraw or undo."""
    messages: dict[int, dict[str, Any]] = {}
    for record in records:
        match record:
            case MessageRecorded():
                messages[record.seq] = _message(record.seq, record.at, record.name, record.text, is_person=True)
            case CommandGiven():
                text = f"/{record.command} {record.argument}".rstrip()
                messages[record.seq] = _message(record.seq, record.at, record.name, text, is_person=True)
            case MessageSent() if record.purpose not in ("announcement", "reminder"):  # a phase, and what is there
                shown = _message(record.seq, record.at, record.name, record.text, is_person=False)
                messages[record.seq] = {**shown, "kind": record.purpose}
            case MessageWithdrawn():
                messages.pop(record.message, None)
            case RolledBack():
                messages = {seq: message for seq, message in messages.items() if seq <= record.to}
    yield from messages.values()


def _message(seq: int, at: int, name: str, text: str, *, is_person: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {"seq": seq, "time": iso(Millis(at)), "from": name, "person": is_person}
    shown["text"] = text[:TEXT_CHARACTERS]
    if len(text) > TEXT_CHARACTERS:
        shown["charactersLeftOut"] = len(text) - TEXT_CHARACTERS
    return shown


def _fitting(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first messages that fit into a page; at least one, where there is any."""
    room = PAGE_CHARACTERS
    kept: list[dict[str, Any]] = []
    for message in messages:
        room -= len(message["text"])
        if room < 0 and kept:
            break
        kept.append(message)
    return kept
