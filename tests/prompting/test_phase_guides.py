"""A phase's file is read whole, or every error in it is reported; headings split a text."""

import pytest

from tenex.core.phases import Phase
from tenex.prompting.markdown import sections
from tenex.prompting.phase_guides import HEADINGS, PhaseGuide, read_guide

GOOD = "\n\n".join(f"## {heading}\n\nText of {heading}." for heading in HEADINGS) + "\n"


def read(text: str) -> tuple[PhaseGuide | None, list[str]]:
    faults: list[str] = []
    return read_guide(Phase.PLAN, text, "plan.md", faults), faults


def test_a_good_file_gives_what_the_router_reads_and_what_agents_read() -> None:
    guide, faults = read(GOOD)
    assert faults == []
    assert guide is not None
    assert (guide.phase, guide.purpose, guide.enter) == (Phase.PLAN, "Text of Purpose.", "Text of Enter when.")
    assert guide.text.startswith("Text of Purpose.\n\n## Do\nText of Do.\n\n## Leave when\n")
    assert "Enter" not in guide.text


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        (GOOD.replace("## Do\n\nText of Do.\n\n", ""), [": the heading `## Do` is missing."]),
        (GOOD + "## Do\n\nAgain.\n", [":20: `## Do` appears twice."]),
        (GOOD.replace("Text of Do.", ""), [":9: `## Do` is empty."]),
        ("Hello\n" + GOOD, [":1: there is text before the first heading."]),
        (
            GOOD.replace("Enter when", "?").replace("## Do", "## Enter when").replace("?", "Do"),
            [": the headings are in the wrong order."],
        ),
        ("", [f": the heading `## {heading}` is missing." for heading in HEADINGS]),
        (
            "x\n" + GOOD.replace("## Do", "# Do").replace("Text of Purpose.", ""),
            [":1: there is", ":2: `## Purpose` is empty.", ":10: `# Do` is not a heading of a phase.", ": the heading"],
        ),
    ],
)
def test_all_errors_of_a_file_are_reported_with_their_lines(text: str, faults: list[str]) -> None:
    guide, found = read(text)
    assert guide is None
    assert len(found) == len(faults), found
    assert all(fault.startswith(f"plan.md{part}") for fault, part in zip(found, faults, strict=True)), found


def test_each_section_knows_its_heading_line_and_text() -> None:
    before, one, two = sections("hello\n\n# One\ntext\n\n### deeper\nmore\n## Two ##\n", first_line=10)
    assert (before.level, before.heading, before.text) == (0, "", "hello")
    assert (one.level, one.heading, one.line, one.text) == (1, "One", 12, "text\n\n### deeper\nmore")
    assert (two.level, two.heading, two.line, two.text, two.source) == (2, "Two", 17, "", "## Two ##")
