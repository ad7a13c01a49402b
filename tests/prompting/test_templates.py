"""Templates are strict, sandboxed and know only each other."""

from typing import Any

import pytest

from tenex.core.errors import ConfigurationError
from tenex.prompting.templates import Source, Templates


def templates(**texts: str) -> Templates:
    return Templates({name: Source(text, f"{name}.md.j2") for name, text in texts.items()})


def render(text: str, **values: Any) -> str:
    return templates(one=text).render("one", values)


def test_values_are_inserted_as_they_are() -> None:
    """Neither escaped for HTML nor read as a template."""
    hostile = "{{ secret }} {% raw %} <b> & ''"
    assert render("{{ words }}", words=hostile, secret="s") == hostile


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
        "{{ unknown }}",
    ],
)
def test_the_sandbox_lets_nothing_out(text: str) -> None:
    numbers = [0]
    with pytest.raises(ConfigurationError, match=r"one\.md\.j2:2"):
        render(f"first\n{text}", x=object(), f=render, numbers=numbers)
    assert numbers == [0]


def test_an_include_sees_the_given_templates_and_no_file() -> None:
    pair = templates(one="{% include 'two' %}", two="second", three="{% include '/etc/hostname' %}")
    assert pair.render("one", {}) == "second"
    with pytest.raises(ConfigurationError, match=r"three\.md\.j2:1"):
        pair.render("three", {})


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        *(
            (text, "cannot be rendered")
            for text in ("{% if %}", "{{ a", "{% endfor %}", "{{ 1 | no }}", "{{ 1 // 0 }}")
        ),
        ("{% if a %}{{ typo }}{% endif %}", "there is no variable 'typo'. There are: a."),
        ("{{ a.b }}", "the template cannot be rendered: "),
        ("{% for x in a %}{{ x }}{% endfor %}", ""),
    ],
)
def test_each_fault_is_reported_once_with_its_line(text: str, fault: str) -> None:
    faults = templates(one="\n" + text).faults("one", [{"a": {}}, {"a": {}}])
    assert len(faults) == bool(fault)
    assert all(found.startswith("one.md.j2:2: ") and fault in found and not found.endswith("..") for found in faults)
