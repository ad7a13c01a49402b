"""Kinds of calls that persons have always allowed: a rule could allow them, and save the questions."""

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from tenex.core.errors import ConfigurationError, StoreError
from tenex.core.records import ApprovalAnswered, Record
from tenex.operations.doctor.findings import Case, Finding, warning
from tenex.runtime.clock import SystemClock
from tenex.store import segments
from tenex.store.conversations import is_id
from tenex.store.disk import Disk
from tenex.store.format import CONVERSATION, as_written
from tenex.store.opening import open_shared

from .requests import proposals

_WANTED: Final = re.compile(
    rb'\{"v":\d+,"seq":\d+,"remaining":\d+,"at":-?\d+,"type":"(ApprovalRequested|ApprovalAnswered|ConversationImported)"'
)
"""How the lines begin of the records that `proposals` reads."""


def approvals(case: Case) -> Iterator[Finding]:
    """Propose a rule for each kind of call that was asked about often and never refused."""
    journals = asyncio.run(_from_database(case)) if case.settings.store else _from_files(case)
    rules = [rule for rule in case.settings.approve if rule.decision == "allow"]
    allowed = {(rule.tool, tuple(rule.match), frozenset(rule.needs)) for rule in rules}
    for proposal in proposals(journals):
        if (proposal.tool, proposal.words, frozenset(proposal.needs)) in allowed:
            continue
        what = " ".join([proposal.tool, *proposal.words])
        match = f", match = {json.dumps(list(proposal.words))}" if proposal.words else ""
        needs = f", needs = {json.dumps(list(proposal.needs))}" if proposal.needs else ""
        yield warning(
            f"`{what}` was allowed {proposal.answers} times and never refused",
            "approve",
            f'to be asked no more, add {{ tool = "{proposal.tool}"{match}{needs}, decision = "allow" }} to `approve`',
        )


def _from_files(case: Case) -> list[list[Record]]:
    root = case.paths.conversations
    folders = [path for path in sorted(root.iterdir()) if is_id(path.name)] if root.is_dir() else []
    return [records for records in map(_approvals_in, folders) if records]


async def _from_database(case: Case) -> list[list[Record]]:
    journals: list[list[Record]] = []
    with suppress(StoreError, ConfigurationError):  # the checks `database` and `conversations` report it
        async with open_shared(case.settings.store, case.paths.conversations, Disk(), SystemClock()) as store:
            for name in await store.lengths():
                records = await store.read(name)
                if any(isinstance(record, ApprovalAnswered) for record in records):
                    journals.append(records)
    return journals


def _approvals_in(folder: Path) -> list[Record]:
    """The records of a conversation that proposals are made of; no other one is decoded."""
    numbers = segments.numbers(folder)
    files = (as_written((folder / segments.name_of(number)).read_bytes()) for number in numbers)
    lines = [line for data in files for line in data.split(b"\n") if _WANTED.match(line)]
    return list(CONVERSATION.decode_intact(b"\n".join(lines)))
