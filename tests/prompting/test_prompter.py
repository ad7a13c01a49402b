"""The prompts of a conversation: what is known now is in them, and equal knowledge gives equal bytes.

Providers cache what a request shares with the one before it from the first byte on; most is shared.
"""

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tenex.core import records as r
from tenex.core.agent_phases.decide import offered
from tenex.core.agent_phases.program import AgentPhaseState
from tenex.core.config import Policy, default_policy
from tenex.core.conversation import Conversation, fold
from tenex.core.effects import Effect, ModelCall, Route
from tenex.core.ids import PublicKey, Slug
from tenex.core.memory.state import Window
from tenex.core.memory.window import request_tokens, tokens
from tenex.core.messages import AgentText, ModelRequest, ModelStep, Note, Shown, ToolSpec, UserText
from tenex.core.phases import Phase
from tenex.core.signals import Signal
from tenex.core.work.run import Run
from tenex.llm.request_params import serialized
from tenex.prompting import PromptLibrary, builtin_prompts
from tenex.prompting.prompter import DATA, ConversationPrompter
from tenex.runtime.seal import prompted
from tenex.tools.dependencies import ToolDependencies
from tenex.tools.registry import ToolRegistry
from tenex.tools.sandbox import RunPolicy
from tenex.tools.standard import standard_tools
from tenex.tools.workspace import Workspace
from tests.fakes.agent_phases import with_program
from tests.fakes.scenario import ID, Scenario, policy, reply
from tests.fakes.subagents import calls_to, with_subagents
from tests.telemetry.kit import whole_conversation

from .conftest import library_with


def prompter(
    lessons: dict[str, list[str]] | None = None,
    notes: Sequence[str | None] = (None,),
    budget: int = 100_000,
    *,
    library: PromptLibrary | None = None,
    config: Policy | None = None,
    tools: dict[Phase | None, tuple[str, ...]] | None = None,
    changes: Callable[[Conversation, Mapping[str, str]], str] = lambda _conversation, _of: "",
) -> ConversationPrompter:
    """One with these tools in each phase; None holds those of all."""
    return ConversationPrompter(
        library or PromptLibrary.load(builtin_prompts()),
        policy=policy if config is None else lambda: config,
        tools=lambda phase, slug: tuple(
            ToolSpec(name=name, description="", parameters={}) for name in (tools or {}).get(phase, ())
        ),
        lessons=lambda slug, _: (lessons or {}).get(slug, []),
        workspace_notes=lambda: notes[0],
        workspace_files=lambda runs: f"Its files: a.py.{' Its tests: make test.' if runs else ''}",
        changes=changes,
        project_name="demo",
        budget=budget,
    )


def scenario(agent: str = "executor", text: str = "Build it", config: Policy | None = None) -> Scenario:
    """One that was asked something, before the router's first answer; the executor calls the planner."""
    made = Scenario(
        lambda q: {"agents": [agent], "phase": "execute", "reason": "build"},
        lambda c, m: reply("", *calls_to("planner", message="how?")),
        config=config,
    )
    made.user_writes(text)
    return made


def at_work(config: Policy | None = None, runs: int = 1) -> tuple[Scenario, Run]:
    """A scenario with so many runs, and the last of them."""
    made = scenario(config=config)
    while len(made.conversation.work.runs) < runs:
        made.step()
    return made, list(made.conversation.work.runs.values())[-1]


def test_what_is_known_now_is_in_a_prompt_which_is_rendered_once_for_equal_knowledge() -> None:
    lessons: dict[str, list[str]] = {}
    notes: list[str | None] = [None]
    tools: dict[Phase | None, tuple[str, ...]] = {None: ("complete",)}
    prompts, (made, run) = prompter(lessons, notes, tools=tools), at_work()
    bare = prompts.work(made.conversation, run).system
    assert prompts.work(made.conversation, run).system is bare
    assert "`complete` ends" in bare
    lessons["executor"], notes[0] = ["close the gap"], "use tabs"
    prompt = prompts.work(made.conversation, run).system
    assert "close the gap" in prompt
    assert "use tabs" in prompt
    lessons["executor"] = []
    tools.clear()
    prompt = prompts.work(made.conversation, run).system
    assert "close the gap" not in prompt
    assert "`complete` ends" not in prompt


@pytest.mark.altered
def test_a_prompt_names_messages_by_their_record_and_ends_with_the_part() -> None:
    prompts, (made, run) = prompter(), at_work()
    window = Window()  # as before its run began
    made.conversation.memory = replace(made.conversation.memory, window=window)
    first, *_, last = prompts.work(made.conversation, run).entries
    assert isinstance(first, Shown)
    assert isinstance(last, Note)
    assert last.title == "Your part"
    shown = UserText(author="alice", text="Build it", role="owner", key="a" * 64)
    assert run.entries[0] == shown, "the fold puts the prompts in"


def test_sub_agents_that_may_be_called_are_named_and_a_called_one_sees_only_its_message() -> None:
    config = with_subagents(policy(), executor=["planner"])
    prompts, (made, called) = prompter(config=config), at_work(config, runs=2)
    caller = next(iter(made.conversation.work.runs.values()))
    assert "You have `to_planner`, and no others" in prompts.work(made.conversation, caller).system
    prompt = prompts.work(made.conversation, called)
    assert "to_planner" not in prompt.system
    assert [entry.title for entry in prompt.entries if isinstance(entry, Note)] == ["The phase: execute", "Your part"]
    assert prompt.entries[2:] == (AgentText(author="Executor", text="how?"),)


def test_the_note_names_what_the_phase_permits_and_the_prompt_is_that_of_every_phase() -> None:
    """It describes the workspace to an agent that may list it, and its tests to one that runs commands."""
    tools: dict[Phase | None, tuple[str, ...]] = {
        Phase.EXECUTE: ("list_files", "shell", "complete"),
        Phase.PLAN: ("list_files", "learn", "complete"),
        Phase.REFLECTION: ("learn", "complete"),
        None: ("list_files", "shell", "learn", "complete"),
    }
    prompts, (made, run) = prompter(tools=tools), at_work()
    found = {}
    for phase in (Phase.EXECUTE, Phase.PLAN, Phase.REFLECTION):
        prompt = prompts.work(made.conversation, dataclasses.replace(run, phase=phase))
        assert prompt.system is prompts.work(made.conversation, run).system
        note = next(entry for entry in prompt.entries if isinstance(entry, Note))
        assert note.title == f"The phase: {phase}"
        assert all(isinstance(entry, Note) for entry in prompt.entries[prompt.entries.index(note) :])
        found[phase] = (note.text.partition("\n")[0], note.text.partition("## The workspace\n")[2])
    assert found == {
        Phase.EXECUTE: ("You may use all your tools but `learn`.", "Its files: a.py. Its tests: make test."),
        Phase.PLAN: ("You may use all your tools but `shell`.", "Its files: a.py."),
        Phase.REFLECTION: ("You may use only `learn`, `complete`.", ""),
    }


@pytest.mark.altered
def test_the_router_is_asked_with_its_corrections_in_other_conversations_and_its_own_once() -> None:
    corrections = [f"A refused decision: There is no agent '{n}'." for n in range(30)]
    made = scenario()
    made.conversation.router = replace(made.conversation.router, lessons=("There is no agent '28'.",))
    request = prompter({"orchestrator": corrections}).route(made.conversation)
    assert (request.purpose, request.agent) == ("route", Slug("orchestrator"))
    assert request.output_schema is not None
    (note,) = request.entries
    assert isinstance(note, Note)
    assert '"Build it"' in note.text
    lessons = json.loads(note.text)["lessons"]
    assert len(lessons) == 12
    assert lessons[-2:] == [corrections[29], "There is no agent '28'."]
    assert corrections[28] not in lessons


@pytest.mark.parametrize("budget", [4_000, 8_000, 32_000])
def test_a_small_budget_leaves_room_for_the_work(budget: int) -> None:
    lessons = {"executor": [f"lesson {n} " + "x" * 900 for n in range(50)]}
    prompts, made = prompter(lessons, ["n" * 200_000], budget), scenario(text="Build it " + "p" * 60_000)
    question = prompts.route(made.conversation)
    assert budget < 8_000 or request_tokens(question.system, question.entries, ()) <= budget
    made.step()
    run = next(iter(made.conversation.work.runs.values()))
    prompt = prompts.work(made.conversation, run)
    bare = prompter(budget=budget).work(made.conversation, run)
    assert tokens(prompt.system) - tokens(bare.system) <= 2 * DATA * budget + 250
    assert "lesson 49 " in prompt.system or budget < 8_000
    assert "nnn" in prompt.system


@pytest.mark.altered
def test_the_task_of_an_agent_may_have_a_template(own: Path) -> None:
    front = "phases: [[a, b, n]]\nstate: {n: 0}\ninput: 'In {{ phase }} of {{ conversation.phase }}: {{ message }}'\n"
    library = library_with(own, "executor", front, "You work in {{ phase }}.")
    program = library.definitions[Slug("executor")].program
    assert program is not None
    prompts, (made, run) = prompter(library=library, config=with_program(program)), at_work()
    prompt = prompts.work(made.conversation, run)
    assert prompt.entries[-1] == Note(title="Your part", text="In a of execute: build.")
    assert "You work in a." in prompt.system
    made.conversation.memory = replace(
        made.conversation.memory, agent_states={"executor": AgentPhaseState(phase="b", values={"n": 1})}
    )
    assert "You work in b." in prompts.work(made.conversation, run).system


def test_the_template_of_a_called_agent_is_given_only_the_message_of_its_call(own: Path) -> None:
    library = library_with(own, "planner", "state: {n: 0}\ninput: 'Asked: {{ message }}'\n", "You plan.")
    planner = library.definitions[Slug("planner")]
    in_python = dataclasses.replace(planner, input="Plan this: {{ user_message }}")  # theirs may name it
    library = dataclasses.replace(library, definitions={**library.definitions, planner.slug: in_python})
    config = with_subagents(policy(), executor=["planner"])
    known = dataclasses.replace(config.roster[planner.slug], program=planner.program)
    config = dataclasses.replace(config, roster={**config.roster, known.slug: known})
    made, run = at_work(config, runs=2)
    entries = prompter(library=library, config=config).work(made.conversation, run).entries
    assert entries == (Note(title="Your part", text="Plan this: how?"), AgentText(author="Executor", text="how?"))


# ---- how much of a request its agent's request before it holds -------------------------------------------------------


BYTES_PER_TOKEN = 4


class Requests(Scenario):
    """A scenario with the built-in agents, prompts and tools, which keeps what would be sent."""

    def __init__(self, library: PromptLibrary, root: Path, router: Any, worker: Any) -> None:
        kit: Any = {"workspace": Workspace(root), "lessons": None, "check": RunPolicy.UNSANDBOXED}
        registry = ToolRegistry(standard_tools(ToolDependencies(**kit)), lambda slug: self.policy.roster.get(slug))
        roster = {one.slug: one.agent(PublicKey(f"{number:064}")) for number, one in enumerate(library.roster)}
        super().__init__(router, worker)
        self.policy = default_policy(roster=roster, tools=registry.rules(), project=policy().project)
        self.specs = registry.specs
        self.prompts = ConversationPrompter(
            library,
            policy=lambda: self.policy,
            tools=self.specs,
            lessons=lambda slug, conversation: (),
            workspace_notes=lambda: None,
            project_name="demo",
        )
        self.sent: list[tuple[str, bytes]] = []

    def _seal(self, conversation: Conversation, record: r.Record) -> r.Record:
        if isinstance(record, r.RunStarted):
            return prompted(conversation, record, self.prompts.work)
        return super()._seal(conversation, record)

    def perform(self, effect: Effect) -> Signal:
        """Keep the request first."""
        if isinstance(effect, ModelCall):
            run = self.conversation.work.runs[effect.run]
            tools = offered(self.conversation, run, self.policy, self.specs)
            about: Any = {"purpose": "work", "agent": run.agent, "phase": run.phase, "tools": tools}
            request = ModelRequest(**about, system=effect.system, entries=effect.entries)
            self.sent.append((run.agent, serialized(request)))
        elif isinstance(effect, Route):
            question = self.prompts.route(self.conversation)
            self.sent.append((question.agent, serialized(question)))
        return super().perform(effect)

    def shared(self) -> float:
        """The share of the requests that have one of the same agent before them."""
        same = whole = 0
        before: dict[str, bytes] = {}
        for agent, text in self.sent:
            if agent in before:
                pairs = enumerate(zip(before[agent], text, strict=False))
                same += next((at for at, (one, two) in pairs if one != two), len(text))
                whole += len(text)
            before[agent] = text
        return same / whole


def done(**arguments: str) -> tuple[str, dict[str, Any]]:
    return ("complete", arguments)


def hello(conversation: Conversation, call: ModelCall) -> ModelStep:
    """Agents that need few steps."""
    run = conversation.work.runs[call.run]
    match run.phase:
        case Phase.EXECUTE:
            end = done(response="I wrote hello.py.", summary="hello.py: new; `python hello.py` prints hello")
            return reply("", ("write_file", {"path": "hello.py", "content": "print('hello')\n"}), end)
        case Phase.VERIFICATION if run.steps == 0:
            return reply("", ("check", {"path": "hello.py"}))
        case Phase.VERIFICATION:
            return reply("", done(response="It prints hello.", verdict="verified"))
        case Phase.CHORES:
            return reply("", done(response="There was nothing to tidy.", summary="nothing to do"))
        case Phase.REFLECTION:
            return reply("", done(response="Nothing here is worth a lesson."))
        case _:
            return reply("I see. Which part of it matters most to you, and what may it cost? " * 3)


def test_of_a_simple_request_most_is_the_same_as_before(library: PromptLibrary, tmp_path: Path) -> None:

    def router(question: dict[str, Any]) -> dict[str, Any]:
        following = {
            "chat": {"phase": "execute", "agents": ["executor"]},
            "execute": {"phase": "verification", "agents": ["project-manager"]},
            "verification": {"phase": "chores", "agents": ["executor"]},
            "chores": {"phase": "reflection", "agents": question["still_to_reflect"]},
        }
        return {**following.get(question["phase"], {"agents": ["END"]}), "reason": "it is next"}

    scenario = Requests(library, tmp_path, router, hello)
    scenario.converse("create hello.py that prints hello")
    assert scenario.conversation.cycle.status == "ended"
    assert scenario.shared() > 0.8, "most runs here have one request, which begins with another phase"
    agents = [text for agent, text in scenario.sent if agent != scenario.policy.project.slug]
    question = next(text for agent, text in scenario.sent if agent == scenario.policy.project.slug)
    assert len(agents) <= 6
    assert (sum(map(len, agents)) + len(question)) / BYTES_PER_TOKEN < 15_000


def test_over_a_hundred_messages_of_chat_most_is_the_same_as_before(library: PromptLibrary, tmp_path: Path) -> None:
    def router(question: dict[str, Any]) -> dict[str, Any]:
        answered = question["turns"] and question["messages"][-1]["after_turn"] != question["turns"][-1]["turn"]
        return {"agents": ["USER" if answered else "project-manager"], "reason": "they talk"}

    scenario = Requests(library, tmp_path, router, hello)
    for number in range(100):
        scenario.converse(f"Part {number} of what I plan: it matters, and it should be simple. " * 3)
    scenario.sent = [sent for sent in scenario.sent if sent[0] == Slug("project-manager")]
    assert len(scenario.sent) == 100
    assert scenario.shared() > 0.9


def test_what_is_possible_permits_every_decision_that_the_rules_accept_and_no_other_agent() -> None:
    """Some servers hold a model to it, and then nothing else can be decided."""
    made = whole_conversation()
    prompts = prompter(config=made.policy)
    records = [record for decision in made.journal for record in decision]
    routed = [record for record in records if isinstance(record, r.Routed)]
    assert len({record.phase for record in routed}) > 5
    for record in routed:
        request = prompts.route(fold(ID, records[: records.index(record)]))
        assert request.possible is not None
        schema = Draft202012Validator(request.possible)
        decision: dict[str, Any] = {"agents": list(record.agents), "reason": record.reason}
        if record.phase is not None:
            decision["phase"] = str(record.phase)
        assert list(schema.iter_errors(decision)) == []
        for wrong in ({"agents": ["roster"]}, {"phase": "deploy"}, {"reason": " " * 16_000}):
            assert not schema.is_valid({**decision, **wrong})


def test_who_verifies_is_shown_what_the_cycle_has_changed() -> None:
    made = scenario()
    made.step()
    run = next(iter(made.conversation.work.runs.values()))
    patch = "-old\n+new\n" * 2_000
    prompts = prompter(changes=lambda _, of: patch if of == {"cycle": "1"} else "")
    for phase, is_shown in ((Phase.VERIFICATION, True), (Phase.EXECUTE, False), (Phase.CHORES, False)):
        entries = prompts.work(made.conversation, replace(run, phase=phase)).entries
        shown = [
            entry.text for entry in entries if isinstance(entry, Note) and entry.title == "What this cycle changed"
        ]
        assert len(shown) == is_shown
        assert all("+new" in text and len(text) < len(patch) for text in shown)
