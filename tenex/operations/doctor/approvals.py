"""Kinds of calls that persons have always allowed: a rule could allow them, and save the questions."""

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tenex.core.ids import ConversationId
from tenex.core.records import Record
from tenex.operations.approvals import proposals
from tenex.runtime.clock import SystemClock
from tenex.store.disk import Disk
from tenex.store.repository import ConversationFolder

from .findings import Case, Finding, warning

_ID: Final = re.compile(r"[0-9a-f]{64}")
_ANSWERED: Final = b'"type":"ApprovalAnswered"'


def approvals(case: Case) -> Iterator[Finding]:
    """Propose a rule for each kind of call that was asked about often and never refused."""
    root = case.paths.conversations
    names = [path.name for path in sorted(root.iterdir()) if _has_answers(path)] if root.is_dir() else []
    if not names:
        return
    disk = Disk()  # its threads end with the process
    folder = ConversationFolder(root, disk, SystemClock())

    async def read() -> list[list[Record]]:
        return [(await folder.read_left(ConversationId(name)))[0] for name in names]

    allowed = {(rule.tool, tuple(rule.match)) for rule in case.settings.approve if rule.decision == "allow"}
    for proposal in proposals(asyncio.run(read())):
        if (proposal.tool, proposal.words) in allowed:
            continue
        what = " ".join([proposal.tool, *proposal.words])
        match = f", match = {json.dumps(list(proposal.words))}" if proposal.words else ""
        yield warning(
            f"`{what}` was allowed {proposal.answers} times and never refused",
            "approve",
            f'to be asked no more, add {{ tool = "{proposal.tool}"{match}, decision = "allow" }} to `approve`',
        )


def _has_answers(path: Path) -> bool:
    """Whether persons have answered in a conversation; most journals need not be read for that."""
    if not _ID.fullmatch(path.name):
        return False
    return any(_ANSWERED in file.read_bytes() for file in path.glob("journal*.jsonl"))
