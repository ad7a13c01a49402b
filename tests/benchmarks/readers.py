"""Every function that reads foreign text, with hostile text: the time for it has to grow no faster than the text.

Foreign is what a model, a server, a relay, a person or an agent wrote, and what a program printed. A new reader is a
line in `READERS`, a new kind of hostile text a line in `TEXTS`. `make bench` measures them with 1 MB;
`python -m tests.benchmarks.readers SIZE` reads everything once and ends, which `tests/properties/test_foreign_text.py`
waits for.
"""

import json
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from pydantic_ai import exceptions as library
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart

from tenex.cli.shared import output
from tenex.core.answers import yes_no
from tenex.core.answers.yes_no import read_answers
from tenex.core.approvals import message, shell_text
from tenex.core.errors import TenexError
from tenex.core.ids import CallId, Millis, PublicKey, Slug
from tenex.core.inbox import commands, received_files
from tenex.core.memory import window
from tenex.core.messages import CallResult, ModelStep, ToolSpec, Usage, UserText, cut, with_context, without_context
from tenex.core.router import answer as routing
from tenex.core.text import foreign as text
from tenex.core.text import lines, names, prose
from tenex.core.text.foreign import redact
from tenex.core.work.loop_detection import _reason
from tenex.core.work.turn import Completion
from tenex.features.published_agents.definitions import AGENT_DEFINITION, read_definition
from tenex.features.published_agents.files import agent_file, slug_for
from tenex.features.web_access.page_text import text_of
from tenex.llm import compatible, cut_input, errors, markup, thoughts, written_calls
from tenex.llm.messages import messages
from tenex.llm.refused_parameters import Parameters, refusal_words
from tenex.llm.response import refused_call, step_of
from tenex.llm.scripted import requests
from tenex.llm.thoughts import ThoughtSplitter
from tenex.nostr import direct, keys, profiles, retry, urls, wire
from tenex.nostr.events import event_fields, sign, unsigned_event
from tenex.nostr.threading import base, plain_text, split
from tenex.output_states import content, json_values
from tenex.output_states.machine import AgentStateMachine
from tenex.output_states.parser import OutputParser
from tenex.output_states.requests import read_answer
from tenex.output_states.states import Python, Thinking, ToolCallState
from tenex.prompting.agents import read_agent
from tenex.prompting.loader import LARGEST
from tenex.prompting.markdown import sections
from tenex.prompting.render import fenced
from tenex.store import conversation_files, search_words
from tenex.store.codec import FieldsCodec
from tenex.store.format import CONVERSATION
from tenex.tools import files_read, files_write, process, project_needs, skills, toolchains
from tenex.tools.arguments import Arguments
from tenex.tools.tool import Refusal
from tenex.workflows.kit import error_text
from tenex.workflows.missions.definitions import Starting, _object_in
from tenex.workflows.speakers import variables

from .rig import Row

SIZE: Final = 1_000_000
"""Characters of the longer text."""
_LINEAR: Final[Mapping[str, Any]] = {"budget": 3.0, "grows": True}
"""Of the times for the whole and the half: 2 is linear, 4 quadratic, and noise is between them."""
LEAST: Final = 0.25
"""Seconds below which a time is no matter, and its ratio is noise."""

Reader = Callable[[str], object]

_KEY = PublicKey("79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798")
_TOOL = ToolSpec(
    name="write_file",
    description="Write.",
    parameters={
        "type": "object",
        "properties": {"path": {"type": "string"}, "lines": {"type": "array", "items": {"type": "integer"}}},
    },
)


_LINE = FieldsCodec(ModelStep)


def _machine() -> AgentStateMachine:
    return AgentStateMachine([Thinking()], [ToolCallState([_TOOL]), Python()])


def _rejected(written: str) -> library.ModelRequestRejectedError:
    return library.ModelRequestRejectedError("m", "x", body=_body(written), provider_error_code=written)


def _failed(written: str) -> library.ModelHTTPError:
    return library.ModelHTTPError(400, "m", body=_body(f"unsupported {written}"))


def _body(written: str) -> dict[str, dict[str, str]]:
    return {"error": {"message": written, "code": written, "param": written}}


def _stream(written: str, size: int) -> object:
    splitter = ThoughtSplitter()
    for start in range(0, len(written), size):
        splitter.add(written[start : start + size])
    return splitter.end()


def _parsed(written: str, before: str = "") -> object:
    parser = OutputParser(_machine())
    parser.feed(before)
    for start in range(0, len(written), 64):
        parser.feed(written[start : start + 64])
    return parser.close()


def _agent(front: str = "", body: str = "") -> object:
    return read_agent(Slug("a"), f"---\nname: A\nrole: b\nkind: worker\n{front}\n---\n{body}", "a.md", (), [])


def _frame(written: str) -> object:
    return wire.Wire("a").receive(written)


def _wrap(written: str) -> None:
    """A gift wrap that anybody sends, and one whose encryption is right."""
    key = keys.SecretKey(bytes(31) + b"\1")
    for payload in (written, direct.nip44_encrypt(written[:20_000] or "a", key.shared_secret(key.public))):
        event = unsigned_event(key.public, 0, direct.GIFT_WRAP, [["p", key.public]], payload)
        direct.read_direct(sign(event, key), {key.public: key})


def _published(written: str) -> None:
    """A definition of an agent as large as it may be, and a larger one, which is refused."""
    key = keys.SecretKey(bytes(31) + b"\1")
    part = split.clean_text(written[:10_000])
    tags = [["title", part[:100]], ["role", part], ["phase", "plan", part]]
    agent = read_definition(sign(unsigned_event(key.public, 0, AGENT_DEFINITION, tags, part), key))
    agent_file(agent, slug_for(agent), "expert", ())
    read_definition(sign(unsigned_event(key.public, 0, AGENT_DEFINITION, tags, split.clean_text(written)), key))


READERS: Final[Mapping[str, Reader]] = {
    # of web servers
    "features.web_access.page_text, of a page": lambda written: text_of(
        written.encode("utf-8", "replace"), "text/html", "https://example.org/"
    ),
    "features.web_access.page_text, of text": lambda written: text_of(
        written.encode("utf-8", "replace"), "", "https://example.org/"
    ),
    # of models and their servers
    "llm.errors.translate": lambda written: errors.translate(_rejected(written), "a:b"),
    "llm.errors.translate, of HTTP": lambda written: errors.translate(
        library.ModelHTTPError(400, "m", body=_body(written)), "a:b"
    ),
    "llm.errors.rejects_form": lambda written: errors.rejects_form(_rejected(written)),
    "llm.errors.rejects_order": lambda written: errors.rejects_order(_rejected(written)),
    "llm.errors.retry_after": lambda written: errors._reset(
        {"x-ratelimit-reset-tokens": written, "x-ratelimit-remaining-tokens": "0"}
    ),
    "llm.thoughts, whole": lambda written: _stream(written, len(written)),
    "llm.thoughts, in pieces": lambda written: _stream(written, 16),
    "llm.written_calls": lambda written: written_calls.written_calls(written, (_TOOL,)),
    "llm.written_calls, of a call": lambda written: written_calls.written_calls(f"<tool_call>{written}", (_TOOL,)),
    "llm.written_calls.sayable": lambda written: written_calls.sayable(written, 0),
    "llm.written_calls, of a function": lambda written: written_calls.written_calls(
        f"<function=write_file>{written}", (_TOOL,)
    ),
    "llm.written_calls, of arguments in tags": lambda written: written_calls.written_calls(
        f"<tool_call>write_file<arg_key>{written}", (_TOOL,)
    ),
    "llm.written_calls, of Gemma": lambda written: written_calls.written_calls(
        f"<start_function_call>call:write_file{{path:{written}", (_TOOL,)
    ),
    "llm.written_calls, of a whole call of Gemma": lambda written: written_calls.written_calls(
        f"<start_function_call>call:write_file{{{written}}}<end_function_call>", (_TOOL,)
    ),
    "llm.written_calls, of values in tags": lambda written: written_calls.written_calls(
        f"<tool_call>write_file<arg_key>a</arg_key><arg_value>{written}", (_TOOL,)
    ),
    "llm.written_calls, of a parameter": lambda written: written_calls.written_calls(
        f"<function=write_file><parameter=path>{written}", (_TOOL,)
    ),
    "llm.written_calls, in Python": lambda written: written_calls.written_calls(
        f'write_file(path="{written}', (_TOOL,)
    ),
    "llm.written_calls, in a list of Python": lambda written: written_calls.written_calls(
        f"[write_file(lines=[{written[: len(written) - 4]})]", (_TOOL,)
    ),
    "llm.written_calls.offered_name": lambda written: written_calls.offered_name(written, ["read_file", "write_file"]),
    "llm.markup.rewritten": markup.rewritten,
    "llm.markup.rewritten, of a message": lambda written: markup.rewritten(f"<|channel|>{written}<|message|>"),
    "llm.markup.has_mark": markup.has_mark,
    "llm.thoughts.without_tags": thoughts.without_tags,
    "llm.refused_parameters": lambda written: Parameters().refused(
        refusal_words(_failed(written)), ["max_tokens", "temperature"]
    ),
    "llm.compatible, of thoughts": lambda written: compatible._thoughts_refused(refusal_words(_failed(written))),
    "llm.cut_input": lambda written: cut_input._RUN.sub(rb"\1\1", written.encode("utf-8", "replace")),
    "llm.response.refused_call": lambda written: refused_call(
        library.ModelHTTPError(400, "m", body={"failed_generation": written}), "a:b", (_TOOL,)
    ),
    "llm.response.step_of, of arguments": lambda written: step_of(
        ModelResponse([ToolCallPart("write_file", f'{{"path": "a"}}{written}')]), "a:b", "openai", Usage()
    ),
    "llm.response.step_of": lambda written: step_of(
        ModelResponse([TextPart(written), ToolCallPart("write_file", written)]), "a:b", "openai", Usage()
    ),
    "llm.messages": lambda written: messages(
        [CallResult(id=CallId(written), tool=written, ok=True, content=written)], "openai", marks_failures=False
    ),
    "llm.scripted.read_request": requests.read_request,
    "llm.scripted.read_request, of a file": lambda written: requests.read_request(f"write a.txt with {written}"),
    "llm.scripted.read_request, of a change": lambda written: requests.read_request(f"replace {written} in a.txt"),
    "llm.scripted.small_talk": requests.small_talk,
    "llm.scripted.intent_of": lambda written: requests.intent_of(written, "chat", is_asked=False),
    "core.router.answer.parse": routing.parse,
    "core.messages.cut": lambda written: cut(written, 1000),
    "core.memory.window.squeezed": lambda written: window.squeezed("", [UserText(author="a", text=written)], (), 9),
    "core.memory.window.in_a_line": lambda written: window.in_a_line(written, 300),
    "core.memory.window.weight": window.weight,
    "core.work.loop_detection": lambda written: _reason(
        Completion(agent=Slug("a"), outcome="failed", text="", summary="", verdict="", error=written, at=Millis(0))
    ),
    "output_states.parser": _parsed,
    "output_states.parser, in a plan": lambda written: _parsed(written, "```thinking\n"),
    "output_states.parser, in a call": lambda written: _parsed(
        written, "```thinking\n" + "a" * 60 + "\n```\n```tool_call\n"
    ),
    "output_states.requests.read_answer": lambda written: read_answer(_machine().plan(), written),
    "output_states.json_values.read": json_values.read,
    "output_states.content.PythonStateMachine": lambda written: content.PythonStateMachine().check(
        written[: content.PYTHON_MAX]  # the parser has refused what is longer
    ),
    "output_states.states.readable_format": Python().readable_format,
    "tools.arguments": lambda written: Arguments("a", _TOOL.parameters).fault({"path": 1, "lines": list(written)}),
    "tools.arguments, of names": lambda written: Arguments("a", _TOOL.parameters).fault(dict.fromkeys(written.split())),
    # of people and relays
    "core.inbox.commands.parse": commands.parse,
    "core.inbox.commands.split_last_line": commands.split_last_line,
    "core.names.plain": names.plain,
    "core.names.nearest": lambda written: names.nearest(written, ["executor", "planner"]),
    "core.names.find": lambda written: names.find(written, {Slug("executor"): None}),
    "core.names.with_names": lambda written: names.with_names(written, {_KEY: "a"}),
    "core.names.without_mentions": lambda written: names.without_mentions(f"npub1 {written}", _KEY, "a"),
    "core.text.plain": text.plain,
    "core.text.printable": text.printable,
    "core.text.trimmed": text.trimmed,
    "core.text.well_formed_value": text.well_formed_value,
    "core.messages.without_context": lambda written: without_context(with_context(written, written)),
    "core.prose.readings": prose.readings,
    "core.workflow.variables.lines_of": variables.lines_of,
    "core.workflow.variables.lines_of, of a line": lambda written: variables.lines_of(f"/set a{written}b"),
    "core.workflow.variables.read": lambda written: variables.read(written, {}),
    "nostr.wire": _frame,
    "nostr.events.event_fields": lambda written: event_fields({"content": written, "tags": [[written]], "kind": 1}),
    "nostr.keys.find_mentions": lambda written: keys.find_mentions(written, [_KEY]),
    "nostr.keys.find_events": keys.find_events,
    "nostr.keys.find_events, of an event": lambda written: keys.find_events(f"nostr:nevent1{written}"),
    "nostr.direct": _wrap,
    "features.published_agents.files": _published,
    "nostr.keys.parse_event_address": lambda written: keys.parse_event_address(f"naddr1{written}"),
    "nostr.keys.parse_public_key": keys.parse_public_key,
    "nostr.keys.parse_public_key, of a profile": lambda written: keys.parse_public_key(f"nprofile1{written}"),
    "nostr.urls": urls.normalise_url,
    "nostr.urls, of a host": lambda written: urls.normalise_url(f"wss://{written}"),
    "nostr.retry.read_answer": retry.read_answer,
    "nostr.retry.read_answer, of a limit": lambda written: retry.read_answer(f"rate-limited: {written}"),
    "nostr.profiles": lambda written: profiles._fields(_Event(written)),  # type: ignore[arg-type]
    "nostr.threading.split": lambda written: split.split_text(split.clean_text(written), split.MAX_EVENT_BYTES),
    "nostr.threading.split, in a block of code": lambda written: split.split_text(f"```py\n{written}", 1024),
    "nostr.threading.split, in a table": lambda written: split.split_text(f"|a|b|\n|-|-|\n{written}", 1024),
    "nostr.threading.split.clip": split.clip,
    "core.inbox.received_files": lambda written: received_files.files_in(written, {}),
    "store.conversation_files": conversation_files.safe_name,
    "nostr.threading.plain_text": lambda written: plain_text.plain_text(written[: plain_text.LONGEST]),
    "nostr.profiles.name_in": lambda written: profiles.name_in(_Event(json.dumps({"name": written}))),  # type: ignore[arg-type]
    "nostr.threading.base": lambda written: base._with_slugs((), f"@{written}", {"executor": _KEY}),
    "core.yes_no.is_clear_yes": yes_no.is_clear_yes,
    "core.approvals.shell_text": shell_text.parsed,
    "core.approvals.message": lambda written: message.call_text("shell", {"command": written}),
    "core.yes_no.read_answers": read_answers,
    "core.yes_no.read_answers, by numbers": lambda written: read_answers(f"1 yes, {written}"),
    "workflows.kit.error_text": lambda written: error_text.sentence_of(ValueError(written)),
    "workflows.kit.error_text, of pydantic": error_text._of_serializer,
    "workflows.missions.Starting": lambda written: Starting(Slug("executor"), None)._plain(written),  # type: ignore[arg-type]
    "workflows.missions.definitions": _object_in,
    # of files and programs
    "prompting.agents, its body": lambda written: _agent(body=written[:LARGEST]),  # no file is larger
    "prompting.agents, its front matter": lambda written: _agent(front=f"use_when: b\n{written}"),
    "prompting.markdown": lambda written: sections(written[:LARGEST]),
    "prompting.render.fenced": fenced,
    "tools.skills": lambda written: skills._read(
        f"---\n{written}\n---\n".encode("utf-8", "replace"), Path("a"), is_of_workspace=True
    ),
    "tools.process.plain_text": process.plain_text,
    "tools.project_needs.not_found_in": project_needs.not_found_in,
    "tools.toolchains, versions": lambda written: list(toolchains._words(written, "node")),
    "tools.files_read": lambda written: files_read._window(written, "a", 1, 2_000),
    "tools.files_read.summed_up": lambda written: files_read.summed_up(written.split(" "), "", 9),
    "tools.files_write, of a passage": lambda written: files_write._why_not_contained(written),
    "tools.files_write, of a change": lambda written: files_write._around(
        files_write._edited(written, [{"old": written[:1] or "a", "new": "bb\n", "all": True}], "a")
    ),
    "log.redact": redact,
    "store.search_words.indexed": search_words.indexed,
    "store.search_words.match_of": search_words.match_of,
    "store.codec": lambda written: _LINE.encode(ModelStep(text=written, vendor={"a": written.split(" ")})),
    "store.format": lambda written: CONVERSATION.decode_lines(written.encode("utf-8", "replace")),
    "operations.transcript": lines.shorten,
    "cli.output": lambda written: output.table(["a"], [[output.escape_json(output.with_options(written))]]),
}
"""By the name that a row shows."""

TEXTS: Final = (
    *("9", "a", " ", "\n", "\r", "\t", "\\", '"', "'", "`", "{", "[", "(", "<", ">", "@", "/", "-", "=", "|", "&", "."),
    *(
        "a9 ",
        "a ",
        "a\n",
        "\n\n",
        " \n",
        "9,",
        "9" * 4300 + " ",
        "\x1b[",
        "\x1b]",
        "\x1b",
        "é",
        "\ud800",
        "\u200b",
        "漢",
    ),
    *("漢", "<think>", "</think>", "a<think>b</think>", "`<think>`", "<tool_call>", "<function=a>", "<parameter=a>"),
    *(
        "<function=write_file><parameter=path>a",
        "write_file{}",
        "```\n",
        "```json\n{}\n```\n",
        "```a",
        '{"a":',
        "{}",
        "[],",
    ),
    *(
        '{"name":"write_file","arguments":{}},',
        '{"agents":["a"],"reason":"b"}',
        "not support",
        "tool",
        "+ 9 > ",
        "> 9 ",
    ),
    *("context length of 9", "limit: 9 + 9 > ", "maximum context length ", "nostr:npub1", "nprofile1q", "@executor "),
    *(
        "/set a=b\n",
        "/set a ",
        "a=b ",
        "\t/set",
        "# a\n",
        "> ",
        "* a",
        "- a\n  ",
        "[a](",
        "![a",
        "**a",
        "_a",
        "<a ",
        "&#9;",
    ),
    *(
        "---\n",
        "a: b\n",
        "a: &a [",
        "*a ",
        "? a\n",
        "- - ",
        "sk-",
        "hf_",
        "nsec1a",
        "Expected `a`[",
        "<class 'a",
        "a.txt ",
        '"a" ',
    ),
    *(
        "<|start|>",
        "<|channel|>commentary to=functions.write_file<|message|>{}",
        "<|channel|>analysis ",
        "<|message|>a<|end|>",
        "<｜DSML｜",
        "</s>",
        "<tool_call>write_file<arg_key>path</arg_key>",
        "<arg_key>a</arg_key><arg_value>b</arg_value>",
        "<start_function_call>call:write_file{",
        "a:<escape>b<escape>,",
        "<invoke name=write_file>",
        "write_file(path='a'), ",
        '{"path": "a"}',
        "```tool_code\n",
        "|a|b|\n",
        "|-|-|\n",
        "```py\na\n```\n",
        "```\n```\n\n",
        "~~~\n",
        "> ```\n",
        "👨\u200d",
        "a\u0301\u0301",
        "note1" + "q" * 58 + " ",
        "nevent1q",
        "npub1" + "q" * 58 + " ",
        "only max_tokens ",
        "reasoning_content ",
    ),
    *("create a.py ", "and write ", "“a”", "add a to ", "rate-limited: 9", "\udc00\ud83d", "a.a/", "%0a"),
)
"""Repeated to the wanted length."""


HUNG: Final = (
    ("llm.errors.translate", "9"),
    ("llm.errors.translate, of HTTP", "not support"),
    ("llm.thoughts, whole", "a<think>b</think>"),
    ("llm.thoughts, in pieces", "a"),
    ("llm.written_calls", '{"name":"write_file","arguments":{}},'),
    ("llm.written_calls", "```tool_code\n"),
    ("llm.written_calls, of a function", " "),
    ("llm.written_calls", "<start_function_call>call:write_file{"),
    ("llm.response.step_of, of arguments", "<|start|>"),
    ("llm.response.step_of, of arguments", '{"path": "a"}'),
    ("nostr.threading.split", "```\n```\n\n"),
    ("core.work.loop_detection", "a"),
    ("core.workflow.variables.lines_of, of a line", " "),
    ("output_states.states.readable_format", "`"),
    ("tools.arguments", "a"),
    ("store.codec", "9" * 4300 + " "),
    ("workflows.kit.error_text, of pydantic", "Expected `a`["),
)
"""Texts of 1 MB that readers once took minutes, hours or gigabytes for."""


class _Event:
    """As much of an event as a profile is read from."""

    def __init__(self, written: str) -> None:
        self.content = written


def hostile(unit: str, size: int) -> str:
    """A text of that many characters."""
    return (unit * (size // len(unit) + 1))[:size]


def read(reader: Reader, written: str) -> float:
    """The seconds of processor time a reader takes; refusing the text is reading it."""
    began = time.process_time()
    with suppress(TenexError, Refusal, ValueError):
        reader(written)
    return time.process_time() - began


def growth(reader: Reader, size: int) -> tuple[str, float, float]:
    """The text that a reader is slowest with, the seconds for it, and how many times those for the half they are."""
    unit = max(TEXTS, key=lambda unit: read(reader, hostile(unit, size // 20)))
    whole, half = (min(read(reader, hostile(unit, length)) for _ in range(2)) for length in (size, size // 2))
    return unit, whole, whole / half if whole > LEAST else 2.0


async def measure() -> list[Row]:
    """The slowest reader and the one whose time grows most; besides, each that grows too fast."""
    rows = []
    for name, reader in READERS.items():
        unit, seconds, ratio = growth(reader, SIZE)
        work = f"{name}, with {unit[:12]!r}"
        rows.append(
            (Row(f"1 MB for {work}", seconds, "s"), Row(f"twice as much for {work}", ratio, "times", **_LINEAR))
        )
    slowest, fastest_growing = (max(column, key=lambda row: row.figure) for column in zip(*rows, strict=True))
    others = [row for _, row in rows if not row.is_kept and row is not fastest_growing]
    return [slowest, fastest_growing, *others]


def main() -> int:
    """Read every text of that many characters with every reader, and the texts of `HUNG` with 1 MB."""
    for name, reader in READERS.items():
        print(name, flush=True)
        for unit in TEXTS:
            read(reader, hostile(unit, int(sys.argv[1])))
    for name, unit in HUNG:
        print(f"{name}, with {unit!r}", flush=True)
        read(READERS[name], hostile(unit, SIZE))
    return 0


if __name__ == "__main__":
    sys.exit(main())
