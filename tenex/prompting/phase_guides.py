"""Reads what a phase asks of an agent: `prompts/phases/<phase>.md`, five headings in a fixed order."""

from dataclasses import dataclass

from tenex.core.phases import Phase

from .markdown import Section, sections

HEADINGS = ("Purpose", "Enter when", "Do", "Leave when", "Constraints")


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseGuide:
    """A phase in words, checked to be complete."""

    phase: Phase
    purpose: str
    text: str
    """The whole file: it goes into the prompt of every agent that works in the phase, and of no other."""


def read_guide(phase: Phase, text: str, source: str, faults: list[str]) -> PhaseGuide | None:
    """Read a phase's file; whatever is wrong with it is added to `faults`, and then there is no guide."""
    before, *found = sections(text)
    known = len(faults)
    if before.text:
        faults.append(f"{source}:1: text stands before the first heading. Begin with `## {HEADINGS[0]}`.")
    wanted = ", ".join(f"`## {heading}`" for heading in HEADINGS)
    seen: dict[str, Section] = {}
    for section in found:
        where = f"{source}:{section.line}"
        if section.level != 2 or section.heading not in HEADINGS:
            written = f"{'#' * section.level} {section.heading}"
            faults.append(f"{where}: `{written}` is no heading of a phase. The headings are: {wanted}.")
        elif section.heading in seen:
            faults.append(f"{where}: `## {section.heading}` stands there twice. Keep one.")
        else:
            seen[section.heading] = section
            if not section.text:
                faults.append(f"{where}: nothing stands under `## {section.heading}`. Say at least one sentence.")
    faults.extend(
        f"{source}: the heading `## {heading}` is missing. Add it." for heading in HEADINGS if heading not in seen
    )
    if len(seen) == len(HEADINGS) and tuple(seen) != HEADINGS:
        faults.append(f"{source}: the headings stand in another order. Put them so: {wanted}.")
    if len(faults) > known:
        return None
    return PhaseGuide(phase=phase, purpose=seen["Purpose"].text, text=text.strip())
