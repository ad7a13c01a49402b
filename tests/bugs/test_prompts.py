"""What went wrong in what models were shown (B5, B6, B23, B26, B28)."""

# ruff: noqa: N802 (the numbers of the catalogue are written B1)

import inspect
import re

from tenex.core import records as r
from tenex.core.context.transcript import entries_for
from tenex.core.ids import Slug
from tenex.core.messages import Shown, UserText
from tenex.core.phases import Phase
from tenex.prompting import PromptLibrary, builtin_prompts
from tenex.prompting.prompter import ConversationPrompter
from tests.fakes.scenario import WAITS, Router, Scenario, plain_model, route, scenario_at


def library() -> PromptLibrary:
    return PromptLibrary.load(builtin_prompts())


def test_B05_the_routers_prompt_does_not_ask_for_what_its_schema_forbids() -> None:
    """It demanded an empty list of agents for waiting."""
    prompt = library().router_prompt(project_name="demo")
    asked_for = [line for line in prompt.splitlines() if re.search(r"agents`?:\s*\[\s*\]", line)]
    assert all(line.lower().count("never") for line in asked_for), asked_for
    assert '["USER"]' in prompt


def test_B23_each_message_is_shown_once() -> None:
    """An agent that came back was shown the whole history, and again what it had missed."""
    scenario = Scenario(
        Router(route(None, "project-manager"), WAITS, route(None, "project-manager"), WAITS), plain_model
    )
    for text in ("first wish", "second wish", "third wish"):
        scenario.converse(text)
    for started in scenario.records(r.RunStarted):
        shown = [entry.seq for entry in started.entries if isinstance(entry, Shown)]
        assert len(set(shown)) == len(shown)
    last = scenario.records(r.RunStarted)[-1]
    messages = {record.seq for record in scenario.records(r.MessageRecorded)} | {
        record.seq for record in scenario.records(r.MessageSent)
    }
    assert {entry.seq for entry in last.entries if isinstance(entry, Shown)} <= messages
    assert len(scenario.records(r.RunStarted)) > 1, "one that came back"


def test_B26_lessons_are_shown_as_they_were_recorded() -> None:
    """Each was printed with a quality no one had given: `[unknown]`."""
    lessons = ("Dates: write them as the person does.", "Files: read before you write.")
    prompt = library().system_prompt(Slug("executor"), Phase.EXECUTE, tools=(), lessons=lessons, project_name="demo")
    for lesson in lessons:
        assert len(re.findall(rf"^\d+\. {re.escape(lesson)}$", prompt, re.MULTILINE)) == 1
    assert "unknown" not in prompt.lower()


def test_B28_making_a_prompt_fetches_nothing() -> None:
    """Each `nostr:` link of each message was fetched from relays, one after the other, for every prompt."""
    assert not inspect.iscoroutinefunction(ConversationPrompter.work), "without awaiting there is no network"
    assert not inspect.iscoroutinefunction(ConversationPrompter.route)
    linked = "What does nostr:nevent1qqsabc say?"
    scenario = scenario_at(Phase.CHAT, Router(route(None, "project-manager"), WAITS), text=linked).settle()
    run_id = scenario.records(r.RunStarted)[-1].run
    scenario.user_writes("go on", addressed=("project-manager",))
    run = next(iter(scenario.conversation.runs.values()))
    texts = [entry.text for entry in run.entries if isinstance(entry, UserText)]
    assert linked in texts, "a link is shown as the user wrote it"
    assert entries_for(scenario.conversation, run) == entries_for(scenario.conversation, run)
    assert run_id != run.id
