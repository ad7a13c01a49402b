"""Ephemeral events that show current activity: typing indicators, streamed text, and the project's status.

    24111 24112   an agent starts or stops working; the content describes the work
    21111         in threads: the text so far of an answer being written
    24135         in notes: the text since the previous such event
    24133         the agents that work on a conversation; none means that it is idle
    24010         the project's agents, with their models and tools

Relays do not store them, and nothing depends on one. They are published for public conversations
only, and not for those in rooms with threads.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tenex.core.ids import PublicKey, Slug
from tenex.core.ports import UnsignedEvent
from tenex.nostr.threading import PUBLIC
from tenex.nostr.threading.base import MAX_PEOPLE, Tag, group_tags, short_tag
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
"""Of content encoded as JSON: relays accept events of 64 KiB, and the tags take less than the rest."""

_LEFT_OUT: Final = "…"
_BETWEEN: Final = "\n\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class EphemeralPublisher:
    """The agent that publishes ephemeral events, and the conversation they belong to."""

    speaker: PublicKey
    address: Mapping[str, Any]
    """The conversation's address (`ConversationStarted.address`)."""
    origin: Mapping[str, Any] = field(default_factory=dict)
    """The message being answered (`MessageRecorded.origin`)."""
    phase: str = ""
    project: str = ""
    """The address of the project's event, if there is one."""


def is_public_address(address: Mapping[str, Any]) -> bool:
    """Whether ephemeral events may be published for a conversation: not if it is encrypted or its scheme is unknown."""
    return any(address.get("form") == scheme.name for scheme in PUBLIC)


def typing_event(who: EphemeralPublisher, doing: str, at: int) -> UnsignedEvent:
    """Announce what an agent has started to do, in words for users; "" announces that it has stopped."""
    kind = TYPING_STARTS if doing else TYPING_STOPS
    return unsigned_event(who.speaker, at, kind, [*_place(who), *_phase(who)], clip(doing))


def text_event(who: EphemeralPublisher, text: str, published: str, number: int, at: int) -> UnsignedEvent:
    """Publish the text an agent is writing; `published` is the part that the event before covered, "" for a new text.

    `number` counts these events from 1, over all texts of one turn of the agent.
    """
    text = clean_text(text)
    published = clean_text(published)
    if who.address.get("form") == THREADS.name:
        root = short_tag("E", *_root(who), str(who.address.get("root_author", "")))
        order = (("streaming", "true"), ("sequence", str(number)))
        tags = (root, *_place(who), ("p", who.speaker), *_phase(who), *order)
        return unsigned_event(who.speaker, at, TEXT_SO_FAR, tags, _newest(text))
    is_continued = bool(published) and text.startswith(published)
    # clients append in order until the agent's message is there, so a new text goes below the one before it
    since = text[len(published) :] if is_continued else (_BETWEEN if number > 1 else "") + text
    tags = (*_place(who), *_phase(who), ("stream-seq", str(number)))
    return unsigned_event(who.speaker, at, TEXT_SINCE, tags, _newest(since))


def operations_event(
    who: EphemeralPublisher, active: Iterable[PublicKey], people: Iterable[PublicKey], status: str, at: int
) -> UnsignedEvent:
    """List the agents that work on a conversation; none means that it is idle. `people` are its users.

    `status` is the conversation's: active, waiting (for a person) or ended.
    """
    users = (("P", key) for key in list(people)[:MAX_PEOPLE])
    agents = (("p", key) for key in active)
    return unsigned_event(who.speaker, at, OPERATIONS, [*_place(who), *users, *agents, ("status", clip(status))], "")


def status_event(
    project: PublicKey,
    owners: Iterable[PublicKey],
    agents: Mapping[Slug, PublicKey],
    models: Mapping[str, Iterable[Slug]],
    tools: Mapping[str, Iterable[Slug]],
    at: int,
    project_event: str = "",
) -> UnsignedEvent:
    """Announce the project and its agents; clients look for it by an owner's key and write to the first agent.

    `models` and `tools` name the agents that use them. Clients of TENEX find by `project_event` which of their projects
    it is.
    """
    tags: list[Tag] = [("a", project_event)] if project_event else []
    tags += [("p", owner) for owner in list(owners)[:MAX_PEOPLE]]
    tags += (("agent", key, clip(slug)) for slug, key in agents.items())
    tags += (("model", clip(name), *map(clip, slugs)) for name, slugs in models.items())
    tags += (("tool", clip(name), *map(clip, slugs)) for name, slugs in tools.items())
    return unsigned_event(project, at, PROJECT_STATUS, tags, "")


def _place(who: EphemeralPublisher) -> tuple[Tag, ...]:
    project: tuple[Tag, ...] = (("a", who.project),) if who.project else ()
    return (short_tag("e", *_root(who)), *project, *group_tags(who.address))


def _root(who: EphemeralPublisher) -> tuple[str, str]:
    """The root of the thread the answer goes to, with its relay: notes are answered where they were written."""
    return str(who.origin.get("root") or who.address["root"]), str(who.address.get("root_relay", ""))


def _phase(who: EphemeralPublisher) -> tuple[Tag, ...]:
    return (("phase", clip(who.phase)),) if who.phase else ()


def _newest(text: str) -> str:
    """The end of a text, where new text appears, as much as an event may hold."""
    room = MAX_TEXT_BYTES - len(_LEFT_OUT.encode())
    rest = text[-room:]  # a character is a byte at least
    while (size := len(json.dumps(rest, ensure_ascii=False).encode())) > room:
        rest = rest[len(rest) - len(rest) * room // size + 1 :]
    return rest if len(rest) == len(text) else _LEFT_OUT + rest
