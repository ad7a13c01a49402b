"""A question of a server is a message to a person, and their words are the values that it wants."""

from types import SimpleNamespace
from typing import Any

import pytest

from tenex.mcp.questions import NoAnswer, ServerQuestion, needs_input, question_in

FORM: dict[str, dict[str, Any]] = {
    "count": {"type": "integer", "description": "how many"},
    "size": {"type": "string", "enum": ["Small", "Large"]},
    "gift": {"type": "boolean"},
}


def form(*names: str, required: tuple[str, ...] = ()) -> ServerQuestion:
    fields = {name: FORM[name] for name in names}
    return ServerQuestion(key="q", message="What do you\nwant?", url="", fields=fields, required=frozenset(required))


def test_the_message_names_the_server_the_fields_and_how_to_answer() -> None:
    assert form("count", "size", required=("count",)).text("shop").splitlines() == [
        "The MCP server shop asks: What do you want?",
        "- count (integer): how many",
        "- size (one of: Small, Large, optional)",
        "Answer with a line for each, `name: value`, or `decline`.",
    ]
    page = ServerQuestion(key="q", message="Log in", url="https://x.example", fields={}, required=frozenset())
    assert "It wants you to open https://x.example." in page.text("shop")


@pytest.mark.parametrize(
    ("names", "answer", "values"),
    [
        (("count",), " 7 ", {"count": 7}),
        (("size",), "large", {"size": "Large"}),
        (("gift",), "No", {"gift": False}),
        ((), "yes", {}),
        ((), "no", None),
        (("count",), "Decline.", None),
        (("count", "gift"), "Count: 2\n- gift: yes\nthanks", {"count": 2, "gift": True}),
        (("count", "size"), "size: small", {"size": "Small"}),
    ],
)
def test_an_answer_gives_the_values_of_the_fields(names: tuple[str, ...], answer: str, values: Any) -> None:
    assert form(*names).read(answer) == values


@pytest.mark.parametrize(
    ("names", "required", "answer", "why"),
    [
        (("count",), (), "many", "count is a number"),
        (("size",), (), "medium", "size is one of: Small, Large"),
        (("gift",), (), "perhaps", "gift is yes or no"),
        ((), (), "perhaps", "Answer yes or no"),
        (("count", "gift"), ("count",), "gift: yes", "Missing: count"),
        (("count", "gift"), (), "hello", "Missing: count, gift"),
    ],
)
def test_what_is_no_answer_says_why(names: tuple[str, ...], required: tuple[str, ...], answer: str, why: str) -> None:
    with pytest.raises(NoAnswer, match=why):
        form(*names, required=required).read(answer)


def test_only_one_question_to_a_person_at_a_time_is_asked() -> None:
    ask = SimpleNamespace(
        method="elicitation/create",
        params=SimpleNamespace(message="Which?", requested_schema={"properties": {"a": {"type": "string"}}}),
    )
    sample = SimpleNamespace(method="sampling/createMessage", params=None)

    def result(**requests: Any) -> Any:
        return SimpleNamespace(result_type="input_required", input_requests=requests)

    question = question_in(result(k=ask))
    assert question is not None
    assert (question.key, question.message, list(question.fields)) == ("k", "Which?", ["a"])
    assert needs_input(result())
    for odd in (result(), result(a=ask, b=ask), result(a=sample)):
        assert question_in(odd) is None
    assert not needs_input(SimpleNamespace(result_type="complete"))
