"""Values that a server was given and that no one else is to read: it may print them when it fails, or in an answer."""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlsplit

from tenex.core.text.foreign import HIDDEN, redact

SHORTEST: Final = 8
"""Characters of a value that is hidden: a shorter one is in too many other words, and protects nothing."""
ORDINARY: Final = frozenset({"HOME", "LANG", "LOGNAME", "PATH", "PWD", "SHELL", "TERM", "TMPDIR", "TZ", "USER"})
"""Variables that hold no secret."""
PLAIN_HEADERS: Final = frozenset({"accept", "accept-language", "content-type", "user-agent"})

_LONG_PART: Final = 16
_SECRET_NAME: Final = re.compile(r"token|key|secret|pass|auth(?!or)|cred|cookie|session|bearer|dsn|pwd", re.IGNORECASE)
_BREAKS: Final = re.compile(r"[\s=&,;:\"'{}\[\]]+")


@dataclass(frozen=True)
class Hidden:
    """Takes values out of texts: all of them out of an error, the secrets among them out of what agents work with."""

    values: tuple[str, ...] = ()
    """The longest first."""
    secrets: tuple[str, ...] = ()
    """Of these the ones that come from our variables, are sent as headers, or are named like a secret."""

    def __repr__(self) -> str:
        return f"Hidden({len(self.values)} values)"

    @cached_property
    def longest(self) -> int:
        """Bytes of the longest value."""
        return max((len(value.encode("utf-8", "replace")) for value in self.values), default=0)

    def __call__(self, text: str) -> str:
        """The text of an error without any of the values, and without what looks like a key."""
        return redact(_without(text, self.values))

    def taken_out(self, text: str) -> str:
        """A result or a description without secrets."""
        return _without(text, self.secrets)

    def in_json(self, value: Any) -> Any:
        """A value that JSON can hold, without secrets."""
        match value:
            case str():
                return self.taken_out(value)
            case Mapping():
                return {self.taken_out(str(name)): self.in_json(part) for name, part in value.items()}
            case list() | tuple():
                return [self.in_json(part) for part in value]
        return value


def hidden_values(
    variables: Iterable[str], environment: Mapping[str, str], headers: Mapping[str, str], url: str
) -> Hidden:
    """What is hidden of a server: blocks for a moment.

    Args:
        variables: the values of our variables that its settings name.
        environment: the variables that it gets.
        headers: those of each request.
        url: its address.
    """
    shown = {name: value for name, value in environment.items() if name.upper() not in ORDINARY}
    secrets = [
        *variables,
        *(value for name, value in shown.items() if _SECRET_NAME.search(name)),
        *(value for name, value in headers.items() if name.lower() not in PLAIN_HEADERS),
        *_secrets_of_url(url),
    ]
    return Hidden(_forms([*secrets, *shown.values()]), _forms(secrets))


def _forms(values: Iterable[str]) -> tuple[str, ...]:
    """What is looked for in a text: the values and their parts, also as addresses and JSON have them."""
    parts = {part for value in values for part in _parts(value) if len(part) >= SHORTEST}
    forms = {form for part in parts for form in (part, quote(part, safe=""), json.dumps(part)[1:-1])}
    return tuple(sorted(forms, key=lambda form: (-len(form), form)))


def _without(text: str, values: Iterable[str]) -> str:
    for value in values:
        text = text.replace(value, HIDDEN)
    return text


def _parts(value: str) -> Iterator[str]:
    """A value and what of it may be printed alone: the words of a header, the keys in a list of them or in JSON."""
    if _is_public(value):
        return
    secrets = [*_secrets_of_url(value)]
    if secrets or _is_url(value):
        yield from secrets
        return
    yield value
    yield value.partition(" ")[2]  # after a scheme, such as Bearer
    yield from value.split()
    for part in _BREAKS.split(value):
        if len(part) >= _LONG_PART and any(character.isdigit() for character in part):
            yield part


def _is_public(value: str) -> bool:
    """Whether a value is a folder or a file, or some of them: results of tools are full of such."""
    places = value.split(os.pathsep)
    return all(place.startswith("/") and os.path.exists(place) for place in places)  # noqa: PTH110 - of any length


def _is_url(value: str) -> bool:
    return bool(re.match(r"[a-z][a-z0-9+.-]*://", value))


def _secrets_of_url(url: str) -> Iterator[str]:
    """The password and the values of the query in an address."""
    if not _is_url(url):
        return
    try:
        parts = urlsplit(url)
        if parts.password:
            yield parts.password
        yield from (value for _, value in parse_qsl(parts.query))
    except ValueError:
        yield url
