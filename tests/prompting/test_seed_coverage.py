"""Every point the seed makes about a phase is made in our prompts, in our words.

For readers too: left, what the seed asks for, in other words; right, the phrase in our prompts.
"""

import pytest

from tenex.core.config import AgentKind
from tenex.core.phases import Phase
from tenex.prompting import PromptLibrary
from tenex.prompting.markdown import sections
from tenex.prompting.phase_guides import HEADINGS

PURPOSE, ENTER, DO, LEAVE, CONSTRAINTS = HEADINGS

TABLE: dict[Phase, list[tuple[str, str, str]]] = {
    Phase.CHAT: [
        ("requirements are gathered and made clear", PURPOSE, "Find out what the person wants"),
        ("entered where a request is unclear or has two meanings", ENTER, "in more than one way, or is unclear"),
        ("what the person means is clarified", DO, "Make the person's intent clear"),
        ("context that lacks is collected", DO, "Ask for the context that is missing"),
        ("the person confirms the requirements", DO, "Have the requirements confirmed"),
        ("left once somebody can act on the requirements", LEAVE, "are clear and can be acted on"),
        ("the code is not studied", CONSTRAINTS, "Do not analyse the code base"),
        ("nothing is built", CONSTRAINTS, "Do not attempt the implementation"),
        ("meaning comes before method", CONSTRAINTS, "Keep to what the person means and why"),
        ("code: no reading, no changing", CONSTRAINTS, "neither read nor change the workspace"),
    ],
    Phase.BRAINSTORM: [
        ("ideas are explored freely", PURPOSE, "Explore together with the person, widely and creatively"),
        ("entered with an open question", ENTER, "The question is open"),
        ("entered with a supposition", ENTER, 'wonders "what if"'),
        ("what is possible is explored", DO, "Look for possibilities"),
        ("alternatives are brought up", DO, "Offer several alternatives"),
        ("problems are solved creatively", DO, "Solve problems creatively"),
        ("left when the person says so", LEAVE, "The person has written since this phase began and asks to move on"),
        ("open ends are welcome", CONSTRAINTS, "Welcome the open end"),
        ("no rush to one answer", CONSTRAINTS, "Do not hurry towards one solution"),
        ("probing questions are asked", CONSTRAINTS, "Ask questions that probe"),
        ("code: no changing, no running", CONSTRAINTS, "cannot change files or run anything"),
    ],
    Phase.PLAN: [
        ("the technical design is made", PURPOSE, "Settle the technical design"),
        ("entered with complex tasks and decisions of design", ENTER, "complex and needs design decisions"),
        ("specifications are written", DO, "Write the technical specification"),
        ("the architecture is designed", DO, "Design the architecture"),
        ("the way of building is planned", DO, "Plan the way there"),
        ("left when the plan has been approved and can be built", LEAVE, "approved and ready to be carried out"),
        ("design, not implementation", CONSTRAINTS, "Design the system; do not implement it"),
        ("only for what is truly complex", CONSTRAINTS, "Plan only what is truly complex"),
        ("the plan can be acted on", CONSTRAINTS, "must be one that can be acted on"),
        ("code: no changing, no running", CONSTRAINTS, "cannot change files or run anything"),
    ],
    Phase.EXECUTE: [
        ("what was asked for is built", PURPOSE, "Build what was asked for"),
        ("entered with requirements one can act on", ENTER, "requirements are clear and can be acted on"),
        ("code is written", DO, "Write the code"),
        ("files are changed", DO, "Modify the files"),
        ("commands are run", DO, "Run the commands"),
        ("features are implemented", DO, "Implement the whole feature"),
        ("left when it is complete", LEAVE, "The implementation is complete"),
        ("fitting tools are used", CONSTRAINTS, "Use the tool that fits"),
        ("what was asked for is delivered", CONSTRAINTS, "Deliver the output that was requested"),
        ("main decisions are explained", CONSTRAINTS, "Explain the decisions that matter"),
        ("code: nothing outside the workspace", CONSTRAINTS, "a path that leads out of it is refused"),
    ],
    Phase.VERIFICATION: [
        ("it is checked whether the work works", PURPOSE, "Find out whether what was built works"),
        ("entered after execute", ENTER, "The execute phase is complete"),
        ("functions are tested", DO, "Test the functionality"),
        ("requirements are checked", DO, "verify that each is met"),
        ("issues are found", DO, "Identify the issues"),
        ("left verified, or with issues", LEAVE, "The work is verified, or its issues are identified"),
        ("function counts, not form", CONSTRAINTS, "Judge what it does"),
        ("seen with a user's eyes", CONSTRAINTS, "Take the user's perspective"),
        ("issues can be reproduced", CONSTRAINTS, "so that it can be reproduced"),
        ("code: a verdict is needed", LEAVE, "Without a verdict the work counts as unverified"),
        ("code: no changing", CONSTRAINTS, "You cannot change files here"),
    ],
    Phase.CHORES: [
        ("the project is cleaned up and described", PURPOSE, "Leave the project tidy"),
        ("entered after a good verification", ENTER, "Verification was successful"),
        ("documentation is brought up to date", DO, "Update documentation"),
        ("code is formatted", DO, "Format this cycle's code"),
        ("what was temporary goes", DO, "Clean up temporary artifacts"),
        ("files find their places", DO, "Keep files organised"),
        ("left when it is clean", LEAVE, "The cleanup is complete"),
        ("only recent work", CONSTRAINTS, "Keep to the recent work"),
        ("the project's order stays", CONSTRAINTS, "Keep the project's organisation"),
        ("documentation is as it should be", CONSTRAINTS, "make sure that the documentation is right"),
        ("code: only this cycle's files and documentation", CONSTRAINTS, "Other changes are refused"),
    ],
    Phase.REFLECTION: [
        ("what was learned is kept", PURPOSE, "Keep what this cycle taught"),
        ("entered after chores", ENTER, "The chores phase is complete"),
        ("lessons are recorded", DO, "Record lessons with `learn`"),
        ("insights into this project are kept", DO, "Capture insights about this project"),
        ("patterns are found", DO, "Identify patterns"),
        ("one's own thinking is looked at", DO, "Think about your own thinking"),
        ("left when all that took part have reflected", LEAVE, "every agent that took part has"),
        ("each agent once", LEAVE, "You have reflected, once"),
        ("lessons one can act on", CONSTRAINTS, "Record only what can be acted on"),
        ("nothing trivial", CONSTRAINTS, "Leave out the trivial"),
        ("this project's insights only", CONSTRAINTS, "specific to this project"),
    ],
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


@pytest.mark.parametrize("phase", Phase)
def test_a_phase_makes_each_point_of_the_seed_under_its_heading(library: PromptLibrary, phase: Phase) -> None:
    guide = library.guides[phase]
    texts = {section.heading or PURPOSE: " ".join(section.text.split()) for section in sections(guide.text)}
    texts[ENTER] = guide.enter
    assert [point for point, heading, phrase in TABLE[phase] if phrase not in texts[heading]] == []
    assert {heading for _, heading, _ in TABLE[phase]} == set(HEADINGS)


@pytest.mark.parametrize("phase", Phase)
def test_the_usual_agents_of_a_phase_name_it(library: PromptLibrary, phase: Phase) -> None:
    assert {agent.slug for agent in library.roster if phase in agent.phases} == USUAL[phase]


def test_experts_only_read_and_the_router_knows_what_they_are_for(library: PromptLibrary) -> None:
    changing = {"write_file", "edit_file", "move_file", "delete_file", "check", "shell"}
    assert not [a.slug for a in library.roster if a.kind is AgentKind.EXPERT and changing & set(a.tools)]
    assert "Ask one or two of them before or after the" in library.router_prompt(project_name="demo")
