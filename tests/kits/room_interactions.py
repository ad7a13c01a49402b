"""Prompts with buttons as Buzz's relay has them behind its switch: `docs/experimental-interactions.md` of block/buzz.

Left out: polls, forms, quorums, and the roles of the workspace. The texts of refusals are those of `interaction.rs`.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

Raw = dict[str, Any]

EXTENSION: Final = "buzz-interactions-v1"
PROMPT: Final = 40010
PRESS: Final = 40011
CLOSE: Final = 40012
STATE: Final = 39010
KINDS: Final = frozenset({PROMPT, PRESS, CLOSE})
DISABLED: Final = "restricted: experimental interactions are disabled"
LONGEST: Final = 30 * 24 * 3600
A_MINUTE: Final = 10
"""Prompts of a key."""

Publish = Callable[[int, Sequence[Sequence[str]], str, str], str]
"""Publishes an event of the relay: kind, tags, room, content; returns its id."""


class WrongInteraction(Exception):
    """Holds what the relay answers."""


@dataclass(slots=True, kw_only=True)
class Prompt:
    """A prompt and its state."""

    event: Raw
    options: dict[str, str]
    deadline: int
    projection: str = ""
    revision: int = 0
    closed: str = ""
    votes: dict[str, Raw] = field(default_factory=dict)


class Interactions:
    """The prompts of a relay."""

    def __init__(self, publish: Publish, is_member: Callable[[str, str], bool], now: Callable[[], float]) -> None:
        self._publish = publish
        self._is_member = is_member
        self._now = now
        self.prompts: dict[str, Prompt] = {}
        self.refuses = ""
        """What every prompt is answered with, in place of being taken."""

    def check(self, event: Raw, room: str) -> None:
        """Check an event before it is taken.

        Raises:
            WrongInteraction: the relay does not take it.
        """
        reserved = {"via", "actor", "interaction"}
        if any(tag[:1] == ["expiration"] for tag in event["tags"]) and event["kind"] in KINDS:
            raise WrongInteraction("invalid: use deadline on the prompt")
        if any(tag and tag[0] in reserved for tag in event["tags"]):
            raise WrongInteraction("invalid: relay provenance tags are reserved")
        match event["kind"]:
            case 40010:
                if self.refuses:
                    raise WrongInteraction(self.refuses)
                recent = [each for each in self.prompts.values() if each.event["pubkey"] == event["pubkey"]]
                if sum(each.event["created_at"] > self._now() - 60 for each in recent) >= A_MINUTE:
                    raise WrongInteraction("invalid: too many prompts")
                self._schema(event)
            case 40011:
                prompt = self._named(event, room)
                choices = [tag[1:] for tag in event["tags"] if tag[0] == "choice"]
                if len(choices) != 1 or len(choices[0]) != 1 or choices[0][0] not in prompt.options:
                    raise WrongInteraction("invalid: choice not in prompt")
                if prompt.closed or self._now() >= prompt.deadline:
                    raise WrongInteraction("invalid: prompt is closed")
                if not self._is_member(event["pubkey"], room):
                    raise WrongInteraction("restricted: not an eligible responder")
            case 40012:
                if self._named(event, room).event["pubkey"] != event["pubkey"]:
                    raise WrongInteraction("restricted: only the asker may close")

    def taken(self, event: Raw, room: str) -> None:
        """Do what follows from an event that was taken."""
        match event["kind"]:
            case 40010:
                self._begin(event, room)
            case 40011:
                self._vote(self._named(event, room), event, _first(event, "choice"), room)
            case 40012:
                prompt = self._named(event, room)
                if not prompt.closed:
                    self._close(prompt, "manual", room)
            case 9:
                self._fall_back(event, room)

    def _begin(self, event: Raw, room: str) -> None:
        options = {tag[1]: tag[2] for tag in event["tags"] if tag[0] == "opt"}
        prompt = Prompt(event=event, options=options, deadline=int(_first(event, "deadline")))
        self.prompts[event["id"]] = prompt
        lines = [f"• {id_} — {label}" for id_, label in options.items()]
        how = "Reply directly to this message with one option ID or label to answer."
        mark = f"Experimental interaction · channel-visible answers · prompt {event['id']}"
        tags = [tag for tag in event["tags"] if tag[0] in ("h", "e", "p")]
        tags += [["interaction", event["id"]], ["actor", event["pubkey"]]]
        prompt.projection = self._publish(9, tags, room, "\n".join([event["content"], "", *lines, how, mark]))
        self._publish_state(prompt, room)

    def _vote(self, prompt: Prompt, source: Raw, choice: str, room: str) -> None:
        prompt.votes[source["pubkey"]] = {**source, "choice": choice}
        prompt.revision += 1
        if _first(prompt.event, "closes") == "first":
            prompt.closed = "first"
        self._publish_state(prompt, room)

    def _fall_back(self, event: Raw, room: str) -> None:
        """Count a reply that is exactly an option; its author is who votes, and the relay signs the vote."""
        parents = [tag[1] for tag in event["tags"] if tag[0] == "e" and tag[3:4] == ["reply"]]
        for prompt in self.prompts.values():
            is_reply = not {prompt.event["id"], prompt.projection}.isdisjoint(parents)
            said = event["content"].strip().lower()
            chosen = [id_ for id_, label in prompt.options.items() if said in (id_.lower(), label.strip().lower())]
            if is_reply and len(chosen) == 1 and not prompt.closed and self._is_member(event["pubkey"], room):
                tags = [["h", room], ["e", prompt.event["id"], "", "prompt"], ["choice", chosen[0]]]
                self._publish(PRESS, [*tags, ["via", event["id"]], ["actor", event["pubkey"]]], room, "")
                self._vote(prompt, event, chosen[0], room)

    def _close(self, prompt: Prompt, reason: str, room: str) -> None:
        prompt.closed = reason
        prompt.revision += 1
        self._publish_state(prompt, room)

    def _publish_state(self, prompt: Prompt, room: str) -> None:
        tally = dict.fromkeys(prompt.options, 0)
        for vote in prompt.votes.values():
            tally[vote["choice"]] += 1
        leading = [id_ for id_, count in tally.items() if count and count == max(tally.values())]
        responders = [
            {"pubkey": key, "event_id": vote["id"], "created_at": vote["created_at"], "choices": [vote["choice"]]}
            for key, vote in prompt.votes.items()
        ]
        content = {
            "version": 1,
            "revision": prompt.revision,
            "status": "closed" if prompt.closed else "open",
            "close_reason": prompt.closed or None,
            "tally": tally,
            "winner": leading[0] if prompt.closed and len(leading) == 1 else None,
            "values": None,
            "responders": responders,
        }
        self._publish(STATE, [["d", prompt.event["id"]], ["h", room]], room, json.dumps(content))

    def _named(self, event: Raw, room: str) -> Prompt:
        named = [tag[1] for tag in event["tags"] if tag[0] == "e" and tag[3:4] == ["prompt"]]
        prompt = self.prompts.get(named[0]) if len(named) == 1 else None
        if prompt is None or _first(prompt.event, "h") != room:
            raise WrongInteraction("invalid: expected one e tag marked prompt")
        return prompt

    def _schema(self, event: Raw) -> None:
        options = [tag for tag in event["tags"] if tag[0] == "opt"]
        ids = [tag[1].lower() for tag in options]
        labels = [tag[2].strip().lower() for tag in options]
        faults = {
            "unsupported itype": _first(event, "itype") != "buttons",
            "expected a prompt with nonempty question text": not event["content"].strip(),
            "interaction exceeds content or tag limits": len(event["content"].encode()) > 16_384,
            "options/fields do not satisfy the interaction type limits": not 1 <= len(options) <= 8,
            "opt requires id, label, and optional style": any(
                not 3 <= len(tag) <= 4 or not tag[2].strip() or len(tag[2].encode()) > 256 for tag in options
            ),
            "option IDs and labels must be unique ignoring case": len(set(ids)) < len(ids)
            or len(set(labels)) < len(labels),
            "option label collides with another option ID": any(
                label in ids and ids[place] != label for place, label in enumerate(labels)
            ),
            "unknown option style": any(tag[3:] not in ([], ["default"], ["primary"], ["danger"]) for tag in options),
            "unsupported responder rule": _first(event, "responders") not in ("members", "listed"),
            "closes must be first, quorum:1..256, manual, or expiry": _first(event, "closes")
            not in ("first", "manual", "expiry"),
            "deadline must be in the next 30 days": not 0
            < int(_first(event, "deadline") or 0) - self._now()
            <= LONGEST,
            "invalid responder public key": any(len(tag[1]) != 64 for tag in event["tags"] if tag[0] == "p"),
        }
        for fault, is_so in faults.items():
            if is_so:
                raise WrongInteraction(f"invalid: {fault}")


def _first(event: Raw, name: str) -> str:
    return next((str(tag[1]) for tag in event["tags"] if tag[0] == name), "")
