"""Questions with buttons in rooms of a relay that has Buzz's experiment `buzz-interactions-v1`.

    40010  prompt, by who asks: ["itype", "buttons"], ["opt", id, label, style], ["closes", "manual"], ["deadline", s]
    9      the prompt in words, by the relay itself: ["interaction", prompt], for clients without buttons
    40011  a press, by the person: ["e", prompt, "", "prompt"], ["choice", id]
    40012  the end, by who asked: ["e", prompt, "", "prompt"]
    39010  the state, by the relay: not read

A press is read from the person's own event and not from the state, because that is the relay's word: a relay could
allow a call in the name of an owner. The wire is that of `docs/experimental-interactions.md` of block/buzz.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from tenex.core.answers.pictures import NO_BUTTON, NUMBERS, YES_BUTTON
from tenex.core.ids import ConversationId, EventId
from tenex.core.port_values import Buttons
from tenex.core.ports import OutgoingMessage, UnsignedEvent
from tenex.core.signals import InboundMessage
from tenex.core.values import replace

from .events import Event, unsigned_event
from .threading import base
from .threading.base import Tag
from .threading.chats import CHAT

EXTENSION: Final = "buzz-interactions-v1"
"""What a relay's document (NIP-11) lists in `supported_extensions`."""
PROMPT: Final = 40010
PRESS: Final = 40011
CLOSE: Final = 40012
PROMPT_KINDS: Final = (PROMPT, CLOSE)
"""The kinds that we publish."""

MOST_BUTTONS: Final = 8
MOST_CONTENT: Final = 16_384
"""Bytes of a prompt's text."""
MOST_SHOWN: Final = 20_000
"""Characters of a prompt in the words of a relay that are kept: all of the prompt's own."""
MOST_LABEL: Final = 256
"""Bytes of a label."""

_IDS: Final[Mapping[str, str]] = {
    YES_BUTTON: "yes",
    NO_BUTTON: "no",
    **{picture: str(number) for number, picture in enumerate(NUMBERS, start=1)},
}
"""The id of each button, by the picture that a reaction of the same meaning has."""
_PICTURES: Final = {id_: picture for picture, id_ in _IDS.items()}
_STYLES: Final = {"yes": "primary", "no": "danger"}


def fits(draft: OutgoingMessage) -> bool:
    """Whether a relay takes a draft as a prompt with its buttons; a reply in words is then never ambiguous either."""
    buttons = draft.buttons.each if draft.buttons is not None else ()
    labels = [button.label.strip().lower() for button in buttons]
    ids = [_IDS.get(button.picture, "") for button in buttons]
    return (
        0 < len(labels) <= MOST_BUTTONS
        and bool(draft.text.strip())
        and len(draft.text.encode()) <= MOST_CONTENT
        and all(label and len(label.encode()) <= MOST_LABEL and label.isprintable() for label in labels)
        and len(set(labels)) == len(labels)
        and all(ids)
        and not any(label in ids and ids.index(label) != place for place, label in enumerate(labels))
    )


def prompt_tags(buttons: Buttons) -> tuple[Tag, ...]:
    """The tags of a prompt beside those of its place in the room.

    All members may press, since who may decide is looked at when somebody has; so the first press does not close it.
    """
    named = [(_IDS[button.picture], button.label.strip()) for button in buttons.each]
    options = (("opt", id_, label, _STYLES.get(id_, "default")) for id_, label in named)
    ends = (("responders", "members"), ("closes", "manual"), ("deadline", str(buttons.closes_at // 1000)))
    return (("itype", "buttons"), *options, *ends)


def closing(draft: OutgoingMessage, prompt: EventId) -> UnsignedEvent:
    """The event that ends the buttons of a prompt."""
    tags = (*base.group_tags(draft.address), ("e", str(prompt), "", "prompt"))
    return unsigned_event(draft.speaker, draft.created_at, CLOSE, tags, "")


def read_press(event: Event, own_keys: Collection[str], relay: str) -> InboundMessage | None:
    """Read a person's press as the reaction that means the same; None for any other event, and for our own keys."""
    if event.kind != PRESS or event.pubkey in own_keys or base.is_by_machine(event) or base.is_by_program(event):
        return None
    prompts = [tag[1] for tag in base.tags_named(event, "e") if base.element(tag, 3) == "prompt"]
    choices = [tag[1] for tag in base.tags_named(event, "choice")]
    if len(prompts) != 1 or not base.is_hex64(prompts[0]) or len(choices) != 1 or choices[0] not in _PICTURES:
        return None
    prompt = EventId(prompts[0])
    return InboundMessage(
        event_id=event.id,
        author=event.pubkey,
        text=_PICTURES[choices[0]],
        created_at=event.created_at,
        conversation=ConversationId(prompt),
        starts=False,
        references=(prompt,),
        reply_to=prompt,
        is_reaction=True,
        expires_at=base.expiration_of(event),
        origin={"relays": base.received_on(relay)},
    )


@dataclass(frozen=True, slots=True)
class ShownPrompt:
    """A prompt, and the words in which a relay shows it."""

    prompt: EventId
    text: str


def shown_prompt(event: Event) -> ShownPrompt | None:
    """The prompt that a message of a relay shows in words; None for every other message."""
    prompt = base.first_value(event, "interaction")
    is_shown = event.kind == CHAT and base.is_hex64(prompt)
    return ShownPrompt(EventId(prompt), event.content[:MOST_SHOWN]) if is_shown else None


def to_prompts(message: InboundMessage, shown: Mapping[str, ShownPrompt]) -> InboundMessage:
    """The message as a reply or a reaction to prompts, where it is one to the words that the relay has made of them."""
    if shown.keys().isdisjoint(message.references):
        return message
    references = tuple(shown[one].prompt if one in shown else one for one in message.references)
    answered = shown.get(message.reply_to) if message.reply_to is not None else None
    if answered is None:
        return replace(message, references=references)
    return replace(
        message,
        references=references,
        reply_to=answered.prompt,
        shown_in=message.reply_to,
        shown_as=answered.text,
        conversation=ConversationId(answered.prompt) if message.is_reaction else message.conversation,
    )
