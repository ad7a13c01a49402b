"""Every point the seed makes about a phase is made in our prompts, in our words."""

import pytest

from tenex.core.phases import Phase
from tenex.prompting import PromptLibrary
from tenex.prompting.markdown import sections
from tenex.prompting.phase_guides import HEADINGS

PURPOSE, ENTER, DO, LEAVE, CONSTRAINTS = HEADINGS

TABLE = {
    Phase.CHAT: {
        PURPOSE: "Find out what the person wants",
        ENTER: "in more than one way, or is unclear",
        DO: "Make the person's intent clear | Ask for the context that is missing | Have the requirements confirmed",
        LEAVE: "are clear and can be acted on",
        CONSTRAINTS: (
            "Do not analyse the code base | Do not attempt the implementation | "
            "Keep to what the person means and why | neither read nor change the workspace"
        ),
    },
    Phase.BRAINSTORM: {
        PURPOSE: "Explore together with the person, widely and creatively",
        ENTER: 'The question is open | wonders "what if"',
        DO: "Look for possibilities | Offer several alternatives | Solve problems creatively",
        LEAVE: "The person has written since this phase began and asks to move on",
        CONSTRAINTS: (
            "Welcome the open end | Do not hurry towards one solution | Ask questions that probe | "
            "cannot change files or run anything"
        ),
    },
    Phase.PLAN: {
        PURPOSE: "Settle the technical design",
        ENTER: "complex and needs design decisions",
        DO: "Write the technical specification | Design the architecture | Plan the way there",
        LEAVE: "approved and ready to be carried out",
        CONSTRAINTS: (
            "Design the system; do not implement it | Plan only what is truly complex | "
            "must be one that can be acted on | cannot change files or run anything"
        ),
    },
    Phase.EXECUTE: {
        PURPOSE: "Build what was asked for",
        ENTER: "requirements are clear and can be acted on",
        DO: "Write the code | Modify the files | Run the commands | Implement the whole feature",
        LEAVE: "The implementation is complete",
        CONSTRAINTS: (
            "Use the tool that fits | Deliver the output that was requested | "
            "Explain the decisions that matter | a path that leads out of it is refused"
        ),
    },
    Phase.VERIFICATION: {
        PURPOSE: "Find out whether what was built works",
        ENTER: "The execute phase is complete",
        DO: "Test the functionality | verify that each is met | Identify the issues",
        LEAVE: ("The work is verified, or its issues are identified | Without a verdict the work counts as unverified"),
        CONSTRAINTS: (
            "Judge what it does | Take the user's perspective | so that it can be reproduced | "
            "You cannot change files here"
        ),
    },
    Phase.CHORES: {
        PURPOSE: "Leave the project tidy",
        ENTER: "Verification was successful",
        DO: "Update documentation | Format this cycle's code | Clean up temporary artifacts | Keep files organised",
        LEAVE: "The cleanup is complete",
        CONSTRAINTS: (
            "Keep to the recent work | Keep the project's organisation | "
            "make sure that the documentation is right | Other changes are refused"
        ),
    },
    Phase.REFLECTION: {
        PURPOSE: "Keep what this cycle taught",
        ENTER: "The chores phase is complete",
        DO: (
            "Record lessons with `learn` | Capture insights about this project | Identify patterns | "
            "Think about your own thinking"
        ),
        LEAVE: "every agent that took part has | You have reflected, once",
        CONSTRAINTS: "Record only what can be acted on | Leave out the trivial | specific to this project",
    },
}

USUAL = {
    Phase.CHAT: {"project-manager"},
    Phase.BRAINSTORM: {"project-manager", "security-expert"},
    Phase.PLAN: {"planner", "security-expert"},
    Phase.EXECUTE: {"executor"},
    Phase.VERIFICATION: {"executor", "project-manager", "security-expert"},
    Phase.CHORES: {"executor"},
    Phase.REFLECTION: {"executor", "planner", "project-manager", "security-expert"},
}
"""Who usually works in a phase; experts advise before and after the work, and do none of it."""


@pytest.mark.parametrize("phase", TABLE)
def test_a_phase_makes_each_point_of_the_seed_under_its_heading(library: PromptLibrary, phase: Phase) -> None:
    guide = library.guides[phase]
    texts = {section.heading or PURPOSE: " ".join(section.text.split()) for section in sections(guide.text)}
    texts[ENTER] = guide.enter
    phrases = [(heading, phrase) for heading, made in TABLE[phase].items() for phrase in made.split(" | ")]
    assert [phrase for heading, phrase in phrases if phrase not in texts[heading]] == []


@pytest.mark.parametrize("phase", Phase)
def test_the_usual_agents_of_a_phase_name_it(library: PromptLibrary, phase: Phase) -> None:
    assert {agent.slug for agent in library.roster if phase in agent.phases} == USUAL[phase]
