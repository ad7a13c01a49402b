"""Reads the instructions of a phase: `prompts/phases/<phase>.md`, five headings in a fixed order."""

from dataclasses import dataclass

from tenex.core.phases import Phase

from .markdown import MarkdownSection, sections

HEADINGS = ("Purpose", "Enter when", "Do", "Leave when", "Constraints")


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseGuide:
    """The instructions of a phase, checked to be complete."""

    phase: Phase
    purpose: str
    enter: str
    """When it is entered, for the router."""
    text: str
    """Purpose, what to do, when it is left and its constraints, for the agents that work in it."""


def read_guide(phase: Phase, text: str, source: str, faults: list[str]) -> PhaseGuide | None:
    """Read a phase's file; None after adding errors to `faults`."""
    before, *found = sections(text)
    known = len(faults)
    if before.text:
        faults.append(f"{source}:1: there is text before the first heading. Begin with `## {HEADINGS[0]}`.")
    wanted = ", ".join(f"`## {heading}`" for heading in HEADINGS)
    seen: dict[str, MarkdownSection] = {}
    for section in found:
        where = f"{source}:{section.line}"
        if section.level != 2 or section.heading not in HEADINGS:
            written = f"{'#' * section.level} {section.heading}"
            faults.append(f"{where}: `{written}` is not a heading of a phase. The headings are: {wanted}.")
        elif section.heading in seen:
            faults.append(f"{where}: `## {section.heading}` appears twice. Keep one.")
        else:
            seen[section.heading] = section
            if not section.text:
                faults.append(f"{where}: `## {section.heading}` is empty. Write at least one sentence.")
    faults.extend(
        f"{source}: the heading `## {heading}` is missing. Add it." for heading in HEADINGS if heading not in seen
    )
    if len(seen) == len(HEADINGS) and tuple(seen) != HEADINGS:
        faults.append(f"{source}: the headings are in the wrong order. The order is: {wanted}.")
    if len(faults) > known:
        return None
    purpose, enter, *others = (section.text for section in seen.values())
    text = "\n\n".join(
        [purpose, *(f"## {heading}\n{text}" for heading, text in zip(HEADINGS[2:], others, strict=True))]
    )
    return PhaseGuide(phase=phase, purpose=purpose, enter=enter, text=text)
