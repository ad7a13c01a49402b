"""Names for the strings and numbers that identify things."""

from typing import NewType

ConversationId = NewType("ConversationId", str)
"""64 lower-case hex digits: an event id, or the sha256 of what identifies the conversation."""

EventId = NewType("EventId", str)
"""64 lower-case hex digits (NIP-01)."""

PublicKey = NewType("PublicKey", str)
"""64 lower-case hex digits, x-only (BIP-340)."""

Slug = NewType("Slug", str)
"""An agent's name in kebab-case, unique in the roster."""

RunId = NewType("RunId", str)
"""`<turn id>.<slug>`: one agent's work in one turn; `<turn id>/<seq>.<slug>` where another called it there."""

CallId = NewType("CallId", str)
"""A tool call's id, unique within its run."""

TurnId = NewType("TurnId", str)
"""`turn-<n>`, counted from 1 in each conversation."""

Millis = NewType("Millis", int)
"""Milliseconds since 1970-01-01T00:00:00Z."""
