"""Files that go to users with messages: which ones a message takes, and what of them is in its text."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tenex.core.config import Role
from tenex.core.ids import PublicKey, RunId
from tenex.core.people.trust import room_of
from tenex.core.port_values import AttachedFile, FileDestination
from tenex.core.state import State

from .records import Purpose

WITHOUT_FILES: Final[tuple[Purpose, ...]] = ("announcement", "progress", "reminder")
"""What is said while the work goes on: files go with what comes of it."""

_BRACKETS: Final = re.compile(r"[\[\]\\]")
"""What would end the words of a link in Markdown."""


def destination(
    state: State, person: PublicKey | None, role: Role | None, speaker: PublicKey | None = None
) -> FileDestination:
    """Where a file goes that is sent now on behalf of a user."""
    return FileDestination(
        address=state.identity.address,
        reply_to=state.delivery.command_origin or state.delivery.origin,
        person=person,
        role=role,
        waiting=sum(map(len, state.delivery.attached.values())),
        speaker=speaker,
    )


def taken_along(state: State, run: RunId | None) -> tuple[AttachedFile, ...]:
    """The files that a message takes along: of the run that sends it, and of runs that have ended without a message."""
    return tuple(
        file
        for attached_by, files in state.delivery.attached.items()
        if attached_by == run or attached_by not in state.work.runs
        for file in files
    )


def words_with_files(text: str, files: Sequence[AttachedFile], address: Mapping[str, Any]) -> str:
    """The text of a message with what is read of its files: addresses, and words in place of those that were not sent.

    In direct messages a file has an event of its own. Where clients draw Markdown an address is a picture or a link.
    """
    parts = [text] if text.strip() else []
    for file in files:
        if not file.url:
            parts.append(file.instead)
        elif address.get("markdown"):
            words = " ".join(_BRACKETS.sub(r"\\\g<0>", _label(file)).split())
            mark = "!" if file.media_type.startswith("image/") else ""
            parts.append(f"{mark}[{words}]({file.url})")
        elif not room_of(address):
            parts.append(f"{_label(file)}\n{file.url}")
    return "\n\n".join(parts)


def _label(file: AttachedFile) -> str:
    """What a person reads above an address, which has a hash in place of the name; clients draw a picture there."""
    if not file.caption:
        return file.name
    if file.media_type.startswith("image/") or file.name in file.caption:
        return file.caption
    return f"{file.name}: {file.caption}"
