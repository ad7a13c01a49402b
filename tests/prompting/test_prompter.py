"""Filling in the prompts of a conversation: what is known now is in them, and equal knowledge gives equal bytes."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tenex.core.config import Policy
from tenex.core.context.window import request_tokens, tokens
from tenex.core.ids import Slug
from tenex.core.messages import AgentText, Note, Shown, ToolSpec, UserText
from tenex.core.phases import Phase
from tenex.core.state.agent import AgentPhaseState
from tenex.core.state.memory import Window
from tenex.core.state.run import Run
from tenex.prompting import PromptLibrary, builtin_prompts
from tenex.prompting.prompter import DATA, ConversationPrompter
from tests.fakes.agent_phases import with_program
from tests.fakes.scenario import Scenario, reply, rules
from tests.fakes.subagents import calls_to, with_subagents


def prompter(
    lessons: dict[str, list[str]] | None = None,
    notes: Sequence[str | None] = (None,),
    budget: int = 100_000,
    *,
    library: PromptLibrary | None = None,
    config: Policy | None = None,
    tools: Sequence[ToolSpec] = (),
) -> ConversationPrompter:
    return ConversationPrompter(
        library or PromptLibrary.load(builtin_prompts()),
        rules=rules if config is None else lambda: config,
        tools=lambda phase, slug: tuple(tools),
        lessons=lambda slug, _: (lessons or {}).get(slug, []),
        workspace_notes=lambda: notes[0],
        project_name="demo",
        budget=budget,
    )


def at_work() -> tuple[Scenario, Run]:
    scenario = Scenario(
        lambda q: {"agents": ["executor"], "phase": "execute", "reason": "build"}, lambda c, m: reply("done")
    )
    scenario.user_writes("Build it")
    scenario.step()
    return scenario, next(iter(scenario.conversation.runs.values()))


def at_route() -> Scenario:
    scenario = Scenario(lambda q: {"agents": ["USER"], "reason": "wait"}, lambda c, m: reply("done"))
    scenario.user_writes("Build it")
    return scenario


def calling(config: Policy) -> Scenario:
    """A scenario in which the executor has called the planner."""
    scenario = Scenario(
        lambda q: {"agents": ["executor"], "phase": "execute", "reason": "build"},
        lambda c, m: reply("", *calls_to("planner", message="how?")),
        config=config,
    )
    scenario.user_writes("a secret of the conversation")
    while len(scenario.conversation.runs) < 2:
        scenario.step()
    return scenario


def test_lessons_and_notes_known_now_are_in_an_agents_prompt_and_old_ones_are_not() -> None:
    lessons: dict[str, list[str]] = {}
    notes: list[str | None] = [None]
    prompts, (scenario, run) = prompter(lessons, notes), at_work()
    bare = prompts.work(scenario.conversation, run).system
    assert prompts.work(scenario.conversation, run).system == bare
    lessons["executor"], notes[0] = ["close the gap"], "use tabs"
    prompt = prompts.work(scenario.conversation, run).system
    assert "close the gap" in prompt
    assert "use tabs" in prompt
    lessons["executor"] = []
    assert "close the gap" not in prompts.work(scenario.conversation, run).system


def test_a_prompt_names_messages_by_their_record_and_ends_with_the_part() -> None:
    prompts, (scenario, run) = prompter(), at_work()
    scenario.conversation.window = Window()  # as before its run began
    entries = prompts.work(scenario.conversation, run).entries
    assert isinstance(entries[0], Shown)
    assert isinstance(entries[-1], Note)
    assert entries[-1].title == "Your part"
    assert run.entries[0] == UserText(author="alice", text="Build it", role="owner", key="a" * 64), (
        "the fold puts the prompts in"
    )


def test_sub_agents_that_may_be_called_are_named_and_a_called_one_sees_only_its_message() -> None:
    config = with_subagents(rules(), executor=["planner"])
    prompts, scenario = prompter(config=config), calling(config)
    caller, called = scenario.conversation.runs.values()
    assert "You have `to_planner`, and no others" in prompts.work(scenario.conversation, caller).system
    prompt = prompts.work(scenario.conversation, called)
    assert "to_planner" not in prompt.system
    assert [entry.title for entry in prompt.entries if isinstance(entry, Note)] == ["The phase: execute", "Your part"]
    assert prompt.entries[2:] == (AgentText(author="Executor", text="how?"),)


def test_the_routers_question_holds_the_schema_and_the_roster() -> None:
    request = prompter().route(at_route().conversation)
    assert request.purpose == "route"
    assert request.agent == Slug("orchestrator")
    assert request.output_schema is not None
    note = request.entries[0]
    assert isinstance(note, Note)
    assert '"Build it"' in note.text


def phase_note(prompts: ConversationPrompter, scenario: Scenario, run: Run) -> str:
    """The note on the phase, which comes after all messages and before the part."""
    entries = prompts.work(scenario.conversation, run).entries
    notes = [entry for entry in entries if isinstance(entry, Note)]
    place = next(at for at, entry in enumerate(notes) if entry.title.startswith("The phase: "))
    assert all(isinstance(entry, Note) for entry in entries[-len(notes[place:]) :])
    return notes[place].text


def test_a_prompt_is_rendered_once_for_equal_knowledge_and_again_for_other_tools() -> None:
    tools = [ToolSpec(name="ask", description="Asks.", parameters={})]
    prompts, (scenario, run) = prompter(tools=tools), at_work()
    first = prompts.work(scenario.conversation, run).system
    assert prompts.work(scenario.conversation, run).system is first
    assert "`ask` waits" in first
    tools.clear()
    assert "`ask`" not in prompts.work(scenario.conversation, run).system


def test_the_note_names_what_the_phase_permits_and_the_prompt_is_that_of_every_phase() -> None:
    specs = {name: ToolSpec(name=name, description="", parameters={}) for name in ("read_file", "learn", "complete")}
    permitted = {Phase.EXECUTE: ("read_file", "complete"), Phase.REFLECTION: ("learn", "complete"), None: tuple(specs)}
    prompts, (scenario, run) = prompter(), at_work()
    prompts._tools = lambda phase, slug: tuple(specs[name] for name in permitted[phase])
    first = prompts.work(scenario.conversation, run).system
    assert "You may use all your tools but `learn`." in phase_note(prompts, scenario, run)
    reflecting = dataclasses.replace(run, phase=Phase.REFLECTION)
    assert prompts.work(scenario.conversation, reflecting).system is first
    assert "You may use all your tools but `read_file`." in phase_note(prompts, scenario, reflecting)


def test_the_workspace_is_described_to_an_agent_that_may_list_it_and_its_tests_to_one_that_runs_commands() -> None:
    specs = {name: ToolSpec(name=name, description="", parameters={}) for name in ("list_files", "shell", "complete")}
    permitted = {
        Phase.EXECUTE: tuple(specs),
        Phase.PLAN: ("list_files",),
        Phase.CHAT: ("complete",),
        None: tuple(specs),
    }
    prompts, (scenario, run) = prompter(), at_work()
    prompts._tools = lambda phase, slug: tuple(specs[name] for name in permitted[phase])
    prompts._files = lambda runs: f"Its files: a.py.{' Its tests: make test.' if runs else ''}"
    shown = {}
    for phase in (Phase.EXECUTE, Phase.PLAN, Phase.CHAT):
        entries = prompts.work(scenario.conversation, dataclasses.replace(run, phase=phase)).entries
        (text,) = [entry.text for entry in entries if isinstance(entry, Note) and entry.title.startswith("The phase: ")]
        shown[phase] = text.partition("## The workspace\n")[2]
    assert shown == {
        Phase.EXECUTE: "Its files: a.py. Its tests: make test.",
        Phase.PLAN: "Its files: a.py.",
        Phase.CHAT: "",
    }


def test_the_routers_corrections_in_other_conversations_are_shown_to_it_and_its_own_once() -> None:
    corrections = [f"A refused decision: There is no agent '{n}'." for n in range(30)]
    scenario = at_route()
    scenario.conversation.router_lessons = ("There is no agent '28'.",)
    note = prompter({"orchestrator": corrections}).route(scenario.conversation).entries[0]
    assert isinstance(note, Note)
    lessons = json.loads(note.text)["lessons"]
    assert len(lessons) == 12
    assert lessons[-2:] == [corrections[29], "There is no agent '28'."]
    assert corrections[28] not in lessons


@pytest.mark.parametrize("budget", [4_000, 8_000, 16_000, 32_000, 100_000])
def test_a_small_budget_leaves_room_for_the_work(budget: int) -> None:
    notes: list[str | None] = ["n" * 200_000]
    prompts = prompter({"executor": [f"lesson {n} " + "x" * 900 for n in range(50)]}, notes, budget)
    scenario = Scenario(
        lambda q: {"agents": ["executor"], "phase": "execute", "reason": "r" * 2_000}, lambda c, m: reply("done")
    )
    scenario.user_writes("Build it " + "p" * 60_000)
    question = prompts.route(scenario.conversation)
    if budget >= 8_000:
        assert request_tokens(question.system, question.entries, ()) <= budget
    scenario.step()
    run = next(iter(scenario.conversation.runs.values()))
    prompt = prompts.work(scenario.conversation, run)
    bare = prompter(budget=budget).work(scenario.conversation, run)
    assert tokens(prompt.system) - tokens(bare.system) <= 2 * DATA * budget + 250
    assert "lesson 49 " in prompt.system or budget < 8_000
    assert "nnn" in prompt.system


def test_the_task_of_an_agent_may_have_a_template(tmp_path: Path) -> None:
    (tmp_path / "executor.md").write_text(
        "---\nname: E\nrole: works\nkind: worker\nuse_when: asked\nphases: [[a, b, n]]\nstate: {n: 0}\n"
        "input: 'In {{ phase }} of {{ conversation.phase }}: {{ message }}'\n---\nYou work in {{ phase }}.\n"
    )
    library = PromptLibrary.load(builtin_prompts(), tmp_path)
    program = library.definitions[Slug("executor")].program
    assert program is not None
    prompts, (scenario, run) = prompter(library=library, config=with_program(program)), at_work()
    prompt = prompts.work(scenario.conversation, run)
    part = prompt.entries[-1]
    assert isinstance(part, Note)
    assert part.text == "In a of execute: build."
    assert "You work in a." in prompt.system
    scenario.conversation.agent_states = {"executor": AgentPhaseState(phase="b", values={"n": 1})}
    assert "You work in b." in prompts.work(scenario.conversation, run).system


def test_the_template_of_a_called_agent_is_given_only_the_message_of_its_call(
    tmp_path: Path,
) -> None:
    (tmp_path / "planner.md").write_text(
        "---\nname: P\nrole: plans\nkind: worker\nuse_when: asked\nstate: {n: 0}\n"
        "input: 'Asked: {{ message }}'\n---\nYou plan.\n"
    )
    library = PromptLibrary.load(builtin_prompts(), tmp_path)
    planner = library.definitions[Slug("planner")]
    in_python = dataclasses.replace(planner, input="Plan this: {{ user_message }}")  # theirs may name it
    library = dataclasses.replace(library, definitions={**library.definitions, planner.slug: in_python})
    known = rules().roster[Slug("planner")]
    config = with_subagents(rules(), executor=["planner"])
    roster = {**config.roster, known.slug: dataclasses.replace(known, program=planner.program)}
    config = dataclasses.replace(config, roster=roster)
    scenario = calling(config)
    run = list(scenario.conversation.runs.values())[1]
    entries = prompter(library=library, config=config).work(scenario.conversation, run).entries
    assert entries == (Note(title="Your part", text="Plan this: how?"), AgentText(author="Executor", text="how?"))
