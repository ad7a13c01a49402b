"""Documents name what the code has: pages, kinds of events, limits and sections of the settings."""

import re
from collections.abc import Collection
from dataclasses import fields
from fnmatch import fnmatchcase
from typing import Final

import pytest

from tenex.core.config import Expectation, Limits
from tenex.core.phases import Phase
from tenex.nostr.client_requests import AGENT_CHANGE, STOP_REQUEST
from tenex.nostr.deletions import DELETION
from tenex.nostr.ephemeral import (
    OPERATIONS,
    PROJECT_STATUS,
    TEXT_SINCE,
    TEXT_SO_FAR,
    TYPING_STARTS,
    TYPING_STOPS,
)
from tenex.nostr.filters import DIRECT_KINDS
from tenex.nostr.profiles import PROFILE_KINDS
from tenex.nostr.reactions import REACTION
from tenex.nostr.threading import KINDS, SCHEMES
from tenex.nostr.unread_kinds import UNREAD_KINDS
from tenex.settings import Settings

from .pages_table import table, table_in_document
from .tree import ROOT, named, text_of

PROTOCOL: Final = text_of(ROOT / "docs" / "protocol.md")
LIMITS_DOCUMENT: Final = text_of(ROOT / "docs" / "reference" / "limits.md")
INDICATORS: Final = {TYPING_STARTS, TYPING_STOPS, TEXT_SO_FAR, TEXT_SINCE, OPERATIONS, PROJECT_STATUS}


def section(document: str, heading: str) -> str:
    """What is below a heading, up to the next of its level."""
    match = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", document, re.MULTILINE | re.DOTALL)
    assert match is not None, f"there is no heading {heading!r}"
    return match[1]


def numbers(text: str) -> set[int]:
    return {int(number) for number in re.findall(r"\b\d+\b", text)}


def first_column(text: str) -> str:
    return "\n".join(re.findall(r"^\| ([^|]*) \|", text, re.MULTILINE))


def between(text: str, begin: str, end: str) -> str:
    _, mark, rest = text.partition(begin)
    assert mark, f"{begin!r} is gone"
    return rest.partition(end)[0]


def in_parentheses(text: str) -> str:
    """The lists of numbers that are in parentheses, without the name of a NIP after one."""
    return "\n".join(re.findall(r"\(([\d, ]+)(?:, NIP-\w+)?\)", text))


READ: Final = section(PROTOCOL, "What is read")


def test_the_table_of_pages_is_the_code() -> None:
    """`python -m tests.repository.pages_table` writes it."""
    assert table_in_document() == table()


@pytest.mark.parametrize(
    ("named_there", "kinds"),
    [
        (between(READ, "of the settings, kinds ", ", and reactions"), KINDS),
        (between(READ, "direct messages (kinds ", ")"), DIRECT_KINDS),
        (in_parentheses(between(READ, "that are not read**", ".")), UNREAD_KINDS),
        (first_column(section(PROTOCOL, "Keys")), PROFILE_KINDS),
        (first_column(section(PROTOCOL, "Typing indicators")), INDICATORS),
    ],
    ids=["subscribed", "direct", "not-read", "profiles", "indicators"],
)
def test_a_list_of_kinds_in_the_protocol_is_that_of_the_code(named_there: str, kinds: Collection[int]) -> None:
    assert numbers(named_there) == set(kinds)


def test_the_protocol_says_of_each_scheme_and_each_request_which_kind_it_is() -> None:
    scheme_kinds = {kind for scheme in SCHEMES for kind in (*scheme.kinds, scheme.root_kind)}
    for kind in sorted(scheme_kinds | {REACTION, DELETION, STOP_REQUEST, AGENT_CHANGE}):
        assert re.search(rf"\bkind {kind}\b", PROTOCOL), f"docs/protocol.md does not name kind {kind}"


def test_each_limit_of_the_settings_has_its_effect_in_the_document_of_limits() -> None:
    """One line may be of several, such as `tokens_per_*`; and none is of what there is not."""
    limits = {field.name for field in fields(Limits)} - {"expectations", "default_expectation"}
    limits |= {f"expectations.{phase}.{field.name}" for phase in Phase for field in fields(Expectation)}
    spans = set(re.findall(r"`([a-z_.*]+)`", section(LIMITS_DOCUMENT, "Limits")))
    patterns = {span for span in spans if not is_path(span)}
    without_line = {name for name in limits if not any(fnmatchcase(name, pattern) for pattern in patterns)}
    assert without_line == set(), "give each a line in docs/reference/limits.md, Limits"
    first = set(re.findall(r"`([a-z_.*]+)`", first_column(section(LIMITS_DOCUMENT, "Limits"))))
    of_nothing = {span for span in first if "_" in span and not is_path(span) and not matches(span, limits)}
    assert of_nothing == set()


def is_path(span: str) -> bool:
    """Whether a code span is a setting of another section, which another test looks up."""
    return span.partition(".")[0] in Settings.model_fields


def matches(pattern: str, names: Collection[str]) -> bool:
    return any(fnmatchcase(name, pattern) for name in names)


@pytest.mark.parametrize("name", Settings.model_fields)
def test_each_section_of_the_settings_is_in_a_document(name: str) -> None:
    documents = [*named(".md", "docs"), ROOT / "README.md"]
    pattern = re.compile(rf"`\[?{name}[\].`]|\[\[?{name}[\].]")
    assert any(pattern.search(text_of(path)) for path in documents if "adr" not in path.parts)
