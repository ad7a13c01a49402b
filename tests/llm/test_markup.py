"""Special tokens of chat templates: calls are read, thoughts stay private, and no token is ever published."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.messages import ModelResponse, TextPart, ThinkingPart, ToolCallPart

from tenex.core.errors import ModelRefused
from tenex.core.messages import CallRequest, ModelStep, Usage
from tenex.llm.markup import rewritten
from tenex.llm.response import step_of
from tenex.llm.written_calls import written_calls
from tests.fakes.modelprotocol import Answer, Call, Fails
from tests.kits.written_calls import CALL, MARKED, TOOLS

from .clients import WRITE, asked, talking, work

ARGS = '{"path": "a.txt"}'
HARMONY_CALL = f"<|channel|>commentary to=functions.write_file <|constrain|>json<|message|>{ARGS}<|call|>"
DSML = (
    '<｜DSML｜function_calls>\n<｜DSML｜invoke name="write_file">\n<｜DSML｜parameter name="path" string="true">a.txt'
    "</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>"
)
CALLS = (
    HARMONY_CALL,
    f"<|start|>assistant to=functions.write_file<|channel|>commentary json<|message|>{ARGS}<|call|>",
    f"<|channel|>analysis<|message|>SECRET<|end|><|start|>assistant{HARMONY_CALL}",
    DSML,
    DSML.replace("｜", "|"),
    f"analysisSECRETassistantcommentary to=functions.write_file json{ARGS}",
    f'<|START_THINKING|>SECRET<|END_THINKING|><|START_ACTION|>[{{"tool_name": "write_file", "parameters": {ARGS}}}]',
    '<|open|>call tool="write_file"<|sep|><|open|>argument key="path"<|sep|>a.txt<|close|>argument<|sep|>',
    f"<|open|>tools<|sep|><tool_call>{CALL}</tool_call><|close|>tools<|sep|>",
)


def step(*parts: Any, finish: Any = None, **more: Any) -> ModelStep:
    usage = Usage(input_tokens=7, output_tokens=3)
    return step_of(ModelResponse(parts=parts, finish_reason=finish, **more), "p:m", "p:p", usage, tools=TOOLS)


def only(made: ModelStep) -> CallRequest:
    (call,) = made.calls
    return call


@pytest.mark.parametrize("text", CALLS)
@pytest.mark.parametrize("lead", ["", "I write it.\n"])
def test_a_call_in_special_tokens_is_a_call_and_no_token_is_text(text: str, lead: str) -> None:
    made = step(TextPart(lead + text))
    assert (only(made).tool, only(made).arguments, only(made).fault) == ("write_file", {"path": "a.txt"}, "")
    assert made.text.strip() in ("", lead.strip())


def test_a_thought_in_harmony_that_nothing_opened_stays_private() -> None:
    made = step(TextPart(f"SECRET<|end|><|start|>assistant{HARMONY_CALL}"))
    assert (made.text, made.thinking, only(made).arguments) == ("", "SECRET", {"path": "a.txt"})


@pytest.mark.parametrize(
    "text",
    [
        "<|channel|>analysis<|message|>SECRET<|end|><|start|>assistant<|channel|>final<|message|>It is made.<|return|>",
        "analysisSECRETassistantfinalIt is made.",
        "<|START_THINKING|>SECRET<|END_THINKING|><|START_RESPONSE|>It is made.<|END_RESPONSE|>",
        "<|open|>think<|sep|>SECRET<|close|>think<|sep|><|open|>response<|sep|>It is made.<|close|>response<|sep|>",
        "<|begin_of_thought|>SECRET<|end_of_thought|><|begin_of_solution|>It is made.<|end_of_solution|>",
        "SECRET\n[BEGIN FINAL RESPONSE]\nIt is made.\n[END FINAL RESPONSE]",
        "<think>SECRET</think><response>It is made.</response>",
    ],
)
def test_a_thought_in_tokens_stays_private(text: str) -> None:
    made = step(TextPart(text))
    assert (made.text.strip(), made.thinking.strip()) == ("It is made.", "SECRET")


@pytest.mark.parametrize(
    "thought",
    [
        "SECRET\n<tool_call>\n<function=write_file>\n<parameter=path>\na.txt\n</parameter>\n</function>\n</tool_call>",
        f'SECRET\n<tool_call>{{"name": "write_file", "arguments": {ARGS}}}</tool_call>',
        f"SECRET{HARMONY_CALL}",
    ],
)
def test_a_call_within_the_thoughts_is_read_where_there_is_nothing_else(thought: str) -> None:
    made = step(ThinkingPart(thought))
    assert (only(made).tool, only(made).arguments) == ("write_file", {"path": "a.txt"})
    assert not made.text
    said = step(ThinkingPart(thought), TextPart("It is made."))
    assert (said.calls, said.text) == ((), "It is made.")


@pytest.mark.parametrize(
    "end",
    [
        "<|im_end|>",
        "<|eot_id|>",
        "</s>",
        "<end_of_turn>",
        "<|endoftext|>",
        "<|return|>\n",
        "<｜end▁of▁sentence｜>",
        "<turn|>",
        "<|user|>",
        "<|observation|>",
        "[|endofturn|]",
        "[EOS]",
        "<|im_end|>\n<|im_start|>user\nThanks!<|im_end|>",
        "<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nNext",
        "\n</tool_call>",
        "\n</function>\n</tool_call>",
    ],
)
def test_a_token_that_ends_an_answer_is_left_out(end: str) -> None:
    assert step(TextPart(f"It is made.{end}")).text == "It is made."


@pytest.mark.parametrize(
    "begin",
    [
        "<|im_start|>assistant\n",
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
        "<|assistant|>",
        "<|begin_of_text|>",
        "<|start_of_role|>assistant<|end_of_role|>",
    ],
)
def test_a_token_that_begins_an_answer_is_left_out(begin: str) -> None:
    assert step(TextPart(f"{begin}It is made.")).text == "It is made."


@pytest.mark.parametrize(
    "text",
    [
        "Harmony begins a message with `<|channel|>`, then `<|message|>`.",
        "gpt-oss writes `<|channel|>final<|message|>` before its answer.",
        "A message:\n\n```\n<|start|>assistant<|channel|>final<|message|>Hi<|return|>\n```\n\nEach has a header.",
        "~~~\n<|im_start|>user\nHi<|im_end|>\n~~~",
        f"```\n{HARMONY_CALL}\n```\nis a call.",
        "It stops at `<|im_end|>`",
        "Mistral wraps requests in [INST] and [/INST]",
        "Strike a word with <s>word</s>",
        "Use a <|> b, a <| f or [|x|].",
    ],
)
def test_a_text_about_tokens_is_published_as_it_is(text: str) -> None:
    made = step(TextPart(text))
    assert (made.text, made.calls) == (text, ())


@pytest.mark.parametrize(
    "text",
    [
        "<|tool_call_begin|>",
        "<tool_call>",
        "Now.\n<tool_call>\n",
        "<|fim_middle|>x",
        "It is <|made|>.",
        "<tool_response>\nok\n</tool_response>\nIt is made.",
        "<|im_start|>user\nHi",
    ],
)
def test_a_token_without_a_call_is_asked_for_again(text: str) -> None:
    for tools in (TOOLS, ()):
        usage = Usage(input_tokens=7, output_tokens=3)
        with pytest.raises(ModelRefused, match="cannot be read"):
            step_of(ModelResponse(parts=[TextPart(text)]), "p:m", "p:p", usage, tools=tools)


@pytest.mark.parametrize(
    "rest",
    [
        "<|tool_call_end|><|tool_calls_section_end|>",
        "<tool_call>",
        f"\n<tool_call>\n{ARGS}\n</tool_call>",
        "</tool_call>",
    ],
)
def test_what_a_server_left_of_a_call_that_it_took_out_is_no_text(rest: str) -> None:
    made = step(TextPart(f"I write it.{rest}"), ToolCallPart("write_file", ARGS, tool_call_id="c"))
    assert (made.text, only(made).tool) == ("I write it.", "write_file")


@pytest.mark.parametrize(
    "name",
    [
        "write_file<|channel|>commentary",
        "functions.write_file",
        "functions.write_file:0",
        "default_api.write_file",
        " write_file ",
        "WriteFile",
        "write-file",
    ],
)
def test_a_name_means_the_one_tool_that_it_holds(name: str) -> None:
    assert only(step(ToolCallPart(name, ARGS, tool_call_id="c"))).tool == "write_file"


@pytest.mark.parametrize("name", ["rewrite_files", "fly", "write_file_and_complete", "complete.write_file"])
def test_a_name_that_means_no_tool_or_two_is_left_as_it_is(name: str) -> None:
    assert only(step(ToolCallPart(name, ARGS, tool_call_id="c"))).tool == name


@pytest.mark.parametrize(
    "args", [ARGS + ARGS, f"{ARGS}\n{ARGS}", f"{ARGS}<|call|>", f"```json\n{ARGS}\n```", f" {ARGS}</s>"]
)
def test_arguments_that_are_repeated_or_wrapped_are_taken_once(args: str) -> None:
    request = only(step(ToolCallPart("write_file", args, tool_call_id="c")))
    assert (request.arguments, request.fault) == ({"path": "a.txt"}, "")


def test_two_different_arguments_are_a_fault() -> None:
    request = only(step(ToolCallPart("write_file", ARGS + '{"path": "b.txt"}', tool_call_id="c")))
    assert request.arguments == {}
    assert "no valid JSON" in request.fault


async def test_a_call_that_a_server_gives_back_in_its_error_is_a_failed_call() -> None:
    generation = f"<function=write_file>{ARGS}</function>"
    body = {
        "error": {"message": "Failed to call a function.", "code": "tool_use_failed", "failed_generation": generation}
    }
    (made,), server = await asked(Fails(status=400, body=body), work(tools=(WRITE,)))
    assert (only(made).tool, only(made).arguments) == ("write_file", {})
    assert generation in only(made).fault
    assert len(server.exchanges) == 1


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "Failed to call a function. Please adjust your prompt."),
        (500, "Failed to parse input at pos 12: <tool_call>"),
        (500, "error parsing tool call: raw='{\"path\":', err=unexpected end of JSON input"),
        (400, "Failed to parse tool call: Unexpected token"),
    ],
)
async def test_a_call_that_no_one_could_read_is_asked_for_again_and_is_no_outage(status: int, message: str) -> None:
    (failed,), server = await asked(Fails(status=status, message=message), work(tools=(WRITE,)))
    assert isinstance(failed, ModelRefused)
    assert len(server.exchanges) == 1


def test_a_malformed_call_of_gemini_is_asked_for_again() -> None:
    with pytest.raises(ModelRefused):
        step(finish="error", provider_details={"finish_reason": "MALFORMED_FUNCTION_CALL"})


async def test_names_and_arguments_are_read_through_a_real_server(stream: bool) -> None:
    answer = Answer(calls=(Call(tool="functions.write_file", arguments=ARGS + ARGS),))
    (made,), _ = await asked(answer, work(tools=(WRITE,)), stream=stream)
    assert (only(made).tool, only(made).arguments) == ("write_file", {"path": "a.txt"})


@pytest.mark.parametrize("text", [*CALLS, *(text for text in MARKED if not text.startswith(("```json", "```\n")))])
async def test_no_mark_is_shown_while_an_answer_is_streamed(text: str) -> None:
    streamed: list[str] = []
    async with talking([Answer(text="Hello."), Answer(text=f"I write it.\n{text}")], stream=True) as (client, _):
        await client.step(work(tools=TOOLS))
        made = await client.step(work(tools=TOOLS), streamed.append)
    assert [call.tool for call in made.calls] == ["write_file"]
    assert all("I write it.".startswith(one.strip()) for one in streamed)


@given(
    st.lists(
        st.sampled_from(["<|channel|>", "analysis", "<|message|>", "final", " to=functions.x", "<|end|>", "a", "\n"])
    )
)
def test_no_token_of_harmony_is_ever_left(pieces: list[str]) -> None:
    text = rewritten("".join(pieces))
    if "<|message|>" in pieces or "<|channel|>" in pieces:
        assert "<|" not in text
    written_calls(text, TOOLS)
