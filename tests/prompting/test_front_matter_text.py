"""What a person writes in front matter is kept as they meant it, or an error with its line and the remedy."""

import pytest

from tenex.prompting.frontmatter import FrontMatterReader

KEPT = (
    "about C#or3",
    "yes",
    "no",
    "012",
    "1_000",
    "12:30",
    "2026-11-26",
    "null and void",
    '"about C# or #3"',
    "~/notes",
)
CUT = ("about C# or #3", "a, b #c", "!word about files", "&word about files", "!!str x")
REFUSED = ("x\t# y", "*x", "a: b: c", "@x", "`x`", "%x", "- x", "[a", "{a", '"a')


def read(value: str) -> tuple[str | None, list[str]]:
    reader = FrontMatterReader("agent.md", [])
    front = reader.read(f"name: A\nrole: r\nkind: worker\nuse_when: {value}\nin_phases: [execute]  # where it works\n")
    return front.use_when if front is not None else None, reader.faults


@pytest.mark.parametrize("value", KEPT)
def test_a_text_is_kept_as_it_is_written(value: str) -> None:
    assert read(value) == (value.strip('"'), [])


@pytest.mark.parametrize("value", CUT)
def test_a_text_of_which_yaml_takes_a_part_for_something_else_is_refused(value: str) -> None:
    """`use_when: about C# or #3` was cut at ` #` without a word, and `!word` and `&word` vanished."""
    kept, (fault,) = read(value)
    assert kept is None
    assert fault.startswith("agent.md:5: `use_when`: ")
    assert "in quotes" in fault


@pytest.mark.parametrize("value", REFUSED)
def test_a_text_that_is_no_yaml_is_refused_with_the_remedy(value: str) -> None:
    kept, (fault,) = read(value)
    assert kept is None
    assert fault.startswith("agent.md:")
    assert "in quotes" in fault
