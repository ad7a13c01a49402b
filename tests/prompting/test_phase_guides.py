"""A phase's file is read whole, or every error in it is reported."""

import pytest

from tenex.core.phases import Phase
from tenex.prompting.phase_guides import HEADINGS, read_guide

GOOD = "\n\n".join(f"## {heading}\n\nText of {heading}." for heading in HEADINGS) + "\n"


def test_a_good_file_gives_what_the_router_reads_and_what_agents_read() -> None:
    faults: list[str] = []
    guide = read_guide(Phase.PLAN, GOOD, "plan.md", faults)
    assert faults == []
    assert guide is not None
    assert (guide.phase, guide.purpose, guide.enter) == (Phase.PLAN, "Text of Purpose.", "Text of Enter when.")
    assert guide.text.startswith("Text of Purpose.\n\n## Do\nText of Do.\n\n## Leave when\n")
    assert "Enter" not in guide.text


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (GOOD.replace("## Do\n\nText of Do.\n\n", ""), "plan.md: the heading `## Do` is missing."),
        (GOOD.replace("## Do", "## Doo"), "plan.md:9: `## Doo` is not a heading of a phase."),
        (GOOD.replace("## Do", "# Do"), "plan.md:9: `# Do` is not a heading of a phase."),
        (GOOD + "## Do\n\nAgain.\n", "plan.md:20: `## Do` appears twice."),
        (GOOD.replace("Text of Do.", ""), "plan.md:9: `## Do` is empty."),
        ("Hello\n" + GOOD, "plan.md:1: there is text before the first heading."),
        (GOOD.replace("Enter when", "?").replace("## Do", "## Enter when").replace("?", "Do"), "in the wrong order"),
        ("", "the heading `## Purpose` is missing."),
    ],
)
def test_an_error_is_reported_with_its_line(text: str, fault: str) -> None:
    faults: list[str] = []
    assert read_guide(Phase.PLAN, text, "plan.md", faults) is None
    assert any(fault in found for found in faults), faults


def test_all_errors_of_a_file_are_reported_at_once() -> None:
    faults: list[str] = []
    read_guide(Phase.PLAN, "x\n" + GOOD.replace("## Do", "## Doo").replace("Text of Purpose.", ""), "plan.md", faults)
    assert len(faults) == 4  # text before, empty purpose, unknown heading, missing heading
