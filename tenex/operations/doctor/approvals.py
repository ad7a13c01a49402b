"""Kinds of calls that persons have always allowed: a rule could allow them, and save the questions."""

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from tenex.core.errors import ConfigurationError, StoreError
from tenex.core.ids import ConversationId
from tenex.core.records import ApprovalAnswered, Record
from tenex.operations.approvals import proposals
from tenex.runtime.clock import SystemClock
from tenex.store.disk import Disk
from tenex.store.opening import open_shared
from tenex.store.repository import ConversationFolder

from .findings import Case, Finding, warning

_ID: Final = re.compile(r"[0-9a-f]{64}")
_ANSWERED: Final = b'"type":"ApprovalAnswered"'


def approvals(case: Case) -> Iterator[Finding]:
    """Propose a rule for each kind of call that was asked about often and never refused."""
    journals = asyncio.run(_from_database(case) if case.settings.store else _from_files(case))
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


async def _from_files(case: Case) -> list[list[Record]]:
    root = case.paths.conversations
    names = [path.name for path in sorted(root.iterdir()) if _has_answers(path)] if root.is_dir() else []
    folder = ConversationFolder(root, Disk(), SystemClock())  # its threads end with the process
    return [(await folder.read_left(ConversationId(name)))[0] for name in names]


async def _from_database(case: Case) -> list[list[Record]]:
    journals: list[list[Record]] = []
    with suppress(StoreError, ConfigurationError):  # the checks `database` and `conversations` report it
        async with open_shared(case.settings.store, case.paths.conversations, Disk(), SystemClock()) as store:
            for name in await store.lengths():
                records = await store.read(name)
                if any(isinstance(record, ApprovalAnswered) for record in records):
                    journals.append(records)
    return journals


def _has_answers(path: Path) -> bool:
    """Whether persons have answered in a conversation; most journals need not be read for that."""
    if not _ID.fullmatch(path.name):
        return False
    return any(_ANSWERED in file.read_bytes() for file in path.glob("journal*.jsonl"))
