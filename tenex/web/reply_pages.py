"""The forms that answer: by the remote signer of the login, or the owner's key where the page may use it, or NIP-07.

    POST .../reply/SEQ                      the page signs, publishes, and shows what became of it
    POST .../draft/SEQ, .../signed/NUMBER   the browser signs what the page has drafted

The same below `/new` for a message that begins a conversation.

What a browser signs is taken only as it was drafted, once, and by who may talk here; the daemon reads it from a relay
and checks it like every other.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from tenex.core.answers.yes_no import read_answers
from tenex.core.errors import InvalidEvent, UsageError
from tenex.core.ids import ConversationId
from tenex.core.ports import UnsignedEvent
from tenex.nostr.events import Event, parse_event
from tenex.operations.asks import Ask, Kind, Replied
from tenex.operations.replies import Draft, checked

from .guard import session_of
from .outcome import BEGUN
from .site import Page, Site, id_of

BUTTONS: Final = ("yes", "no", "always", "20 min")
OVER: Final = "This was answered meanwhile, or there is no message to reply to. Nothing was sent."


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a form says, and to what."""

    conversation: ConversationId
    """"" for a message that begins one."""
    seq: int
    """The record of the message that asks; 0 for what begins something new."""
    kind: Kind
    replied: Replied | None
    """None for a message that begins a conversation."""
    words: str
    place: str
    """The page that the form was on: "waiting", "changes", or the conversation's own."""
    last: int
    """The last record before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """An answer that a browser is to sign."""

    answer: Answer
    draft: Draft


@dataclass(frozen=True)
class ReplyPages:
    """The forms, with what they share."""

    site: Site

    def routes(self) -> list[BaseRoute]:
        """The addresses below that of the site."""
        return [
            Route("/c/{id}/reply/{seq:int}", self.reply, methods=["POST"]),
            Route("/c/{id}/draft/{seq:int}", self.draft, methods=["POST"]),
            Route("/c/{id}/signed/{number}", self.signed, methods=["POST"]),
            Page(
                "/new",
                self.new,
                title="New",
                shows="a form for a message that begins a conversation: with the project, an agent or a workflow",
                commands=["chat"],
            ),
            Route("/new/reply/0", self.reply, methods=["POST"]),
            Route("/new/draft/0", self.draft, methods=["POST"]),
            Route("/new/signed/{number}", self.signed, methods=["POST"]),
        ]

    async def new(self, request: Request) -> Response:
        """The form for a message that begins a conversation."""
        values = {"here": "new", "offers": await self._offers(), **self.site.answering(request)}
        return await self.site.show(request, "new.html", values)

    async def _offers(self) -> Mapping[str, Any]:
        """Whom a new message may go to by name, as the daemon says; no one where none runs."""
        configuration = (await self.site.source.status()).get("configuration", {})
        offers: Mapping[str, Any] = configuration.get("offers", {})
        return {"agents": {}, "workflows": {}, **offers}

    async def reply(self, request: Request) -> Response:
        """Send an answer, signed by the signer that the browser has logged in with, or by the owner's key."""
        _, answer = await self._answer(request)
        signer = session_of(request).signer
        if signer is None:
            events = await self.site.writer.write(answer.replied, answer.words)
        else:
            draft = self.site.writer.draft_by(answer.replied, answer.words, signer.public)
            events = await self.site.writer.publish(draft, await signer.sign(draft.events))
        return self.site.to(await self._sent(request, answer, events))

    async def draft(self, request: Request) -> Response:
        """The events that the browser is to sign, and where it sends them."""
        fields, answer = await self._answer(request)
        draft = self.site.writer.draft_by(answer.replied, answer.words, fields.get("pubkey", ""))
        number = session_of(request).keep(Pending(answer=answer, draft=draft))
        unsigned = [_unsigned(event) for event in draft.events]
        where = f"/c/{answer.conversation}" if answer.conversation else "/new"
        return JSONResponse({"to": f"{self.site.base}{where}/signed/{number}", "events": unsigned})

    async def signed(self, request: Request) -> Response:
        """Publish what the browser has signed."""
        number = str(request.path_params["number"])
        fields = await self.site.fields(request)
        pending = session_of(request).take_kept(number)
        if not isinstance(pending, Pending) or pending.answer.conversation != request.path_params.get("id", ""):
            raise UsageError("This was sent before, or is too old. Nothing was sent; load the page again.")
        events = await self.site.writer.publish(pending.draft, _events_of(fields.get("events", "")))
        where = await self._sent(request, pending.answer, events)
        return JSONResponse({"to": f"{self.site.base}{where}"})

    async def _answer(self, request: Request) -> tuple[dict[str, str], Answer]:
        """The fields of a form that answers, and what it says.

        Raises:
            UsageError: what it answers is over, or it says nothing that can be sent.
        """
        if "id" not in request.path_params:
            return await self._beginning(request)
        name = id_of(request)
        seq = int(request.path_params["seq"])
        fields = await self.site.posted(request, f"reply {name} {seq}")
        waits = await self.site.source.asks(name)
        asked = next((ask for ask in waits.asks if seq and ask.seq == seq), None)
        replied = waits.replied if seq == 0 else asked.replied if asked is not None else None
        if replied is None:
            raise UsageError(OVER)
        state = await self.site.source.state(name)
        answer = Answer(
            conversation=name,
            seq=seq,
            kind=asked.kind if asked is not None else "turn",
            replied=replied,
            words=words_of(fields, asked),
            place=fields.get("from", ""),
            last=state.next_seq - 1,
        )
        return fields, answer

    async def _beginning(self, request: Request) -> tuple[dict[str, str], Answer]:
        """The fields of a form that begins a conversation, and what it says.

        Raises:
            UsageError: it names no one here, or says nothing that can be sent.
        """
        fields = await self.site.posted(request, "new")
        to = fields.get("to", "")
        offers = await self._offers() if to else {}
        if to and to not in {**offers["agents"], **offers["workflows"]}:
            raise UsageError("There is no agent and no workflow of that name. Nothing was sent.")
        text = checked(fields.get("text", ""))
        words = f"@{to} {text}" if to else text
        answer = Answer(
            conversation=ConversationId(""),
            seq=0,
            kind="turn",
            replied=None,
            words=words,
            place="",
            last=0,
        )
        return fields, answer

    async def _begun(self, request: Request, name: ConversationId) -> str:
        """The page of the conversation that an event has begun, or the list where it was not seen yet."""
        outcome = await self.site.source.begins(name)
        number = session_of(request).note(outcome)
        return f"/c/{name}?sent={number}" if outcome is BEGUN else f"/conversations?sent={number}"

    async def _sent(self, request: Request, answer: Answer, events: tuple[str, ...]) -> str:
        """The page that shows what became of an answer which was published."""
        name = answer.conversation
        if not name:
            return await self._begun(request, ConversationId(events[0]))
        outcome = await self.site.source.outcome(name, answer.last, events, answer.kind)
        number = session_of(request).note(outcome)
        if answer.place == "waiting":
            return f"/?sent={number}"
        if answer.place == "changes":
            return f"/c/{name}/changes?sent={number}"
        return f"/c/{name}?sent={number}{'' if answer.seq else '#newest'}"


def _unsigned(event: UnsignedEvent) -> dict[str, Any]:
    """An event as a browser signs it."""
    fields = {**asdict(event), "tags": list(map(list, event.tags))}
    del fields["sig"]
    return fields


def words_of(fields: Mapping[str, str], asked: Ask | None) -> str:
    """What a form says: a button's yes, no or option, else the words that were typed.

    Raises:
        UsageError: it is no button of that form.
    """
    text = fields.get("text", "")
    said = fields.get("say", "")
    if said:
        return _button(said, " ".join(text.split()), fields.get("call", ""), asked)
    number = fields.get("option")
    if number is None:
        return text
    options = asked.options if asked is not None else ()
    if not (number.isascii() and number.isdecimal() and len(number) < 4 and int(number) < len(options)):
        raise UsageError("There is no such option. Nothing was sent.")
    return options[int(number)]


def _button(said: str, reason: str, number: str, asked: Ask | None) -> str:
    """What a button says, as the answer that a person would write; `number` is of the call that it stands at.

    Raises:
        UsageError: there is no such button, or it allows what the page does not show.
    """
    numbers = [str(call.number) for call in asked.calls if call.number] if asked is not None else []
    if said not in BUTTONS or (number and number not in numbers):
        raise UsageError("There is no such button. Nothing was sent.")
    if said != "no" and (asked is None or not asked.is_whole):
        raise UsageError("The page does not show all of it, so it cannot be allowed here. Nothing was sent.")
    words = f"{number} {said}".strip()
    if said == "no" and reason:
        words = f"{words}: {reason}"
    if len(read_answers(words)) != 1:
        raise UsageError(
            "The reason would be read as answers to other calls. Word it in another way. Nothing was sent."
        )
    return words


def _events_of(text: str) -> list[Event]:
    """Events as a browser has signed them; whether they are genuine is not checked here."""
    try:
        written = json.loads(text)
        return [parse_event(event) for event in written]
    except (ValueError, TypeError, RecursionError, InvalidEvent) as error:
        raise UsageError("What the browser has signed cannot be read. Nothing was sent.") from error
