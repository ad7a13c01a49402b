"""Resolves ids from their first characters."""

from collections.abc import Iterable
from typing import Final

from tenex.core.errors import UsageError

NAMED: Final = 4
"""Candidates named where a beginning fits several: a line each in a terminal."""


def matching(start: str, known: Iterable[str], what: str) -> str | None:
    """The one of `known` that is `start`, else the only one that begins with it, else None.

    Raises:
        UsageError: several begin with it; `what` names their kind in the message, as "conversations".
    """
    found = sorted(name for name in known if name.startswith(start))
    if start in found or len(found) == 1:
        return start if start in found else found[0]
    if not found:
        return None
    named = ", ".join(found[:NAMED]) + (", ..." if len(found) > NAMED else "")
    raise UsageError(f"{len(found)} {what} begin with {start}; give more of it: {named}.")


def conversation_of(start: str, known: Iterable[str]) -> str:
    """The conversation whose id begins with `start`.

    Raises:
        UsageError: there is none, or there are several.
    """
    name = matching(start.strip().lower(), known, "conversations") if start.strip() else None
    if name is None:
        raise UsageError(f"No conversation begins with {start[:70]}. `tenex conversations list` shows them.")
    return name
