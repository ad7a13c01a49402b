"""Templates are strict, sandboxed and know only each other."""

from typing import Any

import pytest

from tenex.core.errors import ConfigurationError
from tenex.prompting.templates import Source, Templates


def templates(**texts: str) -> Templates:
    return Templates({name: Source(text, f"{name}.md.j2") for name, text in texts.items()})


def render(text: str, **values: Any) -> str:
    return templates(one=text).render("one", values)


def test_values_are_inserted_as_they_stand() -> None:
    """Neither escaped for HTML nor read as a template."""
    hostile = "{{ secret }} {% raw %} <b> & ''"
    assert render("{{ words }}", words=hostile, secret="s") == hostile


def test_an_unknown_name_is_an_error_with_file_and_line() -> None:
    with pytest.raises(ConfigurationError, match=r"one\.md\.j2:2: .*'nobody' is undefined"):
        render("first\n{{ nobody }}")


@pytest.mark.parametrize(
    "text",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ ''['__class__'] }}",
        "{{ x.__init__.__globals__ }}",
        "{{ '{0.__class__}'.format(x) }}",
        "{{ f.__globals__ }}",
        "{{ x | attr('__class__') }}",
        "{{ numbers.append(1) }}",
        "{{ self.__init__ }}",
        "{{ lipsum() }}",
        "{{ range(3) }}",
    ],
)
def test_the_sandbox_lets_nothing_out(text: str) -> None:
    values: dict[str, Any] = {"x": object(), "f": render, "numbers": [0]}
    try:
        shown = render(text, **values)
    except ConfigurationError:
        return
    assert "class" not in shown
    pytest.fail(f"the template was rendered: {shown}")


def test_the_sandbox_leaves_values_as_they_were() -> None:
    numbers = [1]
    with pytest.raises(ConfigurationError, match="unsafe"):
        render("{{ numbers.append(2) }}", numbers=numbers)
    assert numbers == [1]


def test_an_include_sees_the_given_templates_and_no_file() -> None:
    pair = templates(one="{% include 'two' %}", two="second", three="{% include '/etc/hostname' %}")
    assert pair.render("one", {}) == "second"
    with pytest.raises(ConfigurationError, match=r"three\.md\.j2:1"):
        pair.render("three", {})


def test_a_name_in_a_branch_that_no_sample_takes_is_found() -> None:
    (fault,) = templates(one="x\n{% if no %}{{ typo }}{% endif %}").faults("one", [{"no": False}])
    assert fault == "one.md.j2:2: there is no variable 'typo'. There are: no."


def test_an_attribute_that_is_missing_is_found_by_rendering() -> None:
    (fault,) = templates(one="{{ a.b }}").faults("one", [{"a": {"b": 1}}, {"a": {}}])
    assert fault.startswith("one.md.j2:1: the template cannot be rendered: ")


@pytest.mark.parametrize("text", ["{% if %}", "{{ a", "{% endfor %}", "{{ 1 | no_such_filter }}", "{{ 1 // 0 }}"])
def test_bad_syntax_and_bad_expressions_are_faults(text: str) -> None:
    (fault,) = templates(one="\n" + text).faults("one", [{"a": 1}])
    assert not fault.endswith("..")
    assert fault.startswith("one.md.j2:2: the template cannot be rendered: ")


def test_the_same_fault_in_many_samples_is_told_once() -> None:
    assert len(templates(one="{{ a.b }}").faults("one", [{"a": {}}, {"a": {}}])) == 1


def test_a_good_template_has_no_faults() -> None:
    assert templates(one="{% for x in a %}{{ x }}{% endfor %}").faults("one", [{"a": [1]}, {"a": []}]) == ()
