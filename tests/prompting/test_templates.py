"""Templates are strict, sandboxed and know only each other."""

import pytest

from tenex.core.errors import ConfigurationError
from tenex.prompting.templates import Source, Templates


def templates(**texts: str) -> Templates:
    return Templates({name: Source(text, f"{name}.md.j2") for name, text in texts.items()})


def test_values_are_inserted_as_they_are_and_an_include_finds_no_file() -> None:
    """Neither escaped for HTML nor read as a template."""
    hostile = "{{ secret }} {% raw %} <b> & ''"
    pair = templates(one="{{ words }}{% include 'two' %}", two=" second", three="{% include '/etc/hostname' %}")
    assert pair.render("one", {"words": hostile, "secret": "s"}) == f"{hostile} second"
    with pytest.raises(ConfigurationError, match=r"three\.md\.j2:1"):
        pair.render("three", {})


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
        templates(one=f"first\n{text}").render("one", {"x": object(), "f": templates, "numbers": numbers})
    assert numbers == [0]


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
