"""What went wrong in what models were shown (B5, B26, B28)."""

import inspect
import re

from tenex.core.ids import Slug
from tenex.core.messages import UserText
from tenex.core.phases import Phase
from tenex.prompting import PromptLibrary, builtin_prompts
from tenex.prompting.prompter import ConversationPrompter
from tests.fakes.scenario import Scenario, one_turn, plain_model


def library() -> PromptLibrary:
    return PromptLibrary.load(builtin_prompts())


def test_b05_the_routers_prompt_does_not_ask_for_what_its_schema_forbids() -> None:
    """It demanded an empty list of agents for waiting."""
    prompt = library().router_prompt(project_name="demo")
    asked_for = [line for line in prompt.splitlines() if re.search(r"agents`?:\s*\[\s*\]", line)]
    assert all(line.lower().count("never") for line in asked_for), asked_for
    assert '["USER"]' in prompt


def test_b26_lessons_are_shown_as_they_were_recorded() -> None:
    """Each was printed with a quality no one had given: `[unknown]`."""
    lessons = ("3. Dates: write them as the person does.", "14. Files: read before you write.")
    prompt = library().system_prompt(Slug("executor"), Phase.EXECUTE, tools=(), lessons=lessons, project_name="demo")
    for lesson in lessons:
        assert len(re.findall(rf"^{re.escape(lesson)}$", prompt, re.MULTILINE)) == 1
    assert "unknown" not in prompt.lower()


def test_b28_making_a_prompt_fetches_nothing() -> None:
    """Each `nostr:` link of each message was fetched from relays, one after the other, for every prompt."""
    assert not inspect.iscoroutinefunction(ConversationPrompter.work), "without awaiting there is no network"
    assert not inspect.iscoroutinefunction(ConversationPrompter.route)
    linked = "What does nostr:nevent1qqsabc say?"
    scenario = Scenario(one_turn(), plain_model)
    scenario.user_writes(linked)
    scenario.step()
    (run,) = scenario.conversation.work.runs.values()
    assert linked in [entry.text for entry in run.entries if isinstance(entry, UserText)], "as the user wrote it"
