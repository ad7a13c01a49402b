"""Converts a request to the messages of pydantic-ai, the same bytes for the same entries each time.

A step becomes an answer of the model. Everything between two steps becomes one message: first the results of the
calls, in the order of the calls, then the texts of users, agents and the daemon. Texts of others are enclosed
in tags that name the author, and no text can close or imitate them.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import chain
from types import MappingProxyType
from typing import Final, Literal, assert_never

from pydantic_ai.messages import (
    BinaryContent,
    CachePoint,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)

from tenex.core.ids import CallId, PublicKey
from tenex.core.inbox.images import addresses_in, is_picture_address
from tenex.core.messages import AgentText, CallRequest, CallResult, Entry, ModelStep, Note, Picture, UserText
from tenex.core.text.names import is_placeholder, short_key

from .provider_parts import restored

UNANSWERED: Final = "no result: this was not run"
"""For a call without a result, so that no vendor rejects the whole conversation."""

NOTHING: Final = "Go on."
"""Used if a conversation would begin or end with the model's own text, which several vendors reject."""

NAME_CHARACTERS: Final = 120
"""Of a name in a tag: anyone chooses their own name."""

PICTURES: Final = 8
"""In one request: each costs as much as some pages of text, in every request again."""

PICTURE_BYTES: Final = 15 * 1024 * 1024
"""Of all pictures in a request, which are a third larger there; Anthropic takes 32 MB."""

NOT_THERE: Final = "it was not loaded, or is not kept any more"
"""Why a picture is not shown that a text names."""

NOTED: Final = "Noted."
"""The model's text between results and other texts, where a template wants an answer after results."""

_PLAIN_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")
"""Ids of calls that all providers but Mistral take, OpenAI at most 40 characters; Kimi writes `functions.write:0`."""

_STRICT_ID = re.compile(r"[A-Za-z0-9]{9}")
"""Ids of calls that Mistral's API and chat templates take."""

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
"""Names of tools that every provider takes (Gemini: a letter or underscore first); a model may call any name."""


@dataclass(slots=True)
class _Between:
    """What lies between two steps."""

    calls: tuple[CallRequest, ...] = ()
    results: list[CallResult] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    pictures: dict[str, Picture | str] = field(default_factory=dict)
    """By address, of the users' texts among these words, or why they are not shown."""
    said: int = 0
    """How many of these words come up to the last message; notes follow."""


def messages(
    entries: Sequence[Entry],
    maker: str,
    *,
    marks_failures: bool,
    is_strict: bool = False,
    marks_cache: bool = False,
    pictures: Mapping[str, Picture | str] = MappingProxyType({}),
) -> list[ModelMessage]:
    """The entries as messages.

    `maker` names the kind of model that is asked; only steps it made get their provider parts back. `marks_failures`
    is set where the protocol has a flag for a failed call, which then carries `ok`. `is_strict` keeps to the
    rules of Mistral: ids of nine letters and digits, and an answer of the model between results and a user's text.
    `marks_cache` is for Anthropic, which caches blocks: each message of the conversation is one, and the last is
    marked, since the notes after it differ in the agent's next run.
    `pictures` are shown behind the texts that hold their addresses; of the others it is said there why they are not.
    """
    made: list[ModelMessage] = []
    between = _Between()
    for entry in (_plain(entry, _STRICT_ID if is_strict else _PLAIN_ID) for entry in entries):
        match entry:
            case ModelStep(text=text, calls=calls) if not text.strip() and not calls:
                continue  # no provider takes an empty answer
            case ModelStep():
                _close(made, between, marks_failures, is_strict)
                made.append(_answer(entry, maker))
                between = _Between(calls=entry.calls)
            case CallResult():
                between.results.append(entry)
            case UserText() | AgentText() | Note():
                between.words.append(marked(entry))
                if pictures and isinstance(entry, UserText):
                    named = (address for address in addresses_in(entry.text) if address in pictures)
                    between.pictures |= {address: pictures[address] for address in named}
                if marks_cache and not made and not isinstance(entry, Note):
                    between.said = len(between.words)
            case _:
                assert_never(entry)
    _close(made, between, marks_failures, is_strict)
    return made


def _close(made: list[ModelMessage], between: _Between, marks_failures: bool, is_strict: bool) -> None:
    """Put what lies between two steps into one message, which is never empty."""
    by_id = {result.id: result for result in between.results}
    parts: list[ToolReturnPart | UserPromptPart] = []
    for call in between.calls:
        result = by_id.get(call.id) or CallResult(id=call.id, tool=call.tool, ok=False, content=UNANSWERED)
        outcome: Literal["failed", "success"] = "failed" if marks_failures and not result.ok else "success"
        parts.append(ToolReturnPart(tool_name=call.tool, content=result.content, tool_call_id=call.id, outcome=outcome))
    # a vendor takes a result only after its call: one without it becomes text
    known = {call.id for call in between.calls}
    orphans = [Note(title=f"Result of {r.tool}", text=r.content) for r in between.results if r.id not in known]
    words = [*map(marked, orphans), *between.words]
    if parts and words and is_strict:
        made += [ModelRequest(parts=parts), ModelResponse(parts=[TextPart(NOTED)])]
        parts = []
    notes = between.words[between.said :]
    shown = _shown(between.pictures)
    if between.said and notes:
        parts.append(UserPromptPart([*words[: -len(notes)], *shown, CachePoint(), "\n\n".join(notes)]))
    elif shown:
        parts.append(UserPromptPart(["\n\n".join(words), *shown]))
    elif words or not parts:
        parts.append(UserPromptPart("\n\n".join(words) or NOTHING))
    made.append(ModelRequest(parts=parts))


def pictures_of(
    entries: Sequence[Entry], picture: Callable[[str], Picture | None], has_picture: Callable[[str], bool]
) -> dict[str, Picture | str]:
    """The pictures that users' texts name, by address: the newest, as many as a request may hold; else why not. Blocks.

    `has_picture` is whether one was loaded; a text names others by their ending alone.
    """
    chosen: dict[str, Picture | str] = {}
    count = 0
    room = PICTURE_BYTES
    for address in _named_pictures(entries, has_picture):
        if not has_picture(address):
            chosen[address] = NOT_THERE
            continue
        if count == PICTURES:
            chosen[address] = f"a request holds the newest {PICTURES}"
            continue
        shown = picture(address)
        if shown is None:
            chosen[address] = NOT_THERE
        elif len(shown.data) > room:
            chosen[address] = "the newer ones in this request are too large for more"
        else:
            chosen[address] = shown
            count += 1
            room -= len(shown.data)
    return chosen


def unseen_pictures(entries: Sequence[Entry], has_picture: Callable[[str], bool], why: str) -> dict[str, Picture | str]:
    """The pictures that users' texts name, by address, for a model that is shown none of them; blocks."""
    named = _named_pictures(entries, has_picture)
    return {address: why if has_picture(address) else NOT_THERE for address in named}


def _named_pictures(entries: Sequence[Entry], has_picture: Callable[[str], bool]) -> Iterator[str]:
    """The addresses of pictures in users' texts, each once, those of the newest text first."""
    texts = (entry.text for entry in reversed(entries) if isinstance(entry, UserText))
    addresses = dict.fromkeys(chain.from_iterable(map(addresses_in, texts)))
    private = {address.partition("#")[0] for address in addresses if "#" in address and has_picture(address)}
    named = (address for address in addresses if address not in private)  # those are shown by their longer address
    return (address for address in named if is_picture_address(address) or has_picture(address))


def _shown(pictures: Mapping[str, Picture | str]) -> list[UserContent]:
    """The pictures, each behind its address; and before them which are not shown, so that no model makes them up."""
    parts: list[UserContent] = []
    unseen = [f"{address} ({why})" for address, why in pictures.items() if isinstance(why, str)]
    if unseen:
        parts.append(f"Not shown to you, so do not guess what is on it: {'; '.join(unseen)}.")
    for address, picture in pictures.items():
        if isinstance(picture, Picture):
            parts += [f"The picture at {address}:", BinaryContent(picture.data, media_type=picture.media_type)]
    return parts


def _answer(step: ModelStep, maker: str) -> ModelResponse:
    answer = restored(step, maker)
    if answer is None:  # the form that every vendor takes
        calls = [ToolCallPart(call.tool, dict(call.arguments), tool_call_id=call.id) for call in step.calls]
        answer = ModelResponse(parts=[TextPart(step.text), *calls])
    parts = [part for part in answer.parts if not isinstance(part, TextPart) or part.content.strip()]
    return replace(answer, parts=parts)


def marked(entry: UserText | AgentText | Note) -> str:
    """A text between marks that name its author; the text itself is unchanged."""
    match entry:
        case Note(title=title):
            tag = _tag("note", entry.text)
            whose = f'title="{_name(title)}"'
        case UserText(author=author, role=role, key=key):
            named = "" if is_placeholder(author) else f'from="{_name(author)}" '  # an agent would greet them by it
            known = f'role="{_name(role)}" ' if role else ""
            known += f'key="{short}" ' if (short := short_key(PublicKey(key))) else ""
            tag = _tag("message", entry.text)
            whose = f'{named}{known}kind="person"'
        case AgentText(author=author):
            tag = _tag("message", entry.text)
            whose = f'from="{_name(author)}" kind="agent"'
        case _:
            assert_never(entry)
    return f"<{tag} {whose}>\n{entry.text}\n</{tag}>"


def _tag(name: str, text: str) -> str:
    """A tag that does not occur in the text: the name, or the name with the first free number after it."""
    tag = name
    number = 1
    words = text.lower()
    while f"<{tag}" in words or f"</{tag}" in words:
        number += 1
        tag = f"{name}-{number}"
    return tag


def _plain(entry: Entry, ids: re.Pattern[str]) -> Entry:
    """The entry with ids and names of calls that the provider takes."""
    match entry:
        case ModelStep(calls=calls):
            plain = (replace(call, id=_plain_id(call.id, ids), tool=_plain_name(call.tool)) for call in calls)
            return replace(entry, calls=tuple(plain))
        case CallResult():
            return replace(entry, id=_plain_id(entry.id, ids))
    return entry


def _plain_id(call: CallId, ids: re.Pattern[str]) -> CallId:
    """The id, or nine digits of its digest, which all providers take."""
    if ids.fullmatch(call):
        return call
    return CallId(sha256(call.encode("utf-8", "surrogatepass")).hexdigest()[:9])


def _plain_name(tool: str) -> str:
    """The name, or the nearest one that every provider takes."""
    if _PLAIN_NAME.fullmatch(tool):
        return tool
    return f"_{re.sub(r'[^A-Za-z0-9_-]+', '_', tool)}"[:64]


def _name(name: str) -> str:
    """A name that stays within its quotation marks."""
    flat = " ".join(name.split())[:NAME_CHARACTERS]
    return flat.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")
