"""What an agent says in updates of its session, as events: read leniently, since each agent writes them otherwise.

An update of an unknown kind gives nothing; a field that has another shape than the protocol's counts as not sent.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from .session_events import CallSeen, Option, PlanSeen, Replay, TextPiece, UsageSeen

CALL_UPDATES: Final = ("tool_call", "tool_call_update")


class Calls:
    """The calls of a session, merged by id.

    `tool_call` and `tool_call_update` are the same here: agents send either first, and the first one twice.
    """

    def __init__(self) -> None:
        self._calls: dict[str, CallSeen] = {}
        self._left: set[str] = set()
        """Those that had not ended when their prompt did: no one waits for them."""

    def merge(self, update: Mapping[str, Any]) -> CallSeen | None:
        """Take what is said of a call, in an update or in a request; None where it names none."""
        id_ = _text(update, "toolCallId")
        if not id_:
            return None
        call = self._calls.get(id_, CallSeen(id=id_))
        locations = (*call.locations, *_locations(update), *_diffs(update))
        call = replace(
            call,
            kind=_text(update, "kind") or call.kind,
            title=_text(update, "title") or call.title,
            arguments={**call.arguments, **arguments_of(update)},
            locations=tuple(dict.fromkeys(locations)),
            status=_text(update, "status") or call.status,
            output=_output(update) or call.output,
        )
        self._calls[id_] = call
        return call

    def in_request(self, request: Mapping[str, Any]) -> CallSeen:
        """A call as a request for permission says it: its own words first, else what is known of the call.

        So two requests for the same thing are equal, whatever was known of the call by then.
        """
        known = self._calls.get(_text(request, "toolCallId"), CallSeen(id=_text(request, "toolCallId")))
        return replace(
            known,
            kind=_text(request, "kind") or known.kind,
            title=_text(request, "title") or known.title,
            arguments=arguments_of(request) or known.arguments,
        )

    def __getitem__(self, id_: str) -> CallSeen:
        return self._calls[id_]

    @property
    def all(self) -> tuple[CallSeen, ...]:
        """In the order in which they began."""
        return tuple(self._calls.values())

    @property
    def has_open(self) -> bool:
        """Whether one of this prompt has not ended."""
        return any(not call.has_ended and id_ not in self._left for id_, call in self._calls.items())

    def leave_open(self) -> None:
        """The prompt has ended: none that is open counts from now on."""
        self._left.update(id_ for id_, call in self._calls.items() if not call.has_ended)


class Replaying:
    """Collects the past of a session while it is loaded."""

    def __init__(self) -> None:
        self._calls = Calls()
        self._pieces: list[tuple[str, list[str]]] = []
        self.is_empty = True

    def take(self, update: Mapping[str, Any]) -> None:
        """Take one update."""
        kind = _text(update, "sessionUpdate")
        if kind in CALL_UPDATES:
            self._calls.merge(update)
            self._pieces.append(("call", []))
        elif kind in ("user_message_chunk", "agent_message_chunk"):
            if not self._pieces or self._pieces[-1][0] != kind:
                self._pieces.append((kind, []))
            self._pieces[-1][1].append(content_text(update.get("content")))
        else:
            return
        self.is_empty = False

    @property
    def replay(self) -> Replay:
        """What was shown so far."""
        return Replay(
            prompts=self._of("user_message_chunk"), texts=self._of("agent_message_chunk"), calls=self._calls.all
        )

    def _of(self, wanted: str) -> tuple[str, ...]:
        return tuple("".join(pieces) for kind, pieces in self._pieces if kind == wanted)


def event_of(update: Mapping[str, Any]) -> TextPiece | PlanSeen | UsageSeen | None:
    """What an update says beside calls and settings; None where nothing is made of it."""
    match _text(update, "sessionUpdate"):
        case "agent_message_chunk" | "agent_thought_chunk" as kind:
            text = content_text(update.get("content"))
            return TextPiece(text=text, is_thought=kind == "agent_thought_chunk") if text else None
        case "plan":
            entries = _objects(update.get("entries"))
            return PlanSeen(entries=tuple((_text(entry, "content"), _text(entry, "status")) for entry in entries))
        case "usage_update":
            cost = update.get("cost")
            amount = cost.get("amount") if isinstance(cost, dict) else None
            return UsageSeen(
                used=_number(update.get("used")),
                size=_number(update.get("size")),
                cost=float(amount) if isinstance(amount, int | float) else None,
                currency=_text(cost, "currency") if isinstance(cost, dict) else "",
            )
        case _:
            return None


def options_of(request: Mapping[str, Any]) -> tuple[Option, ...]:
    """The answers that a request for permission offers."""
    return tuple(
        Option(id=_text(option, "optionId"), name=_text(option, "name"), kind=_text(option, "kind"))
        for option in _objects(request.get("options"))
        if _text(option, "optionId")
    )


def usage_of(answer: Mapping[str, Any]) -> dict[str, int]:
    """The numbers in the answer to a prompt."""
    usage = answer.get("usage")
    if not isinstance(usage, dict):
        return {}
    return {name: value for name, value in usage.items() if isinstance(value, int) and not isinstance(value, bool)}


def differences(replay: Replay, calls: Mapping[str, str]) -> tuple[str, ...]:
    """How the past that an agent has shown differs from the calls of the journal, by id and status: a sentence each.

    A replay decides nothing: it is what the agent remembers, and agents leave calls out or show them as open for ever.
    """
    shown = {call.id: call for call in replay.calls}
    missing = [f"Call {id_} is missing in the agent's history." for id_ in calls if id_ not in shown]
    differing = [
        f"Call {id_} is {shown[id_].status} in the agent's history, and {status} in the journal."
        for id_, status in calls.items()
        if id_ in shown and shown[id_].status != status
    ]
    added = [
        f"Call {id_} ({call.title[:60]}) is in the agent's history alone."
        for id_, call in shown.items()
        if id_ not in calls
    ]
    return (*missing, *differing, *added)


def content_text(content: object) -> str:
    """The words of a block of content; what is no text is named."""
    if not isinstance(content, dict):
        return ""
    match content.get("type"):
        case "text":
            return _text(content, "text")
        case "resource_link":
            return _text(content, "uri")
        case "resource":
            resource = content.get("resource")
            return _text(resource, "text") if isinstance(resource, dict) else ""
        case str() as kind if kind:
            return f"[{kind}]"
        case _:
            return ""


def arguments_of(update: Mapping[str, Any]) -> dict[str, Any]:
    """What is said of a call's arguments; agents send some of them first, and the others later."""
    raw = update.get("rawInput")
    if isinstance(raw, dict):
        return raw
    return {} if raw is None or raw == "" else {"value": raw}


def _locations(update: Mapping[str, Any]) -> Iterator[str]:
    for location in _objects(update.get("locations")):
        path = _text(location, "path")
        if path:
            yield path


def _diffs(update: Mapping[str, Any]) -> Iterator[str]:
    for part in _objects(update.get("content")):
        path = _text(part, "path") if part.get("type") == "diff" else ""
        if path:
            yield path


def _output(update: Mapping[str, Any]) -> str:
    parts = [
        content_text(part.get("content")) for part in _objects(update.get("content")) if part.get("type") == "content"
    ]
    text = "\n".join(part for part in parts if part)
    raw = update.get("rawOutput")
    if text or raw is None:
        return text
    return raw if isinstance(raw, str) else json.dumps(raw, ensure_ascii=False)


def _objects(value: object) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _text(value: Mapping[str, Any], name: str) -> str:
    text = value.get(name)
    return text if isinstance(text, str) else ""


def _number(value: object) -> int:
    return int(value) if isinstance(value, int | float) else 0
