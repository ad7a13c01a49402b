"""The steps by which records of older versions are read: each from one version of a kind to the next.

    ("TurnOpened", 1): lambda data: {**data, "reason": data["why"]}

A kind whose `version` is N has a step from each of 1 to N - 1; the codec is not made without them. A step takes the
`data` of a line as it was written, with the names of the file, and gives that of the next version. It may change what
it is given. What no step can know of old data gets the value that keeps the meaning of then.

A journal is never rewritten for a new version: old lines stay as they are, and new ones follow them.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

Migration = Callable[[dict[str, Any]], dict[str, Any]]
"""Turns the data of one version of a record into that of the next."""

CONVERSATION_STEPS: Final[Mapping[tuple[str, int], Migration]] = {}
"""Of a conversation's kinds. Every kind is at version 1."""

DAEMON_STEPS: Final[Mapping[tuple[str, int], Migration]] = {}
"""Of the daemon's own."""
