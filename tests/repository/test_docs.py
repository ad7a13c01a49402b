"""Documents are true: links lead somewhere, commands exist, pictures equal the tables they are drawn from."""

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from zlib import crc32

import pytest

from tenex.cli.root_command import command_table, load_command, make_root
from tenex.core.ids import PublicKey
from tenex.core.inbox.commands import slash_commands
from tenex.core.phases import PHASE_TRANSITIONS, Phase
from tenex.core.ports import OutgoingMessage
from tenex.features.metrics.meter import Meter
from tenex.features.signers.gauges import gauges as signer_gauges
from tenex.features.signers.signing import Signers
from tenex.main import FEATURES
from tenex.nostr.compose import NostrSealer
from tenex.nostr.events import is_genuine, parse_event, sign
from tenex.nostr.keys import SecretKey
from tenex.nostr.threading import read_event
from tenex.settings import Settings
from tenex.store.format import CONVERSATION
from tests.telemetry.kit import gauges

from .commands_table import table, table_in_document
from .tree import ROOT, files, name_of, named, text_of

DOCUMENTS = tuple(path for path in named(".md") if not path.is_relative_to(ROOT / "prompts"))
PROMPTS = named(".md", "prompts")

_FENCE = re.compile(r"^(`{3,})(\w*)[^\n]*\n(.*?)^\1[ \t]*$", re.DOTALL | re.MULTILINE)
_SPAN = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+?)\s*$", re.MULTILINE)
_PLACEHOLDER = re.compile(r"[A-Z]{2,}|[<\[{|.].*|…")


def _fences(text: str, *languages: str) -> list[str]:
    return [match[3] for match in _FENCE.finditer(text) if not languages or match[2] in languages]


def _spoken(text: str) -> str:
    """The text without its fenced blocks."""
    return _FENCE.sub("", text)


def _commands(text: str, program: str) -> Iterator[list[str]]:
    """Every command line of a program that a document shows: in code spans, and at the start of lines in blocks.

    In a block of `text`, which shows what was printed, only what is after a prompt was typed.
    """
    lines = list(_SPAN.findall(_spoken(text)))
    for match in _FENCE.finditer(text):
        shown = match[3].splitlines()
        lines += [line for line in shown if line.startswith("$ ")] if match[2] == "text" else shown
    for part in (part for line in lines for part in re.split(r" && | \| |; ", line)):
        words = part.strip().removeprefix("$ ").split("#")[0].split()
        if words and words[0].endswith(f"bin/{program}"):
            words[0] = program
        if len(words) > 1 and words[0] == program:
            yield words


def _targets() -> set[str]:
    return set(re.findall(r"^([a-z][a-z-]*):", text_of(ROOT / "Makefile"), re.MULTILINE))


def _wrong(words: list[str]) -> str:
    """What is wrong with a command line of tenex; empty if it names what there is."""
    options = _options(make_root(FEATURES))
    command = None
    for word in words[1:]:
        if word.startswith("-"):
            if word.split("=")[0].rstrip(",.]") not in options:
                return f"{' '.join(words)}: there is no option {word}"
        elif command is None:
            if word not in command_table(FEATURES):
                return "" if _PLACEHOLDER.fullmatch(word) else f"{' '.join(words)}: there is no command {word}"
            command = load_command(word, FEATURES)
            options |= _options(command)
        elif hasattr(command, "commands") and not _PLACEHOLDER.fullmatch(word):
            if word not in command.commands:
                return f"{' '.join(words)}: there is no {word} in {command.name}"
            command = command.commands[word]
            options |= _options(command)
    return ""


def _options(command: object) -> set[str]:
    return {"--help", "-h", *(option for param in getattr(command, "params", ()) for option in param.opts)}


@pytest.mark.parametrize("path", [*DOCUMENTS, *PROMPTS], ids=name_of)
def test_every_relative_link_leads_to_a_file(path: Path) -> None:
    """A link to a file in the repository finds it, and its heading where one is named."""
    for target in _LINK.findall(_spoken(text_of(path))):
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        name, _, heading = unquote(target).partition("#")
        found = (path.parent / name).resolve() if name else path
        assert found.exists(), f"{name_of(path)} links to {target}, which is not there"
        if heading:
            assert heading in _anchors(text_of(found)), f"{name_of(path)} links to {target}: no such heading"


def _anchors(text: str) -> set[str]:
    headings = _HEADING.findall(_spoken(text))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_every_make_target_a_document_names_exists(path: Path) -> None:
    """`make x` in a document is a target of the Makefile."""
    named_there = {words[1] for words in _commands(text_of(path), "make") if not re.match(r"[A-Z]+=|-", words[1])}
    assert named_there <= _targets(), f"no targets: {named_there - _targets()}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_every_command_a_document_names_exists(path: Path) -> None:
    """`tenex x y --z` in a document is a command, with that verb and that option."""
    faults = [fault for words in _commands(text_of(path), "tenex") if (fault := _wrong(words))]
    assert not faults


def test_every_command_the_program_and_its_example_name_exists() -> None:
    """What a message or a comment shows a user to type can be typed."""
    reported = (*named(".py", "tenex"), *named(".toml", "config"), ROOT / "Makefile")
    faults = [
        f"{name_of(path)}: {fault}"
        for path in reported
        for span in _SPAN.findall(text_of(path))
        if span.split()[0:1] == ["tenex"] and len(span.split()) > 1 and (fault := _wrong(span.split()))
    ]
    assert not faults


def test_the_picture_of_the_phases_is_the_table() -> None:
    """The Mermaid diagram in docs/architecture.md is what `PHASE_TRANSITIONS` draws."""
    pictures = _fences(text_of(ROOT / "docs" / "architecture.md"), "mermaid")
    assert PHASE_TRANSITIONS.mermaid() in pictures


def test_the_table_of_the_phases_is_the_code() -> None:
    """Each row `| phase | may go to |` of docs/architecture.md lists exactly the permitted phases, in order."""
    rows = dict(re.findall(r"^\| (\w+) \| ([\w, ]+) \|", text_of(ROOT / "docs" / "architecture.md"), re.MULTILINE))
    for phase in Phase:
        assert rows.get(phase) == ", ".join(PHASE_TRANSITIONS.permitted(phase)), phase


def test_the_readme_has_a_row_for_each_phase() -> None:
    rows = re.findall(r"^\| (\w+) \| [^|]+ \| [^|]+ \|$", text_of(ROOT / "README.md"), re.MULTILINE)
    assert [word for word in rows if Phase.parse(word) is not None] == list(Phase)


def test_the_table_of_slash_commands_is_the_code() -> None:
    """`python -m tests.repository.commands_table` writes it."""
    assert table_in_document() == table()


def test_the_commands_that_count_as_a_last_line_are_named() -> None:
    text = text_of(ROOT / "docs" / "protocol.md")
    sentence = re.search(r"The last line of a message counts too if it is ([^:]+):", text)
    assert sentence is not None
    counting = {command.name for command in slash_commands().values() if command.counts_as_last_line}
    assert set(re.findall(r"`/(\w+)", sentence[1])) == counting


def test_the_guide_of_writing_names_slash_commands_that_exist() -> None:
    cells = re.findall(r"^\| (`/[^|]*)\|", text_of(ROOT / "docs" / "how-to" / "write.md"), re.MULTILINE)
    names = re.findall(r"`/(\w+)", "".join(cells))
    assert names
    assert set(names) <= set(slash_commands())


def test_the_journal_line_in_the_documents_can_be_read() -> None:
    """The example of a journal is one: every line has its crc and is a record of today."""
    blocks = [block for path in DOCUMENTS for block in _fences(text_of(path), "jsonl")]
    lines = [line for block in blocks for line in block.splitlines() if line.startswith('{"v":')]
    assert lines, "the example is gone"
    for line in lines:
        _check_line(line)


def _check_line(line: str) -> None:
    """Read a line as the first of a journal: only its place is changed, and the crc with it."""
    body, _, crc = line.rpartition(',"crc":"')
    assert crc == f'{crc32(body.encode()):08x}"}}', f"the crc of {line[:60]} is wrong"
    first = re.sub(r'"seq":\d+,"remaining":\d+', '"seq":1,"remaining":0', body, count=1)
    whole = f'{first},"crc":"{crc32(first.encode()):08x}"}}\n'.encode()
    records, _, fault = CONVERSATION.decode_lines(whole)
    assert fault is None
    assert len(records) == 1


EXECUTOR = SecretKey(b"\x22" * 32)
"""The key of the executor in the example, as good as published."""


def test_the_examples_on_the_wire_are_what_our_code_makes() -> None:
    """In docs/protocol.md the first event is genuine, and an answer to it, sealed and signed, is the second."""
    blocks = _fences(text_of(ROOT / "docs" / "protocol.md"), "json")
    asked, answered = (parse_event(json.loads(block)) for block in blocks)
    assert is_genuine(asked)
    relay = asked.tags[0][2]
    message = read_event(asked, {PublicKey(asked.tags[0][1]), answered.pubkey}, {}, relay, None)
    assert message is not None
    extras = [tag for tag in answered.tags if tag[0] not in ("e", "p", "L", "l")]
    draft = OutgoingMessage(
        speaker=answered.pubkey,
        text=answered.content,
        tags=tuple(extras),
        created_at=answered.created_at,
        address=message.address,
        reply_to=message.origin,
    )
    (sealed,) = NostrSealer([relay]).seal(draft)
    assert sign(sealed, EXECUTOR) == answered


EXAMPLES = {
    match[1]: block
    for block in _fences(text_of(ROOT / "CONTRIBUTING.md"), "python")
    if (match := re.search(r"def (test_\w+)", block))
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_in_contributing_runs(name: str) -> None:
    """What CONTRIBUTING.md shows as a test is one, and passes."""
    space: dict[str, Any] = {"__name__": "example"}
    exec(compile(EXAMPLES[name], "CONTRIBUTING.md", "exec"), space)  # our own document
    if (made := space[name]()) is not None:
        asyncio.run(made)


def test_every_module_the_architecture_names_exists() -> None:
    """A path such as `core/dispatch.py` in docs/architecture.md or an ADR is a file of the package."""
    packages = "|".join(sorted({path.relative_to(ROOT / "tenex").parts[0] for path in named(".py", "tenex")}))
    modules = rf"`((?:{packages})/[\w/]+\.py)"
    for path in (ROOT / "docs" / "architecture.md", *named(".md", "docs", "adr")):
        for name in re.findall(modules, text_of(path)):
            assert (ROOT / "tenex" / name).is_file(), f"{name_of(path)} names {name}"


def test_every_metric_a_document_names_is_there() -> None:
    """A metric named in a document is one that `/metrics` gives."""
    reported = {name for path in DOCUMENTS for name in re.findall(r"`(tenex_[a-z_]+)", text_of(path))}
    meter = Meter(gauges(more=lambda: signer_gauges(Signers({}, str))))
    meter.of_store()
    families = [family for family in meter.registry.collect() if family.name.startswith("tenex_")]
    given = {f"{family.name}_total" if family.type == "counter" else family.name for family in families}
    assert reported, "the table is gone"
    assert reported <= given, f"not given: {sorted(reported - given)}"


_SECTIONS = "|".join(Settings.model_fields)


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_every_setting_a_document_names_exists(path: Path) -> None:
    """`section.name` in a code span is a setting, as deep as its tables are fixed."""
    named_there = re.findall(rf"`((?:{_SECTIONS})(?:\.[a-z_]+)+)(?:`| = )", _spoken(text_of(path)))
    assert not [name for name in named_there if not name.endswith(".py") and not _is_setting(name)]


def _is_setting(dotted: str) -> bool:
    kind: Any = Settings
    for name in dotted.split("."):
        if name not in getattr(kind, "model_fields", {name: None}):
            return False
        field = getattr(kind, "model_fields", {}).get(name)
        kind = field.annotation if field is not None else None  # a table whose names users choose
    return True


def test_the_index_of_decisions_lists_each_once() -> None:
    """docs/adr/README.md links every record, and no two have a number. One that is missing is of work under way."""
    records = sorted(path.name for path in named(".md", "docs", "adr") if path.name != "README.md")
    listed = re.findall(r"\]\((\d{4}-[\w-]+\.md)\)", text_of(ROOT / "docs" / "adr" / "README.md"))
    assert sorted(listed) == records
    assert len({name[:4] for name in records}) == len(records)


_MACHINE = re.compile(r"(?<![\w.])/(?:work|farm)/")
_REGISTRY = re.compile(
    r"--(?:extra-)?index-url|PIP_(?:EXTRA_)?INDEX_URL|npm_config_registry|files\.pythonhosted\.org|pypi\.org/simple"
    r"|registry\.npmjs\.org|registry\.yarnpkg\.com|artifactory"
    r"|(?m:^\s*registry\s*=\s*[\"']?https?:)|\"resolved\": *\"https?:"
)


def test_no_file_names_the_machine_it_was_written_on() -> None:
    """No folder of a builder's machine, no package registry: the project builds where a user has their own."""
    here = Path(__file__).resolve()
    found = [
        f"{name_of(path)}: {match.group()}"
        for path in files()
        if path != here
        for match in (*_MACHINE.finditer(text_of(path)), *_REGISTRY.finditer(text_of(path)))
    ]
    assert not found
