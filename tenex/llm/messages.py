"""Turns a request of ours into the messages of pydantic-ai, the same bytes for the same entries each time.

A step becomes an answer of the model. All that lies between two steps becomes one message: first the results of the
calls, in the order of the calls, then the words of people, agents and the daemon. What others said stands between
marks that say who said it, and nothing in it can close them or pass for one of them.

Never: leave a call without a result, or give one vendor's opaque parts to another.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Final, assert_never

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from tenex.core.ids import CallId
from tenex.core.steps import AgentText, CallRequest, CallResult, Entry, ModelStep, Note, PersonText

from .opaque import restored

UNANSWERED: Final = "no result: this was not run"
"""For a call without a result, so that no vendor rejects the whole conversation."""

NOTHING: Final = "Go on."
"""Where a conversation would begin or end with the model's own words, which several vendors reject."""

NAME_CHARACTERS: Final = 120
"""Of a name in a mark: names are chosen by strangers."""

_PLAIN_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""The ids of calls that every vendor takes; some servers write others, such as `functions.read_file:0`."""


@dataclass(slots=True)
class _Between:
    """What lies between two steps."""

    calls: tuple[CallRequest, ...] = ()
    results: list[CallResult] = field(default_factory=list)
    words: list[str] = field(default_factory=list)


def messages(entries: Sequence[Entry], maker: str, *, marks_failures: bool) -> list[ModelMessage]:
    """The entries as messages.

    `maker` names the kind of model that is asked; only steps it made get their opaque parts back. `marks_failures`
    says that its protocol has a flag for a failed call, which then carries what `ok` says; such protocols take only
    plain ids of calls, so others are given plain ones.
    """
    made: list[ModelMessage] = []
    between = _Between()
    for entry in map(_plain, entries) if marks_failures else entries:
        match entry:
            case ModelStep():
                _close(made, between, marks_failures)
                parts = restored(entry, maker) or _neutral(entry)
                if parts:
                    made.append(ModelResponse(parts=parts) if isinstance(parts, list) else parts)
                between = _Between(calls=entry.calls)
            case CallResult():
                between.results.append(entry)
            case PersonText() | AgentText() | Note():
                between.words.append(marked(entry))
            case _:
                assert_never(entry)
    _close(made, between, marks_failures)
    if not made or isinstance(made[-1], ModelResponse):
        made.append(ModelRequest(parts=[UserPromptPart(NOTHING)]))
    return made


def _close(made: list[ModelMessage], between: _Between, marks_failures: bool) -> None:
    parts: list[ToolReturnPart | UserPromptPart] = [
        ToolReturnPart(
            tool_name=call.tool, content=content, tool_call_id=call.id,
            outcome="failed" if marks_failures and not ok else "success",
        )
        for call, content, ok in _paired(between)
    ]  # fmt: skip
    words = [*_orphans(between), *between.words]
    if words:
        parts.append(UserPromptPart("\n\n".join(words)))
    if not parts and not made:
        parts.append(UserPromptPart(NOTHING))
    if parts:
        made.append(ModelRequest(parts=parts))


def _paired(between: _Between) -> Iterable[tuple[CallRequest, str, bool]]:
    by_id = {result.id: result for result in between.results}
    for call in between.calls:
        result = by_id.get(call.id)
        yield (call, result.content, result.ok) if result else (call, UNANSWERED, False)


def _orphans(between: _Between) -> list[str]:
    """Results without their call, told as words: a vendor takes a result only after its call."""
    known = {call.id for call in between.calls}
    return [marked(Note(title=f"Result of {r.tool}", text=r.content)) for r in between.results if r.id not in known]


def _neutral(step: ModelStep) -> list[ModelResponsePart]:
    """A step in the form every vendor takes."""
    parts: list[ModelResponsePart] = [TextPart(step.text)] if step.text else []
    parts.extend(
        ToolCallPart(tool_name=call.tool, args=dict(call.arguments), tool_call_id=call.id) for call in step.calls
    )
    return parts


def marked(entry: PersonText | AgentText | Note) -> str:
    """Words between marks that say whose they are; the words themselves are not changed."""
    match entry:
        case Note(title=title):
            tag, whose = _tag("note", entry.text), f'title="{_name(title)}"'
        case PersonText(author=author):
            tag, whose = _tag("message", entry.text), f'from="{_name(author)}" kind="person"'
        case AgentText(author=author):
            tag, whose = _tag("message", entry.text), f'from="{_name(author)}" kind="agent"'
        case _:
            assert_never(entry)
    return f"<{tag} {whose}>\n{entry.text}\n</{tag}>"


def _tag(name: str, text: str) -> str:
    """A tag that does not stand in the text: the name, or the name with the first free number after it."""
    tag, number, words = name, 1, text.lower()
    while f"<{tag}" in words or f"</{tag}" in words:
        number += 1
        tag = f"{name}-{number}"
    return tag


def _plain(entry: Entry) -> Entry:
    """The entry with ids of calls that every vendor takes."""
    match entry:
        case ModelStep(calls=calls) if any(not _PLAIN_ID.fullmatch(call.id) for call in calls):
            return replace(entry, calls=tuple(replace(call, id=_plain_id(call.id)) for call in calls))
        case CallResult():
            return replace(entry, id=_plain_id(entry.id))
    return entry


def _plain_id(call: CallId) -> CallId:
    """The id, or one made of its digest where it is none that every vendor takes."""
    if _PLAIN_ID.fullmatch(call):
        return call
    return CallId(f"call_{sha256(call.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}")


def _name(name: str) -> str:
    """A name that stays within its quotation marks."""
    flat = " ".join(name.split())[:NAME_CHARACTERS]
    return flat.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")
