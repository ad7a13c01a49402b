"""Whispers: ephemeral events that say what is going on, for clients that show it.

    24111 24112   an agent begins or ends to work; the content says at what
    21111         in threads: the text so far of an answer being written
    24135         in notes: the text since the last one
    24133         who works on a conversation; nobody: it is idle
    24010         who works for the project, with which models and tools

Relays keep none of them, and nothing depends on one. Only forms that are open for all to read have whispers.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tenex.core.ids import PublicKey, Slug
from tenex.core.ports import UnsignedEvent
from tenex.nostr.threading.base import MAX_PEOPLE, Tag, group_tags, short_tag
from tenex.nostr.threading.notes import NOTES
from tenex.nostr.threading.split import clean_text, clip
from tenex.nostr.threading.threads import THREADS

from .events import unsigned_event

TYPING_STARTS: Final = 24111
TYPING_STOPS: Final = 24112
TEXT_SO_FAR: Final = 21111
TEXT_SINCE: Final = 24135
OPERATIONS: Final = 24133
PROJECT_STATUS: Final = 24010

MAX_TEXT_BYTES: Final = 60 * 1024
"""Of content as it stands in JSON: relays stop at 64 KiB for the event, and the tags take less than the rest."""

_LEFT_OUT: Final = "…"
_BETWEEN: Final = "\n\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class EphemeralPublisher:
    """Who whispers, and where it belongs."""

    speaker: PublicKey
    address: Mapping[str, Any]
    """Where the conversation subscriptions (`ConversationStarted.address`)."""
    origin: Mapping[str, Any] = field(default_factory=dict)
    """What is being answered (`MessageRecorded.origin`)."""
    phase: str = ""
    project: str | None = None
    """The address of the project's event (`31933:<key>:<d>`), where there is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectStatus:
    """Who works for a project, and with what; the first agent is the one people write to."""

    speaker: PublicKey
    owners: tuple[PublicKey, ...]
    agents: tuple[tuple[PublicKey, Slug], ...]
    models: Mapping[str, tuple[Slug, ...]]
    """Model -> the agents that use it."""
    tools: Mapping[str, tuple[Slug, ...]]
    """Tool -> the agents that have it."""
    project: str | None = None


def is_public_address(address: Mapping[str, Any]) -> bool:
    """Tell whether a conversation may be whispered in: never where it is encrypted, nor in a form unknown here."""
    return address.get("form") in (NOTES.name, THREADS.name)


def typing_event(who: EphemeralPublisher, doing: str, at: int) -> UnsignedEvent:
    """Say what an agent has begun to do, in words people read; with "" that it has stopped."""
    kind = TYPING_STARTS if doing else TYPING_STOPS
    return unsigned_event(who.speaker, at, kind, [*_place(who), *_phase(who)], clip(doing))


def text_event(who: EphemeralPublisher, text: str, told: str, number: int, at: int) -> UnsignedEvent:
    """Say what an agent is writing.

    Args:
        who: the agent.
        text: the text so far.
        told: as much of it as the last of these events told; "" for the first of a text.
        number: counts these events from 1, over all texts of an agent until it has had its say.
        at: seconds.
    """
    text, told = clean_text(text), clean_text(told)
    if who.address.get("form") == THREADS.name:
        root = _root(who)
        tags = (
            short_tag("E", root, str(who.address.get("root_relay", "")), str(who.address.get("root_author", ""))),
            *_place(who),
            ("p", who.speaker),
            *_phase(who),
            ("streaming", "true"),
            ("sequence", str(number)),
        )
        return unsigned_event(who.speaker, at, TEXT_SO_FAR, tags, _newest(text))
    is_going_on = bool(told) and text.startswith(told)
    # clients append in order until the agent's message is there, so a new text stands below the one before it
    since = text[len(told) :] if is_going_on else (_BETWEEN if number > 1 else "") + text
    tags = (*_place(who), *_phase(who), ("stream-seq", str(number)))
    return unsigned_event(who.speaker, at, TEXT_SINCE, tags, _newest(since))


def operations_event(
    who: EphemeralPublisher, active: Iterable[PublicKey], people: Iterable[PublicKey], at: int, status: str = ""
) -> UnsignedEvent:
    """Say who works on a conversation now: nobody means that it is idle. `people` are those it is held with.

    `status` is the conversation's: active, waiting (for a person) or ended.
    """
    keys = (*(("P", key) for key in list(people)[:MAX_PEOPLE]), *(("p", key) for key in active))
    stage = (("status", status),) if status else ()
    return unsigned_event(who.speaker, at, OPERATIONS, [*_place(who), *keys, *stage], "")


def status_event(status: ProjectStatus, at: int) -> UnsignedEvent:
    """Say that the project is there, and who works for it; clients look for it by the owner's key."""
    tags: list[Tag] = [("a", status.project)] if status.project else []
    tags += (("p", owner) for owner in status.owners[:MAX_PEOPLE])
    tags += (("agent", key, slug) for key, slug in status.agents)
    tags += (("model", clip(name), *slugs) for name, slugs in status.models.items())
    tags += (("tool", clip(name), *slugs) for name, slugs in status.tools.items())
    return unsigned_event(status.speaker, at, PROJECT_STATUS, tags, "")


def _place(who: EphemeralPublisher) -> tuple[Tag, ...]:
    project = (("a", who.project),) if who.project else ()
    return (short_tag("e", _root(who), str(who.address.get("root_relay", ""))), *project, *group_tags(who.address))


def _root(who: EphemeralPublisher) -> str:
    """Where the answer will stand: notes are answered in the thread they were written in."""
    return str(who.origin.get("root") or who.address["root"])


def _phase(who: EphemeralPublisher) -> tuple[Tag, ...]:
    return (("phase", who.phase),) if who.phase else ()


def _newest(text: str) -> str:
    """The end of a text, as much as an event may hold: what is written now stands there."""
    room = MAX_TEXT_BYTES - len(_LEFT_OUT.encode())
    rest = text[-room:]  # a character is a byte at least
    while (size := len(json.dumps(rest, ensure_ascii=False).encode())) > room:
        rest = rest[len(rest) - len(rest) * room // size + 1 :]
    return rest if len(rest) == len(text) else _LEFT_OUT + rest
