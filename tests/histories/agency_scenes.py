"""Recorded conversations of agents with their own phases, sub-agents and output states."""

import json
from dataclasses import replace
from typing import Any

from tenex.core import records as r
from tenex.core.config import Policy, Replay, ToolRule
from tenex.core.conversation import Conversation
from tenex.core.decide.rollback import state_at
from tenex.core.effects import Key, ModelCall, ToolCall, Work
from tenex.core.ids import Slug
from tenex.core.messages import ModelStep, ToolSpec
from tenex.core.phases import Access
from tenex.core.ports import ToolResult
from tenex.core.signals import AgentStateProvided, ModelFailed, RollBack, ToolReturned
from tenex.core.state.agent import AgentPhaseState, Program, Scope
from tenex.output_states import AgentOutput, Python, Scratchpad, Thinking, ToolCallState
from tenex.output_states.history import step_of
from tenex.output_states.model import read
from tests.fakes.agent_phases import program, with_program
from tests.fakes.scenario import ID, WAITS, Router, Scenario, reply, route, rules, step_until
from tests.fakes.subagents import calls_to, link, model_by_agent, with_subagents

Decisions = list[tuple[r.Record, ...]]
REFUSED = ModelFailed(key=Key(Work.MODEL, 0), message="filtered", retryable=False)
"""Its key is put in by who fails."""


def _sets(field: str, value: Any) -> tuple[str, dict[str, Any]]:
    return "set_state", {"field": field, "value": value}


def _begins(scenario: Scenario, text: str) -> None:
    """Alice writes, the executor is to work once in execute, and then she is waited for."""
    scenario.router = Router(route("execute" if scenario.conversation.phase == "chat" else None, "executor"), WAITS)
    scenario.user_writes(text)


def _call(scenario: Scenario, tool: str) -> ToolCall:
    step_until(
        scenario, lambda it: any(isinstance(e, ToolCall) and e.request.tool == tool for e in it.running.values())
    )
    return next(e for e in scenario.running.values() if isinstance(e, ToolCall) and e.request.tool == tool)


def own_phases() -> Decisions:
    """Every way to move and to be refused; a crash, a changed program, a state set from outside, and going back."""
    edges = (
        ("planning", "lost", lambda me: me.no_such_field),
        ("planning", "research", lambda me: me.plan),
        ("research", "analysis", lambda me: len(me.data) >= 2),
        ("analysis", "planning", None),
        ("research", "planning", lambda me: not me.plan),
    )
    script = [
        reply("", ("send", {"path": "m"}), _sets("plan", "read it 📖"), _sets("plan", 7), ("check", {})),
        reply(
            "",
            ("append_state", {"field": "data", "value": {"n": [1, None]}}),
            ("analysis_to_planning", {}),
            ("send", {"path": "m"}),
        ),
        reply("", ("write_file", {"path": "a"}), ("research_to_planning", {})),
        "it is analysed",
        reply("", ("check", {}), ("teleport", {})),
        "once more",
    ]
    scenario = Scenario(
        Router(WAITS), model_by_agent(executor=script), config=with_program(program(edges, has_triggers=True))
    )
    _begins(scenario, "research it")
    call = _call(scenario, "send")
    moved = ToolResult(
        ok=True, content="sent", values={"data": ["x"], "plan": ""}, moves=(("research", "planning"),), touched=("m",)
    )
    scenario.handle(ToolReturned(key=call.key, result=moved))
    scenario.settle()
    scenario.crash()
    changed = program(
        (("research", "done", lambda me: me.count), ("planning", "research", None)),
        is_settable=False,
        defaults={"plan": "", "count": 0},
        schema={"plan": {"type": "string"}, "count": {"type": "integer"}},
        scopes={},
    )
    scenario.rules = with_program(changed)
    scenario.handle(
        AgentStateProvided(
            agent=Slug("executor"), agent_state=AgentPhaseState(phase="research", values={"plan": "p", "gone": 1})
        )
    )
    scenario.worker = model_by_agent(executor=[reply("", ("check", {})), reply("", ("send", {"path": "m"})), "done"])
    _begins(scenario, "go on")
    call = _call(scenario, "check")
    scenario.handle(ToolReturned(key=call.key, result=ToolResult(ok=True, content="one", values={"count": 1})))
    _call(scenario, "send")
    scenario.crash()
    scenario.settle()
    first = next(record for record in scenario.records(r.AgentPhaseChanged))
    then = state_at(ID, scenario.records(), first.seq)
    scenario.handle(RollBack(to=then.next_seq - 1, then=then, by="the operator", reason="it went astray"))
    _begins(scenario, "from there on")
    scenario.settle()
    return scenario.journal


def _program(**links: Any) -> Program:
    return program(
        (("asking", "building", lambda me: me.n), ("building", "asking", lambda me: me.n > 1)),
        defaults={"n": 0},
        schema={"n": {"type": "integer"}},
        links=links,
        scopes={},
    )


def household() -> Policy:
    known = with_subagents(rules(), helper=["planner", "executor"])
    planner = replace(known.roster[Slug("planner")], program=_program())
    known = replace(known, roster={**known.roster, planner.slug: planner})
    own = _program(
        to_helper=link("helper"),
        to_security=link("security", is_shared=True),
        to_planner=link("planner", scope=Scope(phases=frozenset({"building"})), is_shared=True),
    )
    return with_program(own, known)


def sub_agents() -> Decisions:
    """Sub-agents that call sub-agents, one of whom asks; some at once, one that fails, crashes, a stop and a retry."""
    models: dict[str, list[Any]] = {
        "executor": [
            reply(
                "",
                *calls_to("planner"),
                *calls_to("helper", "security", message="which colour?"),
                ("write_file", {"path": "a"}),
            ),
            reply(
                "",
                _sets("n", 1),
                *calls_to("planner"),
                *calls_to("planner", message="and again"),
                *calls_to("helper", message=" "),
            ),
        ],
        "helper": [reply("", *calls_to("executor"), *calls_to("planner", message="does she like blue?"))],
        "planner": [reply("", _sets("n", 1), ("ask", {"question": "Blue?"}), ("send", {"path": "m"}))],
        "security": [reply("", ("read_file", {"path": "a"})), REFUSED, REFUSED, REFUSED],
    }
    scenario = Scenario(Router(WAITS), model_by_agent(**models), config=household())
    _begins(scenario, "build it")
    scenario.settle(seed=3)
    assert scenario.conversation.is_parked or scenario.conversation.asks
    scenario.crash()
    scenario.settle()
    _answers(scenario, "yes, blue")
    _call(scenario, "send")
    scenario.crash()
    scenario.settle()
    while scenario.conversation.asks:
        _answers(scenario, "yes")
        scenario.settle()
    _begins(scenario, "once more")
    step_until(scenario, lambda it: sum(run.parent is not None for run in it.conversation.runs.values()) > 1)
    scenario.converse("/stop")
    scenario.converse("/retry")
    scenario.crash()
    while scenario.conversation.asks:
        _answers(scenario, "no")
        scenario.settle()
    assert scenario.conversation.status == "waiting"
    return scenario.journal


def _answers(scenario: Scenario, text: str) -> None:
    scenario.user_writes(text, reply_to=next(iter(scenario.conversation.asks)))


THOUGHT = "I shall read the file first, because nobody has told me what it says."
NOTE = "The file is called notes.txt; its second line has the number we want."
PROGRAM = 'print("home", 6 * 7)'


def by_states(text: str) -> ModelStep:
    """The step that is made of an answer by states."""
    tools = [ToolSpec(name=name, description="", parameters={"type": "object"}) for name in _TOOLS]
    held = AgentOutput([Thinking, Scratchpad], [ToolCallState, Python], 0, 3).format_for(tools)
    assert held is not None
    segments, wrong = read(held, text, "none")
    assert not wrong, wrong
    return step_of(replace(reply(text), thinking="by itself"), held, segments)


_TOOLS = ("read_file", "complete", "ask", "python")


def fenced(name: str, text: str) -> str:
    return f"```{name}\n{text}\n```\n"


def _tool(tool: str, **arguments: str) -> str:
    return fenced("tool", json.dumps({"name": tool, "arguments": arguments}))


def output_states() -> Decisions:
    """Private plans, a tool, a program that is cut off and reported as unknown, one refused, a question, and words."""
    answers = [
        fenced("thinking", THOUGHT) + fenced("scratchpad", NOTE) + _tool("read_file", path="notes.txt"),
        fenced("scratchpad", NOTE) + fenced("python", PROGRAM),
        fenced("thinking", THOUGHT) + fenced("python", PROGRAM),
        _tool("ask", question="Which of the two?"),
        fenced("thinking", THOUGHT) + _tool("complete", response="The answer is 42.", summary="done"),
    ]

    def worker(conversation: Conversation, call: ModelCall) -> Any:
        run = conversation.runs[call.run]
        if run.phase == "verification":
            words = (fenced("python", PROGRAM), _tool("complete", response="It is 42.", verdict="verified"))
            return by_states(words[min(run.steps, 1)])
        return by_states(answers[min(run.steps, len(answers) - 1)])

    known = rules()
    python = ToolRule(name="python", access=Access.RUN, replay=Replay.ONCE)
    executor = known.roster[Slug("executor")]
    executor = replace(executor, tools=frozenset({*executor.tools, "python"}))
    known = replace(known, tools={**known.tools, "python": python}, roster={**known.roster, executor.slug: executor})

    def router(question: dict[str, Any]) -> Any:
        way = {"chat": "plan", "plan": "execute", "execute": "verification"}
        if question["phase"] == "verification":
            return {"agents": ["USER"], "reason": "the person is next"}
        return route(way[question["phase"]] if question["turns"] else None, "executor")

    scenario = Scenario(router, worker, config=known)
    scenario.user_writes("What is six times seven?")
    for _ in ("chat", "plan"):  # where programs are refused
        step_until(scenario, lambda it: bool(it.conversation.asks))
        _answers(scenario, "the first")
    _call(scenario, "python")
    scenario.crash()
    scenario.settle()
    while scenario.conversation.asks:
        _answers(scenario, "the second")
        scenario.settle()
    scenario.crash()
    assert scenario.conversation.status == "waiting"
    return scenario.journal
