"""A long conversation, and the same with hostile text in each field that others fill."""

import dataclasses
from collections.abc import Iterator
from functools import cache
from typing import Any

from tenex.core.ids import ConversationId
from tenex.core.messages import ModelStep
from tenex.core.records import Record
from tenex.core.values import replace
from tests.cli.journals import renamed
from tests.kits.lived import lived

FOREIGN = """
    text title name agent_name reason summary message sentence content answer error question by argument detail
    model
"""
"""Fields of records that others fill, or models."""


def poisoned(record: Record, text: str) -> Record:
    """A record in which every text of others is this one."""
    fields: dict[str, Any] = {name: text for name in FOREIGN.split() if isinstance(getattr(record, name, None), str)}
    if hasattr(record, "model"):
        fields["model"] = text
    if getattr(record, "touched", None):
        fields["touched"] = (text,)
    step = getattr(record, "step", None)
    if isinstance(step, ModelStep):
        calls = tuple(replace(call, arguments=dict.fromkeys((*call.arguments, text), text)) for call in step.calls)
        fields["step"] = replace(step, text=text, thinking=text, model=text, calls=calls)
    return dataclasses.replace(record, **{name: value for name, value in fields.items() if hasattr(record, name)})


@cache
def harmless() -> tuple[tuple[Record, ...], ...]:
    """Some of the longest conversation: all kinds of records, as few of each as there are."""
    counts: dict[type, int] = {}
    decisions = [*lived(0).journal]
    for decision in decisions:
        for record in decision:
            counts[type(record)] = counts.get(type(record), 0) + 1
    assert len(counts) > 15
    return tuple(decisions)


def poisoned_all(name: ConversationId, decisions: Any, texts: Iterator[str]) -> Any:
    """Each record with the next text."""
    return renamed(name, [tuple(poisoned(record, next(texts)) for record in decision) for decision in decisions])
