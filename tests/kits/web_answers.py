"""Answers given on a page, to conversations in each form of the wire."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from tenex.cli.init import prepare
from tenex.core.delivery.records import MessageSent
from tenex.core.identity.records import ConversationStarted
from tests.cli.journals import TWO, changed, renamed
from tests.fakes.scenario import Scenario
from tests.web.kit import Served, asking, rewrite

ROOT = {"root": TWO, "root_author": "a" * 64, "root_relay": ""}
SCOPE = [["E", TWO, "", "a" * 64], ["K", "11"], ["P", "a" * 64]]
ADDRESSES = {
    "notes": {"form": "notes", "root_kind": 1, **ROOT},
    "comments": {"form": "comments", "root_kind": 1, **ROOT},
    "threads": {"form": "threads", "root_kind": 11, "scope": SCOPE, **ROOT},
}
KINDS = {"notes": 1, "comments": 1111, "threads": 1111}


async def written(data: Path, relay: str, form: str = "notes", scenario: Scenario | None = None) -> Scenario:
    """A data folder with a conversation that waits for an answer; its messages are at the relay's address."""
    prepare(data, None, [relay])
    scenario = scenario or asking()
    address = {**ADDRESSES[form], "relays": [relay]}
    decisions = changed(renamed(TWO, scenario.journal), ConversationStarted, address=address)
    decisions = changed(decisions, MessageSent, relays=(relay,))
    await rewrite(data, {TWO: [tuple(map(_in_form(form), decision)) for decision in decisions]})
    return scenario


def _in_form(form: str) -> Any:
    """The events of our messages, as this form writes them."""
    tags = {
        "notes": (("e", TWO, "", "root"), ("p", "a" * 64)),
        "comments": (("E", TWO, "", "a" * 64), ("K", "1"), ("P", "a" * 64), ("e", TWO), ("k", "1"), ("p", "a" * 64)),
        "threads": (*map(tuple, SCOPE), ("e", TWO), ("k", "11"), ("p", "a" * 64)),
    }[form]

    def formed(record: Any) -> Any:
        if not isinstance(record, MessageSent):
            return record
        events = tuple(replace(event, kind=KINDS[form], tags=tags) for event in record.events)
        return replace(record, events=events)

    return formed


async def answer(pages: Served, text: str = "Green & <b>") -> Any:
    action = f"/c/{TWO}/reply/{question_seq()}"
    return await pages.post(action, {**await pages.form("/", action), "text": text})


def question_seq() -> int:
    return next(int(record.seq) for record in asking().records(MessageSent) if record.purpose == "question")
