"""What cannot be meant or done is refused in a sentence, and nothing is made or changed."""

from pathlib import Path

import pytest

from tenex.nostr.keys import SecretKey
from tests.kits.commands import Tenex

from .journals import ONE, worked, write_conversations

SECRET = SecretKey(bytes([7]) * 32).nsec
OWN = "init --dir new --no-check"
MODELS = (OWN, "demo --message x", "eval simple-request")
"""Commands that take a model; only the first has the options of its server and key."""
UNKNOWN = "e" * 64
USAGE = [
    ("statu", "Did you mean 'status'?"),
    ("conversations lst", "Did you mean 'list'?"),
    ("graph chekc", "Did you mean 'check'?"),
    ("--nonsense", "No such option"),
    ("init --relay", "requires an argument"),
    ("agents show", "Missing argument"),
    ("", "Usage: tenex"),
    ("agents show executor --phase plan", "need --prompt"),
    ("agents show executor --prompt --phase planing", "'planing' is not a phase. Choose from chat, brainstorm"),
    ("agents show executor --prompt --conversation ab", "No conversation begins with ab"),
    ("agents show executor --prompt --conversation ab --message x", "cannot be used with --conversation"),
    ("agents show unknown", "Choose from executor, orchestrator, planner, project-manager, security-expert"),
    ("agents add Data-Wizard", "Did you mean data-wizard?"),
    ("agents add ../x", "Did you mean x?"),
    ("agents add é", "is not a name for an agent"),
    *((f"agents add {slug}", "reserved word") for slug in ("end", "user", "owner", "project")),
    ("conversations search !!!", "no word"),
    (f"conversations search {'x' * 2000}", "2,000 characters"),
    (f"conversations search {'a ' * 40}", "40 words"),
    ("conversations search", "Missing argument"),
    ("conversations search x --limit 0", "greater than or equal to 1"),
    ("conversations list --phase sleep", "'sleep' is not a phase. Choose from chat, brainstorm"),
    ("conversations list --status gone", "'gone' is not a status. Choose from new, active"),
    ("conversations list --since 11/21", "'11/21' is not a point in time. Examples: 2026-11-21"),
    ("conversations list --agent npub1nonsense", "--agent needs a slug or a key"),
    (f"conversations list --agent {SECRET}", "secret key"),
    (
        "conversations show ffff --json",
        "tenex: No conversation begins with ffff. `tenex conversations list` shows",
    ),
    ("conversations rebuild 1111 --from conversation.json", "is whole"),
    ("conversations rebuild 1111", "is whole"),
    ("conversations rebuild 1111 --from memory", "Choose conversation.json or relay"),
    (f"conversations rebuild {UNKNOWN}", "There is no conversation eeee"),
    (f"conversations rebuild {UNKNOWN} --data mistyped", "mistyped: no such folder"),
    ("init --dir here --data /elsewhere", "name different folders"),
    (f"{OWN} --owner npub1wrong", "--owner: this npub is mistyped"),
    (f"{OWN} --owner {SECRET}", "secret key"),
    (f"{OWN} --relay http://x", "relays.urls[0]: must be the address of a relay"),
    *((f"{line} --model gpt-5", "write PROVIDER:NAME, such as openai:gpt-5-mini") for line in MODELS),
    *(
        (f"{line} --model openai:x", "openai needs a key: set OPENAI_API_KEY, or store it by `tenex ")
        for line in MODELS
    ),
    *((f"{line} --model local:x", " init --model local:x --base-url URL` stores it") for line in MODELS),
    (f"{OWN} --provider openai", "needs a key"),
    (f"{OWN} --provider local --model x", "--base-url"),
    (f"{OWN} --provider ollama", "Name a model of ollama"),
    (f"{OWN} --model offline --base-url http://x", "no server and no key"),
    (f"{OWN} --model UPPER:x", "cannot name a provider"),
    (f"{OWN} --model local:x --base-url ftp://x", "must be an address"),
    (f"{OWN} --model local:x --base-url http://[x", "must be an address"),
    (f"{OWN} --model local:x --base-url http://u:p@x/v1", "without a user or a password"),
    (f"{OWN} --model openai:x --api-key-file /nonexistent", "cannot be read"),
    (f"{OWN} --model ollama:x --owner npub1wrong", "--owner: this npub is mistyped"),
]
SETTINGS = [
    (f"{OWN} --model unknown:x", "no provider that is known"),
    (f"{OWN} --model deepseek:x", "deepseek: no key. Give it by --api-key-file FILE, or set the variable DEEPSEEK_"),
]


@pytest.fixture
def data(data: Path) -> Path:
    write_conversations(data, {ONE: worked(ONE)})
    return data


def contents(folder: Path) -> dict[Path, bytes]:
    """The files and folders, but for the lock that a command takes."""
    return {path: path.read_bytes() if path.is_file() else b"" for path in folder.rglob("*") if path.name != ".lock"}


@pytest.mark.parametrize(
    ("code", "line", "sentence"), [*((2, *row) for row in USAGE), *((3, *row) for row in SETTINGS)]
)
def test_it_is_refused_in_a_sentence_and_nothing_is_changed(
    tenex: Tenex, data: Path, code: int, line: str, sentence: str
) -> None:
    before = contents(data.parent)
    out, err = tenex(line, code=code)
    assert out == ""
    assert sentence in err
    assert SECRET not in err
    assert "models.providers" not in err  # there is no file of settings yet
    assert contents(data.parent) == before


@pytest.mark.parametrize("line", ["rollback --to 3 --yes", "fork --at 3", "rebuild --from relay"])
def test_an_empty_id_never_means_the_newest_where_something_is_changed(data: Path, tenex: Tenex, line: str) -> None:
    before = contents(data)
    assert "the id is empty" in tenex(f"conversations {line}", "", code=2).err
    assert contents(data) == before
