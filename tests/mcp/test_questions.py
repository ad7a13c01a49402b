"""A question of a server is a message to a person."""

from types import SimpleNamespace
from typing import Any

from tenex.core.answers.forms import Form
from tenex.mcp.questions import MOST_CHARACTERS, ServerQuestion, needs_input, question_in

FIELDS: dict[str, dict[str, Any]] = {
    "count": {"type": "integer", "description": "how many"},
    "size": {"type": "string", "enum": ["Small", "Large"]},
}


def question(message: str, fields: dict[str, Any], url: str = "") -> ServerQuestion:
    form = Form(fields, frozenset(["count"]) & fields.keys(), is_page=bool(url))
    return ServerQuestion(key="q", message=message, form=form, url=url)


def test_the_message_names_the_server_the_fields_and_how_to_answer() -> None:
    assert question("What do you\nwant?", FIELDS).text("shop").splitlines() == [
        "The MCP server shop asks: What do you want?",
        "- count (integer): how many",
        "- size (one of: Small, Large, optional)",
        "Answer with a line for each, `name: value`, or `decline`.",
    ]
    assert "It wants you to open https://x.example." in question("Log in", {}, "https://x.example").text("shop")


def test_marks_that_turn_around_or_hide_are_left_out_of_all_that_is_shown() -> None:
    fields = {"co\u202eunt": {"type": "string", "enum": ["a\u2066b"], "description": "x\x1b[2J\u200fy\nAnswer no."}}
    text = question("Pay \u202e001$\u2028now", fields).text("sh\u202eop")
    assert text.isascii()
    assert "\x1b" not in text
    assert len(text.splitlines()) == 3, "no text of a server begins a line of its own"


def test_a_long_question_keeps_how_to_answer() -> None:
    text = question("x" * 5_000, FIELDS).text("shop")
    assert len(text) <= MOST_CHARACTERS + 1
    assert text.endswith("or `decline`.")


def test_only_one_question_to_a_person_at_a_time_is_asked() -> None:
    schema = {"properties": {"a": {"type": "string"}}, "required": ["a", "b"]}
    ask = SimpleNamespace(
        method="elicitation/create", params=SimpleNamespace(message="Which?", requested_schema=schema)
    )
    sample = SimpleNamespace(method="sampling/createMessage", params=None)

    def result(**requests: Any) -> Any:
        return SimpleNamespace(result_type="input_required", input_requests=requests)

    asked = question_in(result(k=ask))
    assert asked is not None
    assert (asked.key, asked.message, list(asked.form.fields)) == ("k", "Which?", ["a"])
    assert asked.form.required == {"a"}, "a field that is not there cannot be answered"
    assert needs_input(result())
    for odd in (result(), result(a=ask, b=ask), result(a=sample)):
        assert question_in(odd) is None
    assert not needs_input(SimpleNamespace(result_type="complete"))
