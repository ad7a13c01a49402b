"""Tool calls that a model wrote into its text are read as calls, or asked for again; JSON that is quoted is not."""

import json
import time

import pytest

from tenex.llm.written_calls import UNREADABLE, offered_name, written_calls
from tests.fakes.modelprotocol import Answer, Call, nonsense
from tests.kits.written_calls import CALL, MARKED, TOOLS

from .clients import WRITE, asked, talking, work

WHOLE = (
    f"```xml\n<tool_call>{CALL}</tool_call>\n```",
    CALL,
    json.dumps({"type": "function", "function": {"name": "write_file", "arguments": '{"path": "a.txt"}'}}),
    json.dumps([{"tool": "functions.write_file", "args": {"path": "a.txt"}}]),
    '[write_file(path="a.txt")]',
    '[write_file("a.txt")]',
    '```python\nwrite_file(path="a.txt")\n```',
    "<write_file>\n<path>a.txt</path>\n</write_file>",
    'Action: write_file\nAction Input: {"path": "a.txt"}',
    'functions.write_file:0<|tool_call_argument_begin|>{"path": "a.txt"}<|tool_call_end|>',
)
"""Without a mark only the whole answer, or a block at its end, is a call."""


@pytest.mark.parametrize("text", [*MARKED, *WHOLE])
def test_a_written_call_is_a_call(text: str) -> None:
    for lead in ("", "I will write the file now.\n\n") if text in MARKED else ("",):
        written = written_calls(lead + text, TOOLS)
        (call,) = written.calls
        assert (call.tool, call.arguments, call.fault) == ("write_file", {"path": "a.txt"}, "")
        assert written.text == lead.strip()


def test_several_calls_keep_their_order_and_what_follows_them_is_invented() -> None:
    """One of an unknown tool is a call that will be refused."""
    other = '<tool_call>{"name": "fly", "arguments": {"to": "the moon"}}</tool_call>'
    written = written_calls(f"<tool_call>{CALL}</tool_call>\n{other}\nIt is done.", TOOLS)
    assert [call.tool for call in written.calls] == ["write_file", "fly"]
    assert len({call.id for call in written.calls}) == 2
    assert not written.text


def test_calls_in_a_row_are_all_read() -> None:
    other = '{"name": "complete", "parameters": {"response": "x"}}'
    for between in ("\n", "; ", ","):
        written = written_calls(f"{CALL}{between}{other}", TOOLS)
        assert [call.tool for call in written.calls] == ["write_file", "complete"]


def test_arguments_may_hold_what_ends_a_call() -> None:
    text = '<function=write_file>{"path": "</function><tool_call>"}</function>'
    assert written_calls(text, TOOLS).calls[0].arguments == {"path": "</function><tool_call>"}


def test_parameters_in_tags_get_the_types_their_tool_takes_and_may_hold_tags() -> None:
    text = "<function=complete><parameter=response>\n7\n</parameter><parameter=steps>7</parameter></function>"
    assert written_calls(text, TOOLS).calls[0].arguments == {"response": "7", "steps": 7}
    page = "<html>\n<b>Hi</b> {not: json}\n</html>"
    text = f"<tool_call><function=complete><parameter=response>\n{page}\n</parameter></function></tool_call>"
    assert written_calls(text, TOOLS).calls[0].arguments == {"response": page}


@pytest.mark.parametrize(
    "piece", ["<tool_call>", "```json\n", "<function=", "<function=a>", "{", "a", '{"name":', "`\n"]
)
def test_a_long_text_of_nonsense_is_read_in_no_time(piece: str) -> None:
    began = time.process_time()
    written_calls("<tool_call>" + piece * (200_000 // len(piece)), TOOLS)
    written_calls(piece * (200_000 // len(piece)), TOOLS)
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name": "write_file", "arguments": {"path": </tool_call>',
        "<tool_call>write_file\n<arg_key>path",
        "```tool_code\nprint(write_file(path=\n```",
        "[TOOL_CALLS] write_file",
        '<function=write_file>{"path": </function>',
        '<tool_call>{"tool_calls": [{"id": "write_file"}]}</tool_call>',
        "<tool_call>\n{'name': 'write_file'}\n</tool_call>",
        "<|tool_call>call:write_file{path:{a:1}}<tool_call|>",
    ],
)
def test_a_marked_call_that_cannot_be_read_is_asked_for_again(text: str) -> None:
    written = written_calls(f"Now.\n{text}", TOOLS)
    assert [(call.tool, call.arguments, call.fault) for call in written.calls] == [("write_file", {}, UNREADABLE)]
    assert written.text == "Now."


@pytest.mark.parametrize(
    "text",
    [
        "Hello.",
        f"To write a file, a call looks like this:\n\n```json\n{CALL}\n```\n\nThe path is relative.",
        f"Put `<tool_call>{CALL}</tool_call>` into the prompt.",
        f"An example:\n\n```xml\n<tool_call>{CALL}</tool_call>\n```\n\nThat is all.",
        "The model writes <tool_call> before its calls.",
        "The model writes <tool_call> and then you can complete it.",
        f"An example:\n\n~~~\n<tool_call>{CALL}</tool_call>\n~~~\n",
        f"An example:\n\n````markdown\n```\n<tool_call>{CALL}</tool_call>\n```\n````\n",
        f"An example:\n\n    <tool_call>{CALL}</tool_call>\n",
        f"The mark ``<tool_call>{CALL}`` is one.",
        'text.split("<tool_call>") finds it',
        f"```\n<tool_call>{CALL}</tool_call>\n```\nis a call.",
        "Use this:\n\n```python\nwrite_file(path='a.txt')\n```\n\nIt writes a file.",
        "<html>\n<write_file>x</write_file>\n</html>",
        nonsense(200) + f"\n```json\n{CALL}\n```",
        f"First:\n```python\nprint(1)\n```\nThen:\n```json\n{CALL}\n```",
        '{"name": "Ada", "age": 36}',
        '{"name": "write_file", "arguments": {"file": "a.txt"}}',
        '{"name": "write_file", "arguments": {"path": 7}}',
        '{"name": "fly", "arguments": {}}',
        '{"name": "complete", "version": "1.0.0"}',
        '```json\n{"a": 1}\n```',
        f'[{CALL}, {{"path": "a.txt"}}]',
        "[]",
        "{" * 5_000,
    ],
)
def test_an_answer_that_quotes_json_stays_an_answer(text: str) -> None:
    written = written_calls(text, TOOLS)
    assert (written.text, written.calls) == (text, [])


def test_any_text_is_read_without_an_error_and_nothing_is_a_call_without_tools() -> None:
    marks = "<tool_call> </tool_call> <function= > { } [ write_file ``` `"
    pieces = ('"name":', "\n", *marks.split())
    for number in range(3_000):
        text = "".join(pieces[(number * 7 + at * (number % 11 + 1)) % len(pieces)] for at in range(number % 17))
        written_calls(text, TOOLS)
        assert written_calls(text, ()).text == text


async def test_a_written_call_is_neither_text_nor_streamed(stream: bool) -> None:
    streamed: list[str] = []
    text = f"I write it.\n<tool_call>{CALL}</tool_call>"
    answers = [Answer(text=one) for one in ("Hello.", text, CALL, f"<think>hm</think>{text}")]
    async with talking(answers, stream=stream) as (client, _):
        await client.step(work(tools=TOOLS))
        for expected in ("I write it.", "", "I write it."):
            step = await client.step(work(tools=TOOLS), streamed.append)
            assert (step.text, [call.tool for call in step.calls]) == (expected, ["write_file"])
            assert step.calls[0].arguments == {"path": "a.txt"}
    assert all("I write it.".startswith(one.strip()) for one in streamed)


async def test_native_calls_leave_the_text_as_it_is() -> None:
    answer = Answer(text=CALL, calls=(Call(tool="complete", arguments={"response": "x"}),))
    (step,), _ = await asked(answer, work(tools=TOOLS))
    assert (step.text, [call.tool for call in step.calls]) == (CALL, ["complete"])


@pytest.mark.parametrize(
    "text",
    [
        "```tool_code\n" * 3_000,
        "<start_function_call>call:write_file{" * 3_000,
        "<tool_call>write_file<arg_key>a" * 3_000,
    ],
)
def test_marks_that_are_repeated_thousands_of_times_are_read(text: str) -> None:
    """The first nested the reader so deep that Python gave up; the others took time by the square of their length."""
    assert all(call.fault or call.arguments == {} for call in written_calls(text, (WRITE,)).calls)


def test_an_argument_in_tags_that_is_not_closed_is_asked_for_again() -> None:
    text = "<tool_call>write_file<arg_key>path</arg_key><arg_value>a<arg_key>content</arg_key><arg_value>b</arg_value>"
    (call,) = written_calls(text, (WRITE,)).calls
    assert call.fault


@pytest.mark.parametrize(
    ("written", "names", "meant"),
    [
        ("WriteFile", ["write_file", "read_file"], "write_file"),
        ("functions.odd__UPPER:0", ["odd__UPPER"], "odd__UPPER"),
        ("odd__upper", ["odd__UPPER"], "odd__upper"),
        ("odd__UPPER", ["odd__upper", "write_file"], "odd__UPPER"),
        ("odd_upper", ["odd__upper"], "odd_upper"),
        ("Odd__upper", ["odd__upper"], "Odd__upper"),
    ],
)
def test_a_tool_of_a_server_is_called_by_its_exact_name_alone(written: str, names: list[str], meant: str) -> None:
    assert offered_name(written, names) == meant
