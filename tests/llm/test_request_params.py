"""How a request is put: the form of a structured answer, and stable parameters."""

import pytest
from pydantic_ai.models import Model
from pydantic_ai.models.test import TestModel
from pydantic_ai.profiles import ModelProfile

from tenex.llm.request_params import DECISION, Form, best_form, parameters

from .clients import WRITE, route, work


@pytest.mark.parametrize(
    ("profile", "form"),
    [
        (ModelProfile(supports_json_schema_output=True), Form.NATIVE),
        (ModelProfile(supports_json_schema_output=False), Form.TOOL),
        (ModelProfile(supports_json_schema_output=False, supports_tools=False), Form.TEXT),
    ],
)
def test_the_strictest_form_a_model_takes_is_used(profile: ModelProfile, form: Form) -> None:
    model: Model = TestModel(profile=profile)
    assert best_form(model) is form


def test_each_form_asks_for_the_same_schema() -> None:
    request = route()
    native, tool, text = (parameters(request, form) for form in (Form.NATIVE, Form.TOOL, Form.TEXT))
    assert native.output_object is not None
    assert native.output_object.json_schema == tool.output_tools[0].parameters_json_schema == request.output_schema
    assert (tool.output_tools[0].name, tool.allow_text_output) == (DECISION, False)
    assert text.instruction_parts is not None
    words = text.instruction_parts[0].content
    assert words.startswith(request.system)
    assert '"required":["agents","reason"]' in words
    assert not text.output_tools


@pytest.mark.parametrize("form", list(Form))
def test_equal_requests_give_equal_parameters(form: Form) -> None:
    assert parameters(route(), form) == parameters(route(), form)
    assert parameters(work(tools=(WRITE,)), Form.TEXT) == parameters(work(tools=(WRITE,)), Form.TEXT)


def test_a_request_for_work_offers_its_tools_as_they_are() -> None:
    made = parameters(work(tools=(WRITE,)), Form.NATIVE)
    assert [(tool.name, tool.description, tool.parameters_json_schema) for tool in made.function_tools] == [
        (WRITE.name, WRITE.description, WRITE.parameters)
    ]
    assert parameters(work(system=""), Form.TEXT).instruction_parts == []
